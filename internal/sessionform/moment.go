// Package sessionform gives sessions their forms outside of the log: as JSON what one was at a
// position, its checkpoints and how two of them differ, and the formats of exports. The command and
// the server give out the same. It imports what it shows, and reads no store.
package sessionform

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Moment is what a session was at a position.
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

// Pending is a call that has no result yet.
type Pending struct {
	CallID   string `json:"callId"`
	Name     string `json:"name"`
	RunID    string `json:"runId"`
	Approval bool   `json:"approval,omitempty"` // somebody is asked about it
}

// Use is what an agent has used of a model.
type Use struct {
	Agent        string `json:"agent"`
	Model        string `json:"model,omitempty"`
	Answers      int    `json:"answers"`
	InputTokens  int    `json:"inputTokens"`
	CachedTokens int    `json:"cachedTokens"`
	OutputTokens int    `json:"outputTokens"`
}

// MomentOf returns what a log amounts to.
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

// pendingCalls returns the calls that wait, in the conversation and in what agents
// do inside of their calls.
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

// Used adds up what all models have used.
func Used(f *session.Fold) (sum session.Use) {
	for _, u := range f.Spent {
		sum.Answers += u.Session.Answers
		sum.Usage = sum.Usage.Add(u.Session.Usage)
	}
	return sum
}

// Line tells in one line what a session was, whose log ends at last.
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

// Stamp writes a time for people.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
