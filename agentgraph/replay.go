package agentgraph

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
)

// replay brings the flow of one run to where a log ends: it tells it, in the order of
// the log, which calls began and how they ended. The flow decides the same as it did
// when the log was written.
type replay struct {
	flow      *flow
	runs      []string         // of the graph: the first, and those that took up its work
	due       map[string]*call // that have not begun, by key
	begun     map[string]*call // that have not ended, by key
	scopes    map[string]string
	failed    map[string]*event.Failure // of runs that have not ended
	recorded  int                       // how many of the flow's records are in the log
	questions []*question

	starts, delayed int // how many of the flow's calls are in due
}

// newReplay begins the run of a graph with its input.
func newReplay(p *plan, runID, scope string, input json.RawMessage) *replay {
	rp := &replay{flow: newFlow(p, input, runID+":harness_start"), runs: []string{runID}}
	rp.settle()
	return rp
}

// takenUp notes that another run of the graph continues the work of the first.
func (rp *replay) takenUp(runID string) { rp.runs = append(rp.runs, runID) }

// apply takes in an event of the log. Those of other agents are ignored.
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
		case d.FinishReason == event.FinishReasonInputRequired: // until it goes on
			rp.flow.end(c, outcome{run: e.RunID, reason: d.FinishReason})
		default:
			o := outcome{run: e.RunID, reason: d.FinishReason, output: d.Output}
			if fail := rp.failed[e.RunID]; fail != nil {
				o.code, o.message = fail.Code, fail.Message
				delete(rp.failed, e.RunID)
			}
			delete(rp.begun, key)
			rp.flow.end(c, o)
			rp.settle()
		}
	}
}

// settle asks the fallback to save a run that was stopped.
func (rp *replay) settle() {
	if rp.flow.stopped != nil && !rp.flow.saved {
		rp.starts, rp.delayed = 0, 0 // none of them is made
		rp.due = nil
		rp.flow.save()
	}
}

// isRecord reports whether an event can be one of the flow's records.
func isRecord(e *event.Event) bool {
	switch d := e.Data.(type) {
	case *event.State:
		return true
	case *event.Notice:
		return d.Code == event.NoticeRoutingError || d.Code == event.NoticeLoopLimit
	}
	return false
}

// key returns the key of a call's scope.
func (rp *replay) key(scope string) (string, bool) {
	for _, run := range rp.runs {
		if rest, ok := strings.CutPrefix(scope, run); ok && strings.HasPrefix(rest, ".") && strings.Contains(rest, "/") {
			return rest[1:], true
		}
	}
	return "", false
}

// start notes that a call was made. One that was cut off is continued in its scope, in a
// fork by another run.
func (rp *replay) start(key, scope string) {
	if rp.begun == nil {
		rp.begun, rp.scopes = make(map[string]*call), make(map[string]string)
	}
	rp.index()
	c := rp.due[key]
	if c == nil && rp.begun[key] == nil {
		return // of another version of the graph
	}
	if c != nil {
		delete(rp.due, key)
		rp.flow.started(c)
		rp.begun[key] = c
	}
	rp.scopes[key] = scope
	rp.flow.goesOn(rp.begun[key])
}

// index makes the calls that the flow wants made known by their keys.
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

// rest ends the replay. It returns the calls that were cut off or wait, which are to be
// continued.
func (rp *replay) rest() (cut []*call) {
	f := rp.flow
	made := func(c *call) bool { return c.begun }
	f.starts = append(slices.DeleteFunc(f.starts, made), slices.DeleteFunc(f.delayed, made)...) // a crash was pause enough
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
