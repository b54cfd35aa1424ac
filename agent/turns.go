package agent

import (
	"sort"

	"github.com/agentarbor/arbor/event"
)

// Turns says where the turns of a user began in a session's log, for readers that need only its end. The zero value
// says nothing: what it finds is the start of the log. It is a function of the log alone, and is not changed.
type Turns struct {
	// Count is the number of turns in the log.
	Count int
	// Begun holds the start of the first turn, of each of the last turns, and of fewer of the others the older they are.
	Begun []TurnStart `json:",omitempty"`
	// Compacted holds by agent the first turn of which the agent's last compaction has left something.
	Compacted map[string]int `json:",omitempty"`
	// Handed is the last committed transfer of the conversation, in whichever turn; nil before the first.
	Handed *event.Transfer `json:"-"`
}

// TurnStart is the start of a turn. Turns are counted from 1, and Seq is the position of the user's message.
type TurnStart struct {
	Turn int
	Seq  int64
}

// At returns the start of a turn, or of one before it if that is not known; the zero value is the start of the log.
func (t Turns) At(turn int) TurnStart {
	i := sort.Search(len(t.Begun), func(i int) bool { return t.Begun[i].Turn > turn })
	if i == 0 {
		return TurnStart{}
	}
	return t.Begun[i-1]
}

// Of returns the turn of a position in the log, or one before it if that is not known. It is 0 before the first turn.
func (t Turns) Of(seq int64) int {
	i := sort.Search(len(t.Begun), func(i int) bool { return t.Begun[i].Seq > seq })
	if i == 0 {
		return 0
	}
	return t.Begun[i-1].Turn
}
