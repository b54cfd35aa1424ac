package runner_test

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/crashtest"
	"github.com/agentarbor/arbor/internal/transcript"
	"github.com/agentarbor/arbor/llm"
)

var (
	routerLines = regexp.MustCompile(`(?m)^\d+ behind .*\n`)
	positions   = regexp.MustCompile(`(?m)^ *\d+ `)
)

// TestTranscriptsBehindRouter: with a router in front of a tree its agents store the same, and
// their models are asked the same.
func TestTranscriptsBehindRouter(t *testing.T) {
	for _, tr := range transcript.All(t, "testdata/*/*.txtar") {
		for _, m := range []mode{{name: "in process, streamed", stream: true, behind: true}, {name: "http", http: true, behind: true}} {
			t.Run(tr.Name()+", "+m.name, func(t *testing.T) {
				events, wire := play(t, tr, m)
				require.Contains(t, events, " behind route ")
				require.Equal(t, positions.ReplaceAllString(tr.Section("events"), ""), positions.ReplaceAllString(routerLines.ReplaceAllString(events, ""), ""))
				require.Equal(t, positions.ReplaceAllString(tr.Section("wire"), ""), positions.ReplaceAllString(wire, ""))
			})
		}
	}
}

// sees notes what an interceptor is asked about.
type sees struct {
	agent.Passthrough
	mu   sync.Mutex
	seen []string
}

func (s *sees) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, fmt.Sprintf(format, args...))
}

func (s *sees) Turn(ctx context.Context, t agent.TurnInfo, next agent.TurnFunc) iter.Seq2[*event.Event, error] {
	s.note("turn %v", t.Message != nil)
	return next(ctx)
}

func (s *sees) ModelCall(ctx context.Context, c agent.ModelCallInfo, next agent.ModelFunc) iter.Seq2[llm.Chunk, error] {
	s.note("%s is asked with %d messages", c.Invocation.Agent().Name(), len(c.Request.Messages))
	return next(ctx, c.Request)
}

func (s *sees) ToolCall(ctx context.Context, c agent.ToolCallInfo, next agent.ToolFunc) (*event.ToolResult, error) {
	s.note("%s calls %s", c.Invocation.Agent().Name(), c.Name)
	return next(ctx, c.Input)
}

// sideBySide puts calls that may have run at the same time into one order.
func sideBySide(seen []string) []string {
	for from := 0; from < len(seen); from++ {
		to := from
		for to < len(seen) && strings.Contains(seen[to], " calls ") {
			to++
		}
		slices.Sort(seen[from:to])
		from = max(from, to-1)
	}
	return seen
}

// TestInterceptorsBehindRouter: interceptors are asked about the same turns, models and tools,
// in the same order but for calls that run side by side, whether approvals and agent tools are involved or not.
func TestInterceptorsBehindRouter(t *testing.T) {
	stories := crashtest.Stories()
	for i := range len(stories) / 2 {
		plain, behind := stories[i], stories[i+len(stories)/2]
		if plain.Asks > 1 { // whoever is faster
			continue
		}
		t.Run(plain.Name, func(t *testing.T) {
			var all [2][]string
			for j, s := range []crashtest.Story{plain, behind} {
				var seen sees
				s.Interceptors = []agent.Interceptor{&seen}
				require.NoError(t, s.Play(crashtest.Resume(), crashtest.Place{Dir: t.TempDir(), Key: s1}, &crashtest.Odometer{}))
				all[j] = sideBySide(seen.seen)
			}
			require.NotEmpty(t, all[0])
			require.Equal(t, all[0], all[1])
		})
	}
}
