package view

import (
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
)

// BeginAt makes an empty view of the conversation begin at the turn first, counted from 1, or at a later turn if the
// view needs no earlier one. It does nothing in an inner scope, or after an event was applied. From the turn on at
// which it begins, the view shows the same messages as a view from the beginning of the log.
func (v *View) BeginAt(turns agent.Turns, first int) {
	if v.seq > 0 || v.scope != "" {
		return
	}
	if n := v.policy.turns; n > 0 {
		first = max(first, trimmed(turns.Count, n))
	}
	// Turns that a compaction covers are in its summary, but Exchanges needs the last turns.
	first = max(first, min(turns.Compacted[v.agent], turns.Count-keptExchanges+1))
	if start := turns.At(first); start.Turn > 1 {
		v.seq, v.turn, v.last = start.Seq-1, start.Turn-1, turns.LastTransfer
	}
}

// trimmed returns the number of the first turn that LastTurns(n) shows in a turn. It is one more than a multiple of n,
// so that the view shows at least n turns before the current one and changes its beginning only every n turns. The
// result can be less than 1.
func trimmed(turn, n int) int { return ((turn-1)/n-1)*n + 1 }

// beginTurn begins a turn of the user, and drops messages that the policy no longer shows.
func (v *View) beginTurn(seq int64) {
	v.flush()
	if v.refused {
		v.refused = false
		v.leaveOutMedia()
	}
	v.pending, v.arrival, v.asks = nil, arrival{}, false // a new turn ends interrupted and paused runs
	if t := v.last; t != nil && t.To == v.agent && v.node.Parent != nil && t.TransferType == "" && !byRule(t) {
		v.since = t
	}
	v.run = v.idle()
	v.dropped.tries = 0
	v.turn++
	n := v.policy.turns
	if n == 0 {
		return
	}
	if first := trimmed(v.turn, n); first > 1 && first == v.turn-n && len(v.begun) > 0 {
		v.use.reported, v.dropped.failed = 0, 0
		if len(v.begun) == n { // else the view began after that turn, which a compaction covers
			v.trim(v.begun[0])
		}
	}
	if len(v.begun) == n {
		v.begun = append(v.begun[:0], v.begun[1:]...)
	}
	v.begun = append(v.begun, seq)
}

// trim drops the messages before a position. It keeps the summary at the front if that also covers later messages. In a
// view that began at this position it only resets the state in the same way.
func (v *page) trim(from int64) {
	s, front := &v.shown, (*llm.Message)(nil)
	switch {
	case v.dropped.upTo < from:
		v.dropped.summary = ""
	case s.front() > 0:
		front = &s.msgs[0]
	}
	s.keep(front, s.after(from-1))
}
