package benchmarks

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// composition measures a turn of agents that are put together in another way than a
// tree, in scenarios of these sizes. It is the first turn of its session.
func composition(b *testing.B, parameter string, scenario func(size int) *Scenario, sizes ...int) {
	perFramework(b, func(b *testing.B, f Framework) {
		for _, size := range sizes {
			b.Run(fmt.Sprintf("%s=%d", parameter, size), func(b *testing.B) {
				s := scenario(size)
				sessions(b, f, s, composedCalls(s), func(system System, session string) {
					_, err := system.Turn(context.Background(), session, Message)
					must(b, err)
					must(b, s.End())
				})
			})
		}
	})
}

// composedCalls is how often models are asked in a turn.
func composedCalls(s *Scenario) int {
	if s.Way == AsTool {
		return 3
	}
	return len(s.Agents) * s.Rounds
}

// BenchmarkAgentTool: a coordinator calls a specialist as a tool, and then answers.
func BenchmarkAgentTool(b *testing.B) {
	composition(b, "calls", func(int) *Scenario { return Delegation() }, 1)
}

// BenchmarkSequence: agents one after the other.
func BenchmarkSequence(b *testing.B) { composition(b, "agents", Sequence, 8) }

// BenchmarkParallel: agents side by side.
func BenchmarkParallel(b *testing.B) { composition(b, "branches", Branches, 8, 64) }

// BenchmarkLoop: one agent, again and again.
func BenchmarkLoop(b *testing.B) { composition(b, "rounds", Rounds, 8) }

// What reaches the user wrongly, or not at all, and what a model is not shown, is noticed.
func TestScenarioNoticesFaults(t *testing.T) {
	s := Sequence(2)
	message := func(int) string { return Message }
	first := s.Ask("a0", 1, message)
	s.Ask("a1", 1, message)
	require.ErrorContains(t, s.End(), "a1 was not shown")
	s.Heard("a0", first.Text)
	require.ErrorContains(t, s.End(), "nobody heard")
	s.Heard("a1", first.Text)
	require.ErrorContains(t, s.End(), "a1 said")
	s.Heard("a0", first.Text)
	s.Heard("a0", first.Text)
	require.ErrorContains(t, s.End(), "twice")
	s.Ask("a1", 1, message)
	require.ErrorContains(t, s.End(), "it is the turn of a0")
	s.Heard(WorkflowName, first.Text)
	require.ErrorContains(t, s.End(), "the workflow said")

	s = Branches(2)
	all := []string{s.Ask("a0", 1, message).Text, s.Ask("a1", 1, message).Text}
	s.Heard("a0", all[0])
	s.Heard("a1", all[1])
	s.Heard(WorkflowName, all[0]+all[1])
	require.NoError(t, s.End())
	s.Heard(WorkflowName, all[1]+all[0])
	require.ErrorContains(t, s.End(), "the workflow said")
}
