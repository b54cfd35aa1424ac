package event

import (
	"time"

	"github.com/agentarbor/arbor/llm"
)

// Event is one entry of a session's log, or a streamed delta on its way to it.
// Its JSON form is one flat object in camel case; see docs/events.md.
//
// An agent that yields an event sets Data, and ID, Partial, Attempt and More
// where they matter; the runner fills in the rest. After delivery an event and
// its payload are immutable.
type Event struct {
	// Seq is the position in the session's log, from 1 without gaps; 0 on
	// partial events, which are never stored.
	Seq int64
	// ID is unique in the session. All deltas of one block of text share the id
	// of the block; a tool call and its result share the call's id, which the
	// runner gives the call when an agent yields it, whatever the agent set.
	ID string
	// TurnID names the user's turn, RunID one activation of one agent, Scope the
	// inner conversation the run belongs to (empty for the user's own).
	TurnID, RunID, Scope string
	// ParentID, on a run's first event only, names the node that caused the run.
	ParentID string
	// Agent is the name of the agent that yielded the event; Path its place in the
	// tree (support/billing).
	Agent, Path string
	// Time is when the event was recorded, in UTC.
	Time time.Time
	// Partial marks a delta of the model attempt Attempt.
	Partial bool
	Attempt int
	// Streamed reports that the runner has already delivered this block as deltas. It is neither
	// stored nor part of the JSON.
	Streamed bool
	// More joins the event to the next one: both are stored in one atomic write,
	// or neither. It never appears in JSON.
	More bool
	// Data is the payload.
	Data Data
}

// ClaimedKey marks, in the metadata of a user message, that the last part holds what the client claims to
// have happened before: answers, tool calls and their results.
const ClaimedKey = "arbor.claimed"

// Unclaimed returns the content of a user message without such claims.
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

// Visible returns the text that the event adds for the user: a delta, or a whole text that was not
// delivered as deltas before. It is "" for all other events, and for texts of inner scopes (of tools
// and graphs). A [Discard] may still void the text of deltas.
func (e *Event) Visible() string {
	if e.Scope != "" || e.Streamed {
		return ""
	}
	return e.Text()
}

// Type returns the payload's type, "" if there is none.
func (e *Event) Type() string {
	if e.Data == nil {
		return ""
	}
	return e.Data.EventType()
}
