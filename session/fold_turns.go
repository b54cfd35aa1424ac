package session

import (
	"maps"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// maxTurnStarts is the number of turn starts that a fold keeps before it drops some. It keeps about 60 of 10,000
// turns, and 100 of a million.
const maxTurnStarts = 128

// beginTurn records the start of a turn. If it drops starts, the distance between two that stay is at most a quarter
// of their distance to the end of the log. It does not change slices that callers hold.
func beginTurn(t *agent.Turns, seq int64) {
	t.Count++
	t.Begun = append(t.Begun, agent.TurnStart{Turn: t.Count, Seq: seq})
	if len(t.Begun) <= maxTurnStarts {
		return
	}
	kept := slices.Clone(t.Begun[:1])
	for i, start := range t.Begun[1:] {
		last := i+2 == len(t.Begun)
		if last || t.Begun[i+2].Turn-kept[len(kept)-1].Turn > (t.Count-start.Turn)/4 {
			kept = append(kept, start)
		}
	}
	t.Begun = kept
}

// compacted records how many turns a compaction has replaced for an agent.
func compacted(t *agent.Turns, agentName string, c *event.Compaction, seq int64) {
	t.Compacted = maps.Clone(t.Compacted)
	if t.Compacted == nil {
		t.Compacted = make(map[string]int)
	}
	t.Compacted[agentName] = t.Of(min(c.UpTo, seq) + 1)
}
