package event

import (
	"slices"
	"time"

	"github.com/agentarbor/arbor/llm"
)

// Event is an entry of a session's log, or a streamed delta of one. Its JSON form is one flat object in camel case;
// see docs/events.md.
//
// An agent that yields an event sets Data, and ID, Partial, Attempt and More if they matter. The runner sets the
// other fields. After delivery an event and its payload must not change.
type Event struct {
	// Seq is the position in the session's log, from 1 without gaps. It is 0 for partial events, which are never
	// stored.
	Seq int64
	// ID is unique in the session, with two exceptions: all deltas of a block of text have the id of the block, and a
	// tool call and its result have the same id. The runner sets the id of a call that an agent yields.
	ID string
	// TurnID identifies the user's turn, RunID one run of one agent, and Scope the inner conversation of the run.
	// Scope is "" for the user's own conversation.
	TurnID, RunID, Scope string
	// ParentID is the id of the node that caused the run. Only a run's first event has it.
	ParentID string
	// Agent is the name of the agent that yielded the event, and Path its place in the tree, such as support/billing.
	Agent, Path string
	// Time is the time at which the event was stored, in UTC.
	Time time.Time
	// Partial marks a delta of the model attempt Attempt, which counts from 1.
	Partial bool
	Attempt int
	// Streamed reports that the runner has already delivered this block as deltas. It is not stored and is not in the
	// JSON.
	Streamed bool
	// More joins the event to the next one: the store stores both in one atomic write, or neither. It is not in the
	// JSON.
	More bool
	// Data is the payload.
	Data Data
}

// ClaimedKey in the metadata of a user message marks that the last part of the content is a history that the client
// claims: answers, tool calls and their results.
const ClaimedKey = "arbor.claimed"

// Unclaimed returns the content of the message without a claimed history.
func (u *User) Unclaimed() llm.Content {
	c := u.Content
	if n := len(c.Parts); n > 1 && u.Metadata[ClaimedKey] == true {
		c.Parts = c.Parts[:n-1]
	}
	return c
}

// Text returns the content of a text event, and "" for any other event.
func (e *Event) Text() string {
	if t, ok := e.Data.(*Text); ok {
		return t.Content
	}
	return ""
}

// Visible returns the text that the event adds for the user: a delta, or a complete text that was not delivered as
// deltas before. It returns "" for all other events and for texts of inner scopes (of tools and graphs). A later
// [Discard] may make the text of deltas void.
func (e *Event) Visible() string {
	if e.Scope != "" || e.Streamed {
		return ""
	}
	return e.Text()
}

// IsNotice reports whether the event is a notice with one of the codes.
func (e *Event) IsNotice(codes ...string) bool {
	n, ok := e.Data.(*Notice)
	return ok && slices.Contains(codes, n.Code)
}

// Type returns the payload's type, or "" if there is no payload.
func (e *Event) Type() string {
	if e.Data == nil {
		return ""
	}
	return e.Data.eventType()
}
