package view

import (
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
)

// BeginAt makes an empty view of the conversation begin with a turn, or with the first turn that it needs if that comes
// later. A view shows the same messages of a turn wherever it began, if it began before that turn.
func (v *View) BeginAt(turns agent.Turns, first int) {
	if v.seq > 0 || v.scope != "" {
		return
	}
	if n := v.policy.turns; n > 0 {
		first = max(first, trimmed(turns.Count, n))
	}
	// What was dropped by a compaction is in its summary, and the last exchanges are asked for by themselves.
	first = max(first, min(turns.Compacted[v.agent], turns.Count-keptExchanges+1))
	if start := turns.At(first); start.Turn > 1 {
		v.seq, v.turn, v.last = start.Seq-1, start.Turn-1, turns.Handed
	}
}

// trimmed returns the first turn that LastTurns(n) shows in a turn: one more than a multiple of n. So what is shown
// has n turns before the present one at least, and begins anew only every n turns.
func trimmed(turn, n int) int { return ((turn-1)/n-1)*n + 1 }

// beginTurn begins a turn of the user, and drops what the policy no longer shows.
func (v *View) beginTurn(seq int64) {
	v.flush()
	v.handed, v.arrival, v.asks = nil, arrival{}, false // a run that was cut off or paused is over
	if t := v.last; t != nil && t.To == v.agent && v.node.Parent != nil && t.TransferType == "" && !chosen(t) {
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
		if len(v.begun) == n { // else the view began after the turn first, which a compaction covers
			v.trim(v.begun[0])
		}
	}
	if len(v.begun) == n {
		v.begun = append(v.begun[:0], v.begun[1:]...)
	}
	v.begun = append(v.begun, seq)
}

// trim drops what came before a position. It keeps the summary at the front if that covers something that came later.
// A view that began at this position does the same, though it has nothing to drop.
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
