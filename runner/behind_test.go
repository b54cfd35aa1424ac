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
	"github.com/agentarbor/arbor/internal/testing/crashtest"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
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

// foresight predicts the transfers of a transcript: the right target where a turn begins with a transfer that has no
// reason, and else one that the turn is not transferred to.
type foresight struct {
	turns       []string // their events, as expected
	at          int      // turns that have begun
	asked       int      // models that were asked ahead in the turn
	dropped     int64    // discards
	right, vain int
}

var plainTransfer = regexp.MustCompile(`^\d+ (\w+) harness_start\n\d+ \w+ tool_call #\w+ \S+ \{[^\n]*\n\d+ \w+ usage\n\d+ \w+ tool_result [^\n]*\n\d+ \w+ transfer \w+ → ([\w-]+): committed\n`)

func newForesight(tr *transcript.Transcript) *foresight {
	f := &foresight{}
	for line := range strings.Lines(tr.Section("events")) {
		if strings.Contains(line, " user user ") {
			f.turns = append(f.turns, "")
		} else if n := len(f.turns); n > 0 {
			f.turns[n-1] += line
		}
	}
	return f
}

func (f *foresight) begin(message string) {
	if f == nil || strings.HasPrefix(message, "/") {
		return
	}
	f.at++
	f.asked = 0
}

// target returns the target of the turn's first transfer, "" if it cannot be predicted. An answer that fails
// when it is asked ahead does not count: the target is asked again.
func (f *foresight) target() string {
	if found := plainTransfer.FindStringSubmatch(f.turns[f.at-1]); found != nil && !strings.Contains(f.turns[f.at-1], " "+found[2]+" error ") {
		return found[2]
	}
	return ""
}

func (f *foresight) predict(_ context.Context, p runner.Prospect) (string, float64) {
	if to := f.target(); to != "" {
		return to, 1
	}
	for _, n := range p.Targets {
		if name := n.Agent.Name(); !strings.Contains(f.turns[f.at-1], "→ "+name+": committed") {
			return name, 1
		}
	}
	return "", 0
}

// without leaves out what was anticipated in vain.
func (f *foresight) without(stored []*event.Event) (rest []*event.Event) {
	if f == nil {
		return stored
	}
	vain := 0
	for _, e := range stored {
		if d, ok := e.Data.(*event.Discard); ok && d.Code == event.CodeAnticipated {
			f.dropped++
			vain++
			continue
		}
		own := *e
		own.Seq -= f.dropped
		rest = append(rest, &own)
	}
	f.vain += vain
	f.right += f.asked - vain
	f.asked = 0
	return rest
}

// aheadModel takes an answer of the script only if it is known that the answer is used.
type aheadModel struct {
	llm.Model
	*foresight
}

func (m aheadModel) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	if llm.Anticipated(ctx) {
		m.asked++
		if m.target() == "" {
			return func(yield func(llm.Chunk, error) bool) {
				_ = yield(llm.Chunk{Text: "In vain."}, nil) && yield(llm.Chunk{Finish: llm.FinishStop, Usage: &llm.Usage{InputTokens: 7}}, nil)
			}
		}
	}
	return m.Model.Generate(ctx, req)
}

// TestTranscriptsWithAnticipation plays the transcripts with targets that are asked ahead, rightly and in vain. What is
// stored is the same, but for the discards of what was in vain.
func TestTranscriptsWithAnticipation(t *testing.T) {
	right, vain := 0, 0
	for _, tr := range transcript.All(t, "testdata/*/*.txtar") {
		for _, m := range modes[:4] {
			t.Run(tr.Name()+", "+m.name, func(t *testing.T) {
				m.ahead = newForesight(tr)
				events, _ := play(t, tr, m)
				require.Equal(t, tr.Section("events"), events)
				right, vain = right+m.ahead.right, vain+m.ahead.vain
			})
		}
	}
	t.Logf("%d answers were anticipated, %d in vain", right, vain)
	require.Greater(t, right, 20)
	require.Greater(t, vain, 50)
}
