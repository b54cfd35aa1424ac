// Package sessionform defines the forms of sessions outside of the log: the JSON of a session at a position, of its
// checkpoints and of the difference of two sessions, and the formats of exports. The command and the server share them.
// It reads no store.
package sessionform

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Moment is the state of a session at a position.
type Moment struct {
	Session string         `json:"session"`
	Seq     int64          `json:"seq"`
	Time    time.Time      `json:"time,omitzero"`
	Active  string         `json:"active,omitempty"`
	Turn    string         `json:"turn"` // none, open, waiting or over
	State   map[string]any `json:"state"`
	Pending []Pending      `json:"pending"`
	Used    []Use          `json:"used"`
}

// Pending is a call without a result.
type Pending struct {
	CallID   string `json:"callId"`
	Name     string `json:"name"`
	RunID    string `json:"runId"`
	Approval bool   `json:"approval,omitempty"` // it waits for a decision
}

// Use is the usage of a model by an agent.
type Use struct {
	Agent        string `json:"agent"`
	Model        string `json:"model,omitempty"`
	Answers      int    `json:"answers"`
	InputTokens  int    `json:"inputTokens"`
	CachedTokens int    `json:"cachedTokens"`
	OutputTokens int    `json:"outputTokens"`
}

// MomentOf returns the state of a session with this fold.
func MomentOf(key session.Key, f *session.Fold) Moment {
	m := Moment{Session: key.ID, Seq: f.Seq, Time: f.Latest.UTC(), Active: f.Active(), Turn: f.Stage(),
		State: f.States(), Pending: pendingCalls(f), Used: []Use{}}
	if f.Latest.IsZero() {
		m.Time = time.Time{}
	}
	if m.State == nil {
		m.State = map[string]any{}
	}
	for _, u := range f.Spent {
		m.Used = append(m.Used, Use{u.Agent, u.Model, u.Session.Answers, u.Session.InputTokens, u.Session.CachedTokens, u.Session.OutputTokens})
	}
	return m
}

// pendingCalls returns the waiting calls, in the conversation and in agents inside of calls.
func pendingCalls(f *session.Fold) []Pending {
	calls := []Pending{}
	scopes := f.Open()
	if !slices.Contains(scopes, "") {
		scopes = append([]string{""}, scopes...)
	}
	for _, scope := range scopes {
		run := f.Scope(scope).Run
		for _, c := range run.Pending {
			calls = append(calls, Pending{c.ID, c.Name, c.RunID, c.Relay != "" && !c.Resolved})
		}
	}
	return calls
}

// Used returns the usage of all models.
func Used(f *session.Fold) (sum session.Use) {
	for _, u := range f.Spent {
		sum.Answers += u.Session.Answers
		sum.Usage = sum.Usage.Add(u.Session.Usage)
	}
	return sum
}

// Line describes in one line the state of a session whose log ends at last.
func Line(f *session.Fold, last int64) string {
	text := fmt.Sprintf("at position %d of %d", f.Seq, last)
	if !f.Latest.IsZero() {
		text += ", " + Stamp(f.Latest)
	}
	if active := f.Active(); active != "" {
		text += "; active: " + active
	}
	if states := f.States(); len(states) > 0 {
		text += "; state: " + string(event.EncodeJSON(states))
	}
	var waiting []string
	for _, c := range pendingCalls(f) {
		waiting = append(waiting, c.Name)
	}
	if len(waiting) > 0 {
		text += "; waiting: " + strings.Join(waiting, ", ")
	}
	sum := Used(f)
	return text + fmt.Sprintf("; tokens: %d in, %d out", sum.InputTokens, sum.OutputTokens)
}

// Stamp formats a time for people.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
