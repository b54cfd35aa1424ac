package agentgraph

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
)

// replay rebuilds the flow of a run from a log: it passes on, in log order, which calls started and how they ended. The
// flow makes the same decisions as when the log was written.
type replay struct {
	flow      *flow
	runs      []string         // runs of the graph: the first, and those that continued its work
	due       map[string]*call // calls that have not started, by key
	begun     map[string]*call // calls that have not ended, by key
	scopes    map[string]string
	failed    map[string]*event.Failure // of runs that have not ended
	recorded  int                       // the number of the flow's records in the log
	questions []*question

	starts, delayed int // the number of the flow's calls that are already in due
}

// newReplay returns the replay of a run that starts with this input.
func newReplay(p *plan, runID, scope string, input json.RawMessage) *replay {
	rp := &replay{flow: newFlow(p, input, runID+":harness_start"), runs: []string{runID}}
	rp.advance()
	return rp
}

// resumedBy adds another run of the graph that continues the work of the first.
func (rp *replay) resumedBy(runID string) { rp.runs = append(rp.runs, runID) }

// apply applies an event of the log. It ignores events of other agents.
func (rp *replay) apply(e *event.Event) {
	if slices.Contains(rp.runs, e.RunID) {
		if isRecord(e) {
			rp.recorded++
		} else {
			rp.applyApproval(e)
		}
		return
	}
	key, ok := rp.key(e.Scope)
	if !ok {
		return
	}
	switch d := e.Data.(type) {
	case *event.HarnessStart:
		rp.start(key, e.Scope)
	case *event.Failure:
		if rp.failed == nil {
			rp.failed = make(map[string]*event.Failure)
		}
		rp.failed[e.RunID] = d
	case *event.HarnessEnd:
		c := rp.begun[key]
		switch {
		case c == nil || rp.scopes[key] != e.Scope || d.FinishReason == event.FinishReasonTransfer:
		case d.FinishReason == event.FinishReasonInputRequired: // until it resumes
			rp.flow.end(c, outcome{run: e.RunID, reason: d.FinishReason})
		default:
			o := outcome{run: e.RunID, reason: d.FinishReason, output: d.Output}
			if fail := rp.failed[e.RunID]; fail != nil {
				o.code, o.message = fail.Code, fail.Message
				delete(rp.failed, e.RunID)
			}
			delete(rp.begun, key)
			rp.flow.end(c, o)
			rp.advance()
		}
	}
}

// advance schedules the fallback to save a stopped run.
func (rp *replay) advance() {
	if rp.flow.stopped != nil && !rp.flow.saved {
		rp.starts, rp.delayed = 0, 0 // none of these calls is made
		rp.due = nil
		rp.flow.save()
	}
}

// isRecord reports whether an event can be a record of the flow.
func isRecord(e *event.Event) bool {
	switch d := e.Data.(type) {
	case *event.State:
		return true
	case *event.Notice:
		return d.Code == event.NoticeRoutingError || d.Code == event.NoticeLoopLimit
	}
	return false
}

// key returns the key of the call with this scope.
func (rp *replay) key(scope string) (string, bool) {
	for _, run := range rp.runs {
		if rest, ok := strings.CutPrefix(scope, run); ok && strings.HasPrefix(rest, ".") && strings.Contains(rest, "/") {
			return rest[1:], true
		}
	}
	return "", false
}

// start marks a call as started. An interrupted call continues in its own scope; in a fork, another run continues it.
func (rp *replay) start(key, scope string) {
	if rp.begun == nil {
		rp.begun, rp.scopes = make(map[string]*call), make(map[string]string)
	}
	rp.index()
	c := rp.due[key]
	if c == nil && rp.begun[key] == nil {
		return // from another version of the graph
	}
	if c != nil {
		delete(rp.due, key)
		rp.flow.started(c)
		rp.begun[key] = c
	}
	rp.scopes[key] = scope
	rp.flow.resumed(rp.begun[key])
}

// index adds the flow's new calls to due, by their keys.
func (rp *replay) index() {
	if rp.due == nil {
		rp.due = make(map[string]*call)
	}
	for _, c := range rp.flow.starts[rp.starts:] {
		rp.due[c.Key] = c
	}
	for _, c := range rp.flow.delayed[rp.delayed:] {
		rp.due[c.Key] = c
	}
	rp.starts, rp.delayed = len(rp.flow.starts), len(rp.flow.delayed)
}

// rest ends the replay. It returns the interrupted and waiting calls, which the run continues.
func (rp *replay) rest() (cut []*call) {
	f := rp.flow
	made := func(c *call) bool { return c.begun }
	// After a crash, delayed calls start without a further pause.
	f.starts = append(slices.DeleteFunc(f.starts, made), slices.DeleteFunc(f.delayed, made)...)
	f.delayed = nil
	for key, c := range rp.begun {
		if f.stopped != nil && !c.rescue {
			continue
		}
		c.Resume, c.Scope = true, rp.scopes[key]
		cut = append(cut, c)
	}
	slices.SortFunc(cut, func(a, b *call) int { return a.Order - b.Order })
	return cut
}
