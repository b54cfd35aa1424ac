package runner

import (
	"encoding/json"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// TurnOption configures one turn.
type TurnOption func(*turnOptions)

type turnOptions struct {
	metadata map[string]any
	state    map[string]any
	results  []Decision
	at       int64 // the position at which the log must end, if pinned
	pinned   bool
	person   bool   // the user asks for a person
	reason   string // why
	id       string // the id of the turn, "" for a new one
	attempt  int    // the number of the attempt to start the turn, from 1
	stays    bool   // a turn that was started before is not continued
}

// WithMetadata stores metadata in the user event, such as the language of the message or the id of the request.
// Models do not see it. It must have a JSON form.
func WithMetadata(metadata map[string]any) TurnOption {
	return func(o *turnOptions) { o.metadata = metadata }
}

// WithState changes the session's state before the agent of the turn starts: each key gets the new value, and nil
// deletes it. Keys with the prefixes "turn:", "user:" and "app:" belong to those scopes. The change is an event of
// the log, in one write with the user's message, so a turn that is resumed has it and does not repeat it. A caller
// that sends a message again, because it does not know whether the first one arrived, starts a second turn with its
// own state, unless [At] prevents it. Values must have a JSON form; numbers keep their digits, see [session.GetAs].
func WithState(state map[string]any) TurnOption {
	return func(o *turnOptions) { o.state = state }
}

// WithResults gives results to calls of the client's tools for which the last turn waits. The message of the new turn
// withdraws those without a result. A result is the Content of an approval, such as [Answer] returns; of several for one
// call the first counts. Decisions about other calls are ignored, and one that does not fit its question makes the turn
// fail before its message is stored.
func WithResults(results ...Decision) TurnOption {
	return func(o *turnOptions) { o.results = results }
}

// CallHuman starts the turn with a handoff to a person, because the user asked for one, for example with a button.
// The desk shows the reason. If the conversation is already with a person, the option changes nothing. The error of
// the turn is [agent.ErrBadInput] if the runner has no desk.
func CallHuman(reason string) TurnOption {
	return func(o *turnOptions) { o.person, o.reason = true, reason }
}

// At starts the turn only if the session's log ends at a position; 0 is an empty log. Otherwise nothing is stored and
// the error is [agent.ErrConflict]: read the session again. If several processes want to start a turn for the same
// reason, only one of them succeeds.
func At(seq int64) TurnOption {
	return func(o *turnOptions) { o.at, o.pinned = seq, true }
}

// WithTurnID sets the id of the turn, which must be unique in the session. It makes starting a turn idempotent: if
// the turn was started before, [Runner.Begin] stores nothing, and [Runner.Run] continues it as Resume does. The
// attempt counts the tries, from 1. From the second try on, the runner searches the last 64 turns for the id, and the
// error is [ErrTurnOver] if another turn has followed. The id is printable ASCII of at most 64 bytes.
func WithTurnID(id string, attempt int) TurnOption {
	return func(o *turnOptions) { o.id, o.attempt = id, attempt }
}

// Pin contains the id and the position that options set for a turn. Engines need it before the runner reads the
// options.
type Pin struct {
	Turn    string // the id of WithTurnID, "" without the option
	Attempt int    // the attempt of WithTurnID, 0 without the option
	At      int64  // the position of At
	Pinned  bool   // the options contain At
}

// PinOf returns the pin that the options of a turn set. If an option is invalid, the error is [agent.ErrBadInput].
func PinOf(opts ...TurnOption) (Pin, error) {
	o, err := optionsOf(opts)
	return Pin{Turn: o.id, Attempt: o.attempt, At: o.at, Pinned: o.pinned}, err
}

// turnOptionsOf checks the message and the options of a turn.
func turnOptionsOf(key session.Key, msg llm.Message, opts []TurnOption) (o turnOptions, err error) {
	if err := checkMessage(key, msg); err != nil {
		return o, err
	}
	return optionsOf(opts)
}

func optionsOf(opts []TurnOption) (o turnOptions, err error) {
	for i, opt := range opts {
		if opt == nil {
			return o, fmt.Errorf("option %d of the turn is nil: %w", i, agent.ErrBadInput)
		}
		opt(&o)
	}
	if o.metadata, err = ownValues(o.metadata, "the metadata of the message"); err == nil {
		o.state, err = ownValues(o.state, "the state of the turn")
	}
	return o, err
}

// ownValues returns a copy of values in the form in which a store returns them. The error names what they are.
func ownValues(values map[string]any, of string) (map[string]any, error) {
	if values == nil {
		return nil, nil
	}
	data, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be stored: %w: %w", of, err, agent.ErrBadInput)
	}
	if event.TooDeep(data) {
		return nil, fmt.Errorf("%s cannot be stored: it is nested deeper than %d levels: %w", of, event.MaxDepth, agent.ErrBadInput)
	}
	stored, ok := event.DecodeValue(data).(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s cannot be stored: it contains a number that no float64 can hold: %w", of, agent.ErrBadInput)
	}
	return stored, nil
}

// checkMessage refuses a message that models cannot receive unchanged.
func checkMessage(key session.Key, msg llm.Message) error {
	if err := session.CheckKey(key); err != nil {
		return err
	}
	if err := llm.CheckUser(msg); err != nil {
		return fmt.Errorf("%w: %w", err, agent.ErrBadInput)
	}
	return nil
}
