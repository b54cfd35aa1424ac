package agent

import (
	"sort"

	"github.com/agentarbor/arbor/event"
)

// Turns records where a session's turns began in the log, for readers that need only the log's end. The zero value
// finds the start of the log for each turn. Turns depends only on the log, and is immutable.
type Turns struct {
	// Count is the number of turns in the log.
	Count int
	// Begun has the start of the first turn, of each recent turn, and of ever fewer of the older turns.
	Begun []TurnStart `json:",omitempty"`
	// Compacted has, by agent, the first turn of which the agent's last compaction has kept something.
	Compacted map[string]int `json:",omitempty"`
	// LastTransfer is the last committed transfer of the conversation in any turn; nil before the first.
	LastTransfer *event.Transfer `json:"-"`
}

// TurnStart is the start of a turn. Turn counts from 1. Seq is the position of the user's message.
type TurnStart struct {
	Turn int
	Seq  int64
}

// At returns the start of a turn or, if that is unknown, of the last known turn before it. The zero value is the start
// of the log.
func (t Turns) At(turn int) TurnStart {
	i := sort.Search(len(t.Begun), func(i int) bool { return t.Begun[i].Turn > turn })
	if i == 0 {
		return TurnStart{}
	}
	return t.Begun[i-1]
}

// Of returns the turn of a position in the log or, if that is unknown, the last known turn before it. It is 0 before
// the first turn.
func (t Turns) Of(seq int64) int {
	i := sort.Search(len(t.Begun), func(i int) bool { return t.Begun[i].Seq > seq })
	if i == 0 {
		return 0
	}
	return t.Begun[i-1].Turn
}
