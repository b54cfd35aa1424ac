package human

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/agentarbor/arbor/agent"
)

// ErrUnavailable reports that the desk cannot take a handoff: it is closed, full, or no person works there. The runner
// does not try again.
var ErrUnavailable = errors.New("human: the desk is not available")

// ErrGone reports that the handoff is over, or that the desk or the session has never known it.
var ErrGone = errors.New("human: the handoff is gone")

// Desk is where people answer. Its methods are called by many goroutines at the same time. [ErrUnavailable] and
// [ErrGone] are final; the runner repeats a call with any other error, for as long as [WithPatience] allows.
type Desk interface {
	// RequestTransfer asks for a person. After a crash the runner may call it again with the same Request.ID, which
	// means the same handoff.
	RequestTransfer(ctx context.Context, r Request) (Update, error)
	// Send sends the desk the messages of the user, oldest first. After a crash a message may come again with the same
	// ID, and counts once.
	Send(ctx context.Context, leg Leg, messages []Message) error
	// Cancel reports that the user cancelled the handoff. The runner may call it again.
	Cancel(ctx context.Context, leg Leg, reason string) error
}

// Leg identifies one handoff, from the request to its end. It is comparable.
type Leg struct {
	ID      string           `json:"handoffId"` // unique in the session
	Session agent.SessionKey `json:"session"`
}

// Request asks for a person.
type Request struct {
	Leg
	From          string    `json:"from,omitempty"`          // the agent that asks for the person
	Reason        string    `json:"reason,omitempty"`        // why: the text of a rule, a model or the user
	RouteDecision string    `json:"routeDecision,omitempty"` // the target that a router chose; empty if none did
	GraphPath     []string  `json:"graphPath,omitempty"`     // the names from the outermost router down; empty without a router
	Conversation  []Message `json:"conversation,omitempty"`  // the messages so far, oldest first
}

// Message is one message of the conversation.
type Message struct {
	ID     string    `json:"id"`     // unique in the session
	Author string    `json:"author"` // "user" or the name of an agent
	Text   string    `json:"text"`
	Time   time.Time `json:"time"`
}

// Update is a change of a handoff that a desk reports. The zero Status means [Queued] in the answer to a request, and
// an unchanged status in an [Event].
type Update struct {
	Status        Status         `json:"status,omitempty"`
	TargetAgent   string         `json:"targetAgent,omitempty"`   // the person or queue; with a final status the agent that continues
	Reason        string         `json:"reason,omitempty"`        // why
	QueuePosition *int           `json:"queuePosition,omitempty"` // 1 is next; nil if unknown
	EstimatedWait *time.Duration `json:"-"`                       // nil if unknown
}

// Event is what a desk reports to a session: a new status, a text for the user, or both. Its JSON has the members id,
// handoffId, status, text, targetAgent, reason, queuePosition and estimatedWaitTime, which is a number of seconds;
// members without a value are left out.
type Event struct {
	ID        string // unique in the handoff: an event with the same ID changes nothing
	HandoffID string // the ID of the [Leg]
	Update
	Text string
}

const (
	maxID   = 256  // bytes of the ID of an event or a leg
	maxWait = 1e9  // seconds, about 30 years
	maxText = 4096 // bytes of a target agent or a reason
)

// Validate returns an error if no session can accept the event: an ID is missing, longer than 256 bytes or has control
// characters; the status is unknown; a number is negative; the target or the reason has more than 4096 bytes; or the
// event is empty.
func (e Event) Validate() error {
	for _, id := range []struct{ name, value string }{{"id", e.ID}, {"handoffId", e.HandoffID}} {
		if id.value == "" || len(id.value) > maxID || strings.ContainsFunc(id.value, unicode.IsControl) {
			return fmt.Errorf("human: %s must be 1 to %d bytes without control characters", id.name, maxID)
		}
	}
	if e.Update == (Update{}) && e.Text == "" {
		return errors.New("human: an event needs a status, a text or another member that changes something")
	}
	return e.Update.validate()
}

func (u Update) validate() error {
	switch {
	case u.Status != "" && (u.Status == None || !u.Status.Known()):
		return fmt.Errorf("human: status must be one of requested, queued, connecting, ringing, connected, on_hold, completed, ended, cancelled and failed, not %.40q", string(u.Status))
	case len(u.TargetAgent) > maxText || len(u.Reason) > maxText:
		return fmt.Errorf("human: targetAgent and reason must be at most %d bytes", maxText)
	case u.QueuePosition != nil && *u.QueuePosition < 0:
		return errors.New("human: queuePosition must not be below zero")
	case u.EstimatedWait != nil && *u.EstimatedWait < 0:
		return errors.New("human: estimatedWaitTime must not be below zero")
	default:
		return nil
	}
}

// eventJSON is the JSON form of an event, and of an update without the IDs and the text.
type eventJSON struct {
	ID        string `json:"id,omitempty"`
	HandoffID string `json:"handoffId,omitempty"`
	update
	Text string   `json:"text,omitempty"`
	Wait *float64 `json:"estimatedWaitTime,omitempty"` // seconds
}

// update has the fields of Update without its methods, so that encoding/json encodes the fields.
type update Update

// MarshalJSON encodes the members that have a value.
func (e Event) MarshalJSON() ([]byte, error) {
	s := eventJSON{ID: e.ID, HandoffID: e.HandoffID, update: update(e.Update), Text: e.Text}
	if e.EstimatedWait != nil {
		s.Wait = new(e.EstimatedWait.Seconds())
	}
	return json.Marshal(s)
}

// UnmarshalJSON decodes the JSON of MarshalJSON and ignores unknown members. It returns the error of [Event.Validate].
func (e *Event) UnmarshalJSON(b []byte) error {
	read, err := readEvent(b)
	if err = cmp.Or(err, read.Validate()); err == nil {
		*e = read
	}
	return err
}

// MarshalJSON encodes an update like the same members of an [Event].
func (u Update) MarshalJSON() ([]byte, error) { return Event{Update: u}.MarshalJSON() }

// UnmarshalJSON decodes the JSON of MarshalJSON and ignores unknown members. It returns an error for an invalid update.
func (u *Update) UnmarshalJSON(b []byte) error {
	read, err := readEvent(b)
	if err = cmp.Or(err, read.validate()); err == nil {
		*u = read.Update
	}
	return err
}

func readEvent(b []byte) (Event, error) {
	var s eventJSON
	if err := json.Unmarshal(b, &s); err != nil {
		return Event{}, fmt.Errorf("human: cannot read the JSON of a desk's event: %w", err)
	}
	e := Event{ID: s.ID, HandoffID: s.HandoffID, Update: Update(s.update), Text: s.Text}
	if s.Wait != nil {
		if *s.Wait > maxWait {
			return Event{}, fmt.Errorf("human: estimatedWaitTime must be at most %.0f seconds", maxWait)
		}
		e.EstimatedWait = new(time.Duration(*s.Wait * float64(time.Second)))
	}
	return e, nil
}

// Log is a desk for programs that read what users write from the session's log, and answer with runner.Runner.Deliver.
// It notifies no one, and every handoff is queued. The zero value is ready to use.
type Log struct{}

// RequestTransfer returns [Queued].
func (Log) RequestTransfer(context.Context, Request) (Update, error) {
	return Update{Status: Queued}, nil
}

// Send does nothing, because the log has the message.
func (Log) Send(context.Context, Leg, []Message) error { return nil }

// Cancel does nothing, because the log has the cancellation.
func (Log) Cancel(context.Context, Leg, string) error { return nil }
