package runner

import (
	"encoding/json"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// TurnOption says something about one turn.
type TurnOption func(*turnOptions)

type turnOptions struct {
	metadata map[string]any
	state    map[string]any
	at       int64 // the position that the log must have
	pinned   bool  // it must have that one
	person   bool  // the user wants one
	reason   string
	id       string // of the turn, "" if any will do
	attempt  int    // the how manyth it is to begin it
	stays    bool   // a turn that was begun before does not go on
}

// WithMetadata keeps what belongs to the user's message but is not part of its words
// in the metadata of the user event, such as its language, or the request that it came
// with. No model sees it. It must have a JSON form.
func WithMetadata(metadata map[string]any) TurnOption {
	return func(o *turnOptions) { o.metadata = metadata }
}

// WithState changes the session's state before the turn's agent begins: what it names gets
// a new value, and nil deletes. Keys that begin with "turn:", "user:" or "app:" belong to
// those scopes. The change is an event of the log, stored in one write with the user's
// message, so that a turn which is resumed has it and does not make it again. Who does
// not know whether a message arrived and sends it once more begins a second turn, with
// its own state, unless [At] forbids it. Values must have a JSON form; numbers keep
// their digits, see session.GetAs.
func WithState(state map[string]any) TurnOption {
	return func(o *turnOptions) { o.state = state }
}

// CallHuman begins the turn with the handoff to a person whom the user asked for, for example with
// a button. The reason is shown at the desk. If the conversation is with a person already the
// option changes nothing. The error of the turn is agent.ErrBadInput if the runner has no desk.
func CallHuman(reason string) TurnOption {
	return func(o *turnOptions) { o.person, o.reason = true, reason }
}

// At begins the turn only if the session's log ends at a position, that of the last event
// that was looked at to decide on it; 0 is an empty log. Else nothing is stored, and the
// error is agent.ErrConflict: look again. So of several processes that would begin a turn
// for the same reason, one does.
func At(seq int64) TurnOption {
	return func(o *turnOptions) { o.at, o.pinned = seq, true }
}

// WithTurnID gives the turn its id, which names no other turn of the session, so that a turn is begun once however
// often somebody tries: [Runner.Begin] of a turn that was begun before stores nothing, and Run goes on with it as Resume does. Attempt counts
// the tries, from 1. From the second on, the last 64 turns are looked through, and the error is [ErrTurnOver] if
// another turn has come since. The id is printable ASCII of at most 64 bytes.
func WithTurnID(id string, attempt int) TurnOption {
	return func(o *turnOptions) { o.id, o.attempt = id, attempt }
}

// Pin is what binds a turn to an id or a position, for engines that have to know it before the runner does.
type Pin struct {
	Turn    string // of WithTurnID, "" without it
	Attempt int    // the same
	At      int64  // of At, if there is a position
	Pinned  bool   // there is one
}

// PinOf reads the options of a turn. An error is agent.ErrBadInput.
func PinOf(opts ...TurnOption) (Pin, error) {
	o, err := optionsOf(opts)
	return Pin{Turn: o.id, Attempt: o.attempt, At: o.at, Pinned: o.pinned}, err
}

// turnOptionsOf checks what a turn is to begin with.
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

// ownValues returns values as they come back from their JSON form, so that they are
// nobody else's to change, or an error that says of what they are.
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
		return nil, fmt.Errorf("%s cannot be stored: a number in it is beyond all that Go has room for: %w", of, agent.ErrBadInput)
	}
	return stored, nil
}

// checkMessage refuses what no model could be given word for word.
func checkMessage(key session.Key, msg llm.Message) error {
	if err := session.CheckKey(key); err != nil {
		return err
	}
	if err := llm.CheckUser(msg); err != nil {
		return fmt.Errorf("%w: %w", err, agent.ErrBadInput)
	}
	return nil
}
