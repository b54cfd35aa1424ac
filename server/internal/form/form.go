// Package form builds the answers of the native API about sessions, turns and files from their logs. openapi.json
// describes the members.
//
// The package does not depend on HTTP requests.
package form

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// Link builds the answers about one session for one caller.
type Link struct {
	// Prefix is the prefix of all paths of the API.
	Prefix string
	// Caller is the name of the caller, who may be another user than the owner of the session.
	Caller string
	Key    session.Key
	// May reports whether the caller may decide a question of the session.
	May func(*event.Relay) bool
	// Inspects reports whether the caller may read the error texts of endpoints and libraries.
	Inspects bool
}

// To returns a path below the session, or that of the session itself.
func (l Link) To(elements ...string) string {
	var path strings.Builder
	path.Grow(128)
	path.WriteString(l.Prefix)
	path.WriteString("/sessions/")
	path.WriteString(escape(l.Key.ID))
	for _, e := range elements {
		path.WriteByte('/')
		path.WriteString(escape(e))
	}
	if l.Key.User != l.Caller {
		path.WriteString("?user=" + url.QueryEscape(l.Key.User))
	}
	return path.String()
}

// escape returns an id as an element of a path. It also escapes "." and "..", which clients would resolve.
func escape(id string) string {
	if strings.Trim(id, ".") == "" {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}

// Usage are numbers of tokens.
type Usage struct {
	InputTokens  int `json:"inputTokens"`
	OutputTokens int `json:"outputTokens"`
	CachedTokens int `json:"cachedTokens"`
}

func usageOf(u llm.Usage) Usage { return Usage{u.InputTokens, u.OutputTokens, u.CachedTokens} }

// Question is an open question of a turn.
type Question struct {
	CallID  string          `json:"callId"`
	Kind    string          `json:"kind"`
	Tool    string          `json:"tool"`
	Params  json.RawMessage `json:"params"`
	Message string          `json:"message,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	Agent   string          `json:"agent"`
	Path    string          `json:"path"`
	Within  []string        `json:"within,omitempty"`
	By      []string        `json:"by,omitempty"`
	Digest  string          `json:"digest,omitempty"`
	Client  bool            `json:"client,omitempty"`
	// MayDecide reports whether the caller may decide.
	MayDecide bool `json:"mayDecide"`
}

func questionsOf(r *live.Report, may func(*event.Relay) bool) []Question {
	asked := []Question{}
	for _, e := range r.Questions() {
		asked = append(asked, QuestionOf(e, may(e.Data.(*event.Relay))))
	}
	return asked
}

// QuestionOf returns the form of a question's event. may reports whether the caller may decide it.
func QuestionOf(e *event.Event, may bool) Question {
	q := e.Data.(*event.Relay)
	return Question{q.ToolCallID, q.Kind, q.Tool, event.EncodeJSON(q.Params), q.Message, q.Schema, e.Agent, e.Path, q.Within, q.By, q.Digest, q.Client, may}
}

// Turn is the state of a turn.
type Turn struct {
	ID      string             `json:"id"`
	Session string             `json:"session"`
	First   int64              `json:"first"`
	Seq     int64              `json:"seq"`
	State   live.State         `json:"state"`
	Agent   string             `json:"agent"`
	Text    string             `json:"text"`
	Finish  event.FinishReason `json:"finishReason,omitempty"`
	Pending []Question         `json:"pending"`
	Output  json.RawMessage    `json:"output,omitempty"`
	Usage   Usage              `json:"usage"`
	Error   *event.Failure     `json:"error,omitempty"`
	Created time.Time          `json:"created"`
	Updated time.Time          `json:"updated"`
	Links   Links              `json:"links"`
}

// Links are the paths of a turn, its events and its session.
type Links struct {
	Self    string `json:"self"`
	Events  string `json:"events"`
	Session string `json:"session"`
}

// TurnOf returns the form of a report about a turn of the link's session.
func TurnOf(r *live.Report, l Link) *Turn {
	failure := r.Failure
	if failure != nil && !l.Inspects {
		failure = failure.Public()
	}
	return &Turn{r.ID, l.Key.ID, r.First, r.Seq, r.State, r.Agent, r.Text, r.FinishReason, questionsOf(r, l.May), r.Output, usageOf(r.Usage), failure, r.Began, r.Changed,
		Links{l.To("turns", r.ID), l.To("turns", r.ID, "events"), l.To()}}
}
