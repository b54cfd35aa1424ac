package runner_test

import (
	"context"
	"iter"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
)

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

// target returns the target of the turn's first transfer, "" if there is none that can be known. An answer that fails
// ahead is none: the target is asked once more.
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
