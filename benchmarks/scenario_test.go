package benchmarks

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/race"
)

// TestScenarios runs every scenario on every framework once and looks at what
// came out: the right agent, its words, and as many questions to models as the
// scenario needs.
func TestScenarios(t *testing.T) {
	for _, f := range All() {
		t.Run(f.Name, func(t *testing.T) {
			for _, depth := range []int{1, 8} {
				t.Run(fmt.Sprintf("chain of %d", depth), func(t *testing.T) {
					s := Chain(depth, Sentence)
					system, err := f.build(s)
					require.NoError(t, err)
					reply, err := system.Turn(t.Context(), "s", Message)
					require.NoError(t, err)
					require.Equal(t, Reply{Agent: fmt.Sprintf("a%d", depth), Text: Sentence}, reply)
					require.Equal(t, depth+1, s.Calls)
				})
			}
			t.Run("stream", func(t *testing.T) {
				s := Streamed(50)
				system, err := f.build(s)
				require.NoError(t, err)
				reply, err := system.Turn(t.Context(), "s", Message)
				require.NoError(t, err)
				require.Equal(t, Reply{Agent: "a1", Text: s.answer("a1").Text, Pieces: 50}, reply)
				require.Equal(t, 2, s.Calls)
			})
			t.Run("ping-pong", func(t *testing.T) {
				s := PingPong(7)
				system, err := f.build(s)
				require.NoError(t, err)
				for turn := range 2 { // the script starts again in each session
					reply, err := system.Turn(t.Context(), fmt.Sprint(turn), Message)
					require.NoError(t, err)
					require.Equal(t, Reply{Agent: "pong", Text: Sentence}, reply)
					require.Equal(t, (turn+1)*8, s.Calls)
				}
			})
			for name, s := range map[string]*Scenario{"delegation": Delegation(), "sequence": Sequence(3), "rounds": Rounds(3), "branches": Branches(64)} {
				t.Run(name, func(t *testing.T) {
					if race.Enabled && f.Name == "trpc" && (s.Way == InTurn || s.Way == AtOnce) {
						t.Skip("its ChainAgent and ParallelAgent write what its runner reads meanwhile")
					}
					system, err := f.build(s)
					require.NoError(t, err)
					for turn := range 2 { // the script starts again in each session
						if s.Way == AtOnce {
							s.together = new(sync.WaitGroup)
							s.together.Add(len(s.Agents))
						}
						_, err := system.Turn(t.Context(), fmt.Sprint(turn), Message)
						require.NoError(t, err)
						require.NoError(t, s.End())
						require.Equal(t, (turn+1)*composedCalls(s), s.Calls)
					}
				})
			}
			t.Run("history", func(t *testing.T) {
				const turns = 12
				s := Chain(1, Sentence)
				system, err := f.build(s)
				require.NoError(t, err)
				for range turns {
					_, err := system.Turn(t.Context(), "past", Message)
					require.NoError(t, err)
				}
				require.Equal(t, turns+1, s.Calls, "one transfer, then the specialist answers alone")
				past, err := system.Past(t.Context(), "past")
				require.NoError(t, err)
				require.NoError(t, system.Forget())
				for _, id := range []string{"one", "two"} {
					require.NoError(t, system.PutBack(t.Context(), id, past))
					require.NoError(t, system.Warm(t.Context(), id))
				}
				for _, id := range []string{"one", "two"} { // neither changes the other
					s.Calls = 0
					reply, err := system.Turn(t.Context(), id, Message)
					require.NoError(t, err)
					require.Equal(t, Reply{Agent: "a1", Text: Sentence}, reply)
					require.Equal(t, 1, s.Calls)
					t.Logf("%d messages", s.Seen)
					require.GreaterOrEqual(t, s.Seen, 2*turns+1, "the model sees all of the history")
				}
			})
		})
	}
}
