package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Log is a stored session, with the answers of its models and the results of its tools. It is immutable, and safe for
// concurrent use.
type Log struct {
	key    session.Key
	events []*event.Event
	runs   map[string]*run
	calls  map[string]*call
	asked  map[string]string   // the calls by question
	scopes map[string][]int    // the indices of events by scope
	opened map[string][]string // the opened scopes by run or call, in order
	steps  []step
	turns  map[string]int // the numbers of turns by id, from 1
	people bool           // a person has taken part
}

// run is one activation of an agent.
type run struct {
	agent   string
	answers []*answer
	finish  event.FinishReason // "" if it has no end
}

// call is one call of a tool.
type call struct {
	name, turn string
	input      json.RawMessage
	result     *event.ToolResult // nil if there is none
	state      map[string]any
	files      []*event.File
	progress   []json.RawMessage
	asked      []*event.Relay // its questions during the call, in order
}

// step is an input from outside of the session: it causes the events from a position up to the next step.
type step struct {
	from  int
	write []*event.Event // of the first write
	kind  stepKind
}

type stepKind int

const (
	stepMessage   stepKind = iota // the user's message
	stepDecisions                 // decisions about waiting calls
	stepDelivery                  // an event of the desk
	stepResume                    // a resume of a turn that still waits
	stepFork                      // a fork, which is not replayed
)

// Read reads the log of a session. The error is that of the log, or says that it is empty.
func Read(key session.Key, events iter.Seq2[*event.Event, error]) (*Log, error) {
	l := &Log{key: key, runs: make(map[string]*run), calls: make(map[string]*call), asked: make(map[string]string),
		scopes: make(map[string][]int), opened: make(map[string][]string), turns: make(map[string]int)}
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		if e.Seq != int64(len(l.events))+1 {
			return nil, fmt.Errorf("replay: event %d of session %s has the position %d", len(l.events)+1, key, e.Seq)
		}
		l.events = append(l.events, e)
	}
	if len(l.events) == 0 {
		return nil, fmt.Errorf("replay: session %s: %w", key, errEmpty)
	}
	reading := make(map[string]*reader)
	paused := false
	for i := 0; i < len(l.events); {
		end := i + 1
		for end < len(l.events) && l.events[end].Time.Equal(l.events[i].Time) {
			end++
		}
		write := l.events[i:end]
		for j, e := range write {
			l.take(e, i+j)
			r := l.runs[e.RunID]
			if r == nil {
				r = &run{agent: e.Agent}
				l.runs[e.RunID] = r
			}
			if reading[e.RunID] == nil {
				reading[e.RunID] = &reader{run: r}
			}
			reading[e.RunID].take(e)
		}
		if kind, ok := l.kind(write, paused); ok {
			l.steps = append(l.steps, step{i, write, kind})
		}
		for _, e := range write {
			switch d := e.Data.(type) {
			case *event.HarnessStart:
				paused = paused && e.Scope != ""
			case *event.HarnessEnd:
				if e.Scope == "" {
					paused = d.FinishReason == event.FinishReasonInputRequired
				}
			}
		}
		i = end
	}
	for _, r := range reading {
		r.end()
	}
	return l, nil
}

var errEmpty = errors.New("its log is empty")

// kind returns the kind of step from which a write comes, false if it comes from the turn itself.
func (l *Log) kind(write []*event.Event, paused bool) (stepKind, bool) {
	started, forked := "", false
	for _, e := range write {
		switch d := e.Data.(type) {
		case *event.User:
			return stepMessage, true
		case *event.RelayResolved:
			return stepDecisions, true
		case *event.Notice:
			forked = forked || d.Code == event.NoticeForked
		case *event.HarnessStart:
			if e.Scope == "" {
				started = e.RunID
			}
		case *event.HarnessEnd:
			if e.Agent == agent.Human && e.RunID == started {
				return stepDelivery, true
			}
		}
	}
	switch {
	case forked:
		return stepFork, true
	case paused && started != "":
		return stepResume, true
	}
	return 0, false
}

// take records the calls and scopes of an event.
func (l *Log) take(e *event.Event, at int) {
	l.people = l.people || e.Agent == agent.Human
	if l.turns[e.TurnID] == 0 {
		l.turns[e.TurnID] = len(l.turns) + 1
	}
	if len(l.scopes[e.Scope]) == 0 && e.Scope != "" {
		opener := event.ParentRun(e.Scope)
		if opener == "" {
			opener = e.ParentID
		}
		l.opened[opener] = append(l.opened[opener], e.Scope)
	}
	l.scopes[e.Scope] = append(l.scopes[e.Scope], at)
	switch d := e.Data.(type) {
	case *event.ToolCall:
		l.calls[e.ID] = &call{name: d.Name, turn: e.TurnID, input: d.Input}
	case *event.ToolProgress:
		if c := l.calls[d.ToolCallID]; c != nil {
			c.progress = append(c.progress, d.Content)
		}
	case *event.Relay:
		l.asked[e.ID] = d.ToolCallID
		if c := l.calls[d.ToolCallID]; c != nil && d.Kind == event.RelayInput {
			c.asked = append(c.asked, d)
		}
	case *event.File:
		if c := l.calls[d.ToolCallID]; c != nil {
			c.files = append(c.files, d)
		}
	case *event.ToolResult:
		c := l.calls[e.ID]
		if c == nil {
			return
		}
		c.result = d
		for j := at - 1; j >= 0 && l.events[j].Time.Equal(e.Time); j-- { // its changes come before it
			switch d := l.events[j].Data.(type) {
			case *event.State:
				if l.events[j].Agent != "user" {
					c.state = d.Delta
				}
			case *event.File:
				continue
			}
			break
		}
	}
}

// decisions returns the decisions of a step. id maps the recorded id of a call to that of the replay.
func (l *Log) decisions(s step, id func(recorded string) string) (all []runner.Decision, err error) {
	for _, e := range s.write {
		d, ok := e.Data.(*event.RelayResolved)
		if !ok {
			continue
		}
		asked := l.asked[d.RelayID]
		if asked == "" {
			return nil, fmt.Errorf("the log has no question for the decision at position %d", e.Seq)
		}
		all = append(all, runner.Decision{CallID: id(asked), Approved: d.Approved, Reason: d.Reason, By: d.By, Content: d.Content})
	}
	return all, nil
}

// unfinished reports whether the turn was interrupted after these events, and not resumed.
func (l *Log) unfinished(from, to int) bool {
	open := true
	for _, e := range l.events[from:to] {
		if e.Scope != "" {
			continue
		}
		switch d := e.Data.(type) {
		case *event.User, *event.HarnessStart:
			open = true
		case *event.HarnessEnd:
			open = d.FinishReason == event.FinishReasonTransfer
		}
	}
	return open
}
