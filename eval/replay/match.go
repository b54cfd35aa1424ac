package replay

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
)

// match compares the events of a write with the log, before they are stored. It records which ids correspond, and the
// first difference. The caller holds mu.
func (p *player) match(write []*event.Event) error {
	for _, e := range write {
		if p.over {
			return errOver
		}
		if start, ok := e.Data.(*event.HarnessStart); ok && e.Scope == "" {
			p.path = append(p.path, start.AgentID)
		}
		if p.live {
			p.linkIDs(e, nil)
			continue
		}
		was, err := p.pair(e)
		if err != nil {
			return err
		}
		p.linkIDs(e, was)
	}
	return nil
}

// linkIDs records the effect of a stored event. was is the recorded event, or nil.
func (p *player) linkIDs(e, was *event.Event) {
	if was == nil {
		return
	}
	p.linkID(e.TurnID, was.TurnID)
	p.linkID(e.RunID, was.RunID)
	p.linkID(e.Scope, was.Scope)
	p.linkID(e.ID, was.ID)
	p.recordedSeqs[e.Seq] = was.Seq
	switch d := was.Data.(type) {
	case *event.HandoffStatus:
		p.linkID(e.Data.(*event.HandoffStatus).HandoffID, d.HandoffID)
	case *event.Compaction:
		if r := p.log.runs[was.RunID]; p.usedAnswers[was.RunID] < len(r.answers) && r.answers[p.usedAnswers[was.RunID]].kind == answerShortened {
			p.usedAnswers[was.RunID]++
		}
	}
}

func (p *player) linkID(id, recordedID string) {
	if id != "" && p.recorded[id] == "" {
		p.recorded[id], p.newIDs[recordedID] = recordedID, id
	}
}

// pair finds the recorded event for an event, nil if the log may or may not have one.
func (p *player) pair(e *event.Event) (*event.Event, error) {
	scope, ok := p.scopeOf(e)
	if !ok {
		return nil, p.differ(&Difference{Kind: kindEvent, Agent: e.Agent, New: e}, nil)
	}
	places := p.log.scopes[scope]
	first := p.next[scope]
	for first < len(places) && (p.used[places[first]] || p.mayBeMissing(p.log.events[places[first]], e)) {
		first++
	}
	p.next[scope] = first
	for i := first; i < len(places); i++ {
		was := p.log.events[places[i]]
		if p.used[places[i]] {
			continue
		}
		if was.Seq > p.until {
			break
		}
		if p.sameEvent(was, e) {
			p.used[places[i]] = true
			if i == first {
				p.next[scope]++
			}
			return was, nil
		}
		if !unordered(was) || !unordered(e) { // tools end in any order
			break
		}
	}
	if optionalEvent(e) {
		return nil, nil
	}
	var was *event.Event
	if first < len(places) && p.log.events[places[first]].Seq <= p.until {
		was = p.log.events[places[first]]
	}
	if was == nil && p.unfinished {
		p.cancel(errCut)
		return nil, errCut
	}
	return nil, p.differ(nil, &divergence{was, e})
}

// unordered reports whether an event comes at the end of a tool.
func unordered(e *event.Event) bool {
	switch e.Data.(type) {
	case *event.ToolResult, *event.State, *event.File, *event.ToolProgress, *event.Relay:
		return true
	}
	return false
}

// mayBeMissing reports whether a recorded event may be missing: it reports that a process died, or that a text was
// retracted.
func (p *player) mayBeMissing(was, e *event.Event) bool {
	return optionalEvent(was) && !p.sameEvent(was, e)
}

func optionalEvent(e *event.Event) bool {
	switch d := e.Data.(type) {
	case *event.Notice:
		return slices.Contains([]string{event.NoticeResumed, event.NoticeAdopted, event.NoticeGivenBack, event.NoticeLeft, event.NoticeStopped, event.NoticeTooDeep, "usage_estimated"}, d.Code)
	case *event.Discard:
		return d.Code == "canceled" || d.Code == event.CodeTripwire || d.Code == event.CodeAnticipated || len(d.IDs) > 0 && d.Usage == nil && strings.HasPrefix(d.Message, "the answer was not completed")
	}
	return false
}

// scopeOf returns the recorded scope for a scope.
func (p *player) scopeOf(e *event.Event) (string, bool) {
	if e.Scope == "" {
		return "", true
	}
	if was := p.recorded[e.Scope]; was != "" {
		return was, true
	}
	if parent := event.ParentRun(e.Scope); parent != "" {
		was := p.recorded[parent]
		return was + e.Scope[len(parent):], was != ""
	}
	opener := p.recorded[e.ParentID]
	for _, scope := range p.log.opened[opener] {
		if at := p.log.scopes[scope][0]; !p.used[at] && p.sameEvent(p.log.events[at], e) {
			return scope, true
		}
	}
	return "", false
}

// sameEvent reports whether two events are equal except for ids and times.
func (p *player) sameEvent(was, e *event.Event) bool {
	if was.Type() != e.Type() || was.Agent != e.Agent || was.Path != e.Path {
		return false
	}
	switch was.Data.(type) {
	case *event.ToolCall, *event.ToolResult:
		if now := p.recorded[e.ID]; now != was.ID && (now != "" || e.Type() == event.TypeToolResult) {
			return false
		}
	}
	if reflect.DeepEqual(was.Data, e.Data) {
		return true
	}
	a, b := p.comparable(was.Data, false), p.comparable(e.Data, true)
	return bytes.Equal(event.EncodeJSON(a), event.EncodeJSON(b))
}

// comparable returns a payload without the values that differ each time. replayed reports that it has the ids of the
// replay.
func (p *player) comparable(data event.Data, replayed bool) event.Data {
	id := func(id string) string {
		if was := p.recorded[id]; replayed && was != "" {
			return was
		}
		return id
	}
	place := func(seq int64) int64 {
		if was := p.recordedSeqs[seq]; replayed && was != 0 {
			return was
		}
		return seq
	}
	same := event.Comparable(data, id)
	switch d := same.(type) {
	case *event.Route:
		d.IntentConfidence = math.Round(d.IntentConfidence*1e6) / 1e6
		if d.Failed != nil {
			d.Failed = p.comparable(d.Failed, replayed).(*event.Failure)
		}
	case *event.HandoffStatus:
		was := data.(*event.HandoffStatus).HandoffID
		if _, known := p.newIDs[was]; !known && !replayed || replayed && p.recorded[was] == "" { // a new one
			d.HandoffID = ""
		}
		d.UpTo = place(d.UpTo)
	case *event.Compaction:
		d.UpTo = place(d.UpTo)
	case *event.Discard:
		if d.Code == event.CodeBadOutput {
			d.Message = ""
		}
	case *event.Failure:
		if d.Code == event.CodeBadOutput {
			d.Message = ""
		}
	}
	return same
}

// firstMissing returns the first recorded event before a position that the replay did not produce, nil if there is
// none.
func (p *player) firstMissing(to int) *event.Event {
	for ; p.done < to; p.done++ {
		if e := p.log.events[p.done]; !p.used[p.done] && !optionalEvent(e) {
			return e
		}
	}
	return nil
}

// divergence is a place where the log and the replay differ: an event of each, nil for none.
type divergence struct{ was, now *event.Event }

// route returns the active agents of a turn of the log.
func (l *Log) route(turn int) (path []string) {
	for _, at := range l.scopes[""] {
		e := l.events[at]
		if d, ok := e.Data.(*event.HarnessStart); ok && l.turns[e.TurnID] == turn {
			path = append(path, d.AgentID)
		}
	}
	return slices.Compact(path)
}
