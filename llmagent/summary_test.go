package llmagent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// full returns a runner whose next turn must compact, and that has a summary
// already. The next one is small's to write.
func full(t testing.TB, small *endpoint, opts ...llmagent.Option) (r *runner.Runner, model *endpoint, store session.Store) {
	store = sessiontest.Memory(t)
	counted := func(req *llm.Request) int { return llm.CountRequest(req, nil) }
	model = &endpoint{t: t, name: "m", window: 1000, count: counted, answer: says(strings.Repeat("word ", 100))}
	settings := llmagent.Compaction{Window: 1000, Summarizer: &endpoint{t: t, name: "first", count: counted, answer: says("The first summary.")}}
	r = build(t, store, model, settings)
	compactions := 0
	for i := 0; ; i++ {
		req := must.Get(r.Preview(context.Background(), key, "solo"))
		if compactions > 0 && llm.CountRequest(req.Request, nil) > 795 {
			break
		}
		events := must.Get(turn(r, fmt.Sprint("Question ", i)))
		compactions += len(payloads[*event.Compaction](events))
		require.Less(t, i, 50)
	}
	settings.Summarizer = small
	return build(t, store, model, settings, opts...), model, store
}

// A request for a summary has the settings of its agent that are about the endpoint, and no others.
func TestASummaryIsAskedForLikeAnAnswer(t *testing.T) {
	off, hot := false, 1.5
	own := llm.Settings{Endpoint: []string{"mistral"}, Thinking: &off, Echo: llm.EchoOn, Timeouts: llm.Timeouts{First: time.Hour}}
	var asked []llm.Settings
	small := &endpoint{t: t, name: "small", answer: func(req *llm.Request) []scripted.Item {
		asked = append(asked, req.Settings)
		return says("Short.")(req)
	}}
	settings := own
	settings.Temperature, settings.ReasoningEffort = &hot, "high"
	r, _, _ := full(t, small, llmagent.WithSettings(settings))
	must.Get(turn(r, "Go on"))
	require.Equal(t, []llm.Settings{own}, asked)
}

func TestTheSummarizerFails(t *testing.T) {
	items := func(items ...scripted.Item) func(*llm.Request) []scripted.Item {
		return func(*llm.Request) []scripted.Item { return items }
	}
	for name, c := range map[string]struct {
		answer   func(*llm.Request) []scripted.Item
		asked    int
		discards int
		says     string
	}{
		"refused":              {items(scripted.Fail(&llm.Error{Code: llm.CodeUnauthorized, Message: "bad key"})), 1, 0, "bad key"},
		"another error":        {items(scripted.Fail(errors.New("on fire"))), 1, 0, "on fire"},
		"nothing":              {says("  \n"), 1, 1, "empty"},
		"cut off twice":        {items(scripted.Text("They"), scripted.Cut()), 2, 2, "terminal signal"},
		"held back":            {items(scripted.Text("They"), scripted.Finish(llm.FinishContentFilter)), 1, 1, "content filter"},
		"cut at its limit":     {items(scripted.Text("They asked for"), scripted.Finish(llm.FinishLength)), 2, 2, "length limit"},
		"a call, and no words": {items(scripted.Call("look", "{}")), 1, 1, "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			small := &endpoint{t: t, name: "small", answer: c.answer}
			r, model, _ := full(t, small)
			before := len(model.last().Messages)
			for i, fits := range []bool{true, false} {
				events, err := turn(r, "And now?")
				require.NoError(t, err, "the turn continues")
				require.Len(t, small.requests, c.asked*(i+1))
				notices := payloads[*event.Notice](events)
				require.Len(t, notices, 1)
				require.Equal(t, event.NoticeCompactionFailed, notices[0].Code)
				require.Contains(t, notices[0].Message, c.says)
				require.Len(t, payloads[*event.Discard](events), c.discards, "an attempt that was under way counts")
				require.Len(t, payloads[*event.Usage](events), 1, "only that of the answer")
				require.Contains(t, words(model.last()), "The first summary.")
				require.Contains(t, words(model.last()), "And now?")
				done := payloads[*event.Compaction](events)
				if fits {
					require.Empty(t, done)
					require.Len(t, model.last().Messages, before+2, "nothing is left out")
					continue
				}
				require.Len(t, done, 1)
				require.Equal(t, "The first summary.\n[What was said after that was left out.]", done[0].Summary, "the earlier summary is better than none")
			}
		})
	}
	t.Run("again and again", func(t *testing.T) {
		r, _, _ := full(t, &endpoint{t: t, name: "small", answer: items(scripted.Fail(errors.New("on fire")))})
		failed := 0
		for failed < 3 {
			events := must.Get(turn(r, "And now?"))
			for _, c := range payloads[*event.Compaction](events) {
				failed++
				require.Equal(t, "The first summary.\n[What was said after that was left out.]", c.Summary)
			}
		}
	})
	t.Run("then works again", func(t *testing.T) {
		n := 0
		small := &endpoint{t: t, name: "small", answer: func(*llm.Request) []scripted.Item {
			if n++; n == 1 {
				return []scripted.Item{scripted.Text("They"), scripted.Cut()}
			}
			return []scripted.Item{scripted.Think("hm"), scripted.Text("The ", "second."), scripted.ModelName("small-2026"), scripted.Usage(70, 80, 9)}
		}}
		r, _, _ := full(t, small)
		events := must.Get(turn(r, "And now?"))
		require.Len(t, small.requests, 2, "what breaks off is asked for once more")
		require.Empty(t, payloads[*event.Notice](events))
		require.Equal(t, "The second.", payloads[*event.Compaction](events)[0].Summary)
		require.Equal(t, &event.Usage{InputTokens: 70, OutputTokens: 80, CachedTokens: 9, Model: "small-2026"}, payloads[*event.Usage](events)[0])
		require.Len(t, payloads[*event.Discard](events), 1)
	})
}

// TestAFailingSummarizerIsAskedLessOften: the conversation still fits, so that each step could try again.
func TestAFailingSummarizerIsAskedLessOften(t *testing.T) {
	down := scripted.Fail(&llm.Error{Code: llm.CodeServer, Message: "down"})
	small := &endpoint{t: t, name: "small", answer: func(*llm.Request) []scripted.Item { return []scripted.Item{down} }}
	n := 0
	model := &endpoint{t: t, name: "m", count: func(*llm.Request) int { return 850 }, answer: func(*llm.Request) []scripted.Item {
		if n++; n%10 > 0 {
			return []scripted.Item{scripted.Call("look", "{}")}
		}
		return []scripted.Item{scripted.Text("Done.")}
	}}
	store := sessiontest.Memory(t)
	r := build(t, store, model, llmagent.Compaction{Window: 1000, Summarizer: small}, llmagent.WithTools(looking(t, 5)))
	events := must.Get(turn(r, "Look ten times."))
	require.Len(t, small.requests, 4, "before the answers 2, 3, 5 and 9")
	require.Empty(t, payloads[*event.Compaction](events))
	require.Len(t, model.last().Messages, 19)
	cold := build(t, store, model, llmagent.Compaction{Window: 1000, Summarizer: small}, llmagent.WithTools(looking(t, 5)))
	must.Get(turn(cold, "Again."))
	require.Len(t, small.requests, 5, "another process continues to count")
}

// TestACutSummaryIsAskedForAgain with fewer words.
func TestACutSummaryIsAskedForAgain(t *testing.T) {
	small := &endpoint{t: t, name: "small", answer: func(req *llm.Request) []scripted.Item {
		if strings.Contains(req.System, "at most 75 words") {
			return []scripted.Item{scripted.Text("They asked for"), scripted.Finish(llm.FinishLength)}
		}
		require.Contains(t, req.System, "at most 20 words")
		return []scripted.Item{scripted.Text("They asked.")}
	}}
	r, _, _ := full(t, small)
	events := must.Get(turn(r, "And now?"))
	require.Len(t, small.requests, 2)
	require.Equal(t, "They asked.", payloads[*event.Compaction](events)[0].Summary)
	require.Len(t, payloads[*event.Discard](events), 1)
}

func TestASummaryThatIsTooLong(t *testing.T) {
	small := &endpoint{t: t, name: "small", answer: says(strings.Repeat("длинный ", 2000))}
	r, model, _ := full(t, small)
	events := must.Get(turn(r, "And now?"))
	got := payloads[*event.Compaction](events)[0].Summary
	require.LessOrEqual(t, llm.EstimateTokens(got), 1000/8)
	require.Greater(t, llm.EstimateTokens(got), 1000/10)
	require.True(t, strings.HasSuffix(got, " [cut here]"))
	require.LessOrEqual(t, llm.CountRequest(model.last(), nil), 800)
}

// TestASummaryIsWithinLimits: what holds for model calls holds for summaries.
func TestASummaryIsWithinLimits(t *testing.T) {
	small := &endpoint{t: t, name: "small", answer: says("A summary.")}
	r, model, store := full(t, small)
	before := len(model.requests)
	limited := must.Get(runner.New(r.Tree().Root().Agent, store, runner.WithLimits(runner.Limits{ModelCalls: 1})))
	events, err := turn(limited, "And now?")
	require.ErrorIs(t, err, agent.ErrLimit)
	require.Len(t, small.requests, 1)
	require.Len(t, model.requests, before, "the summary was the one call")
	require.Len(t, payloads[*event.Compaction](events), 1, "and is kept")

	small = &endpoint{t: t, name: "small", answer: says("A summary.")}
	r, _, store = full(t, small)
	poor := must.Get(runner.New(r.Tree().Root().Agent, store, runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Tokens: 40}})))
	events, err = turn(poor, "And now?")
	require.ErrorIs(t, err, agent.ErrLimit)
	require.Empty(t, small.requests)
	require.Empty(t, payloads[*event.Compaction](events), "a budget is no reason to forget")
}

type watcher struct {
	agent.Passthrough
	mu    sync.Mutex
	asked []string
}

func (w *watcher) ModelCall(ctx context.Context, c agent.ModelCallInfo, next agent.ModelFunc) iter.Seq2[llm.Chunk, error] {
	w.mu.Lock()
	w.asked = append(w.asked, c.Model.Name())
	w.mu.Unlock()
	return next(ctx, c.Request)
}

func TestInterceptorsSeeSummaries(t *testing.T) {
	r, _, store := full(t, &endpoint{t: t, name: "small", answer: says("A summary.")})
	w := &watcher{}
	r = must.Get(runner.New(r.Tree().Root().Agent, store, runner.WithInterceptors(w), runner.WithStreaming()))
	partial := 0
	for _, e := range must.All(r.Run(context.Background(), key, llm.UserText("And now?"))) {
		if e.Partial {
			partial++
		}
	}
	require.Equal(t, []string{"small", "m"}, w.asked)
	require.Equal(t, 1, partial, "a summary is not shown as it is written")
}
