package llmagent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// endpoint is a model with a window: it refuses what is longer, as an endpoint
// does, keeps the requests, and holds each against the rules of the protocol.
type endpoint struct {
	t      testing.TB
	name   string
	window int                    // 0: unlimited
	proxy  bool                   // what is too long, a proxy refuses
	count  func(*llm.Request) int // how many tokens a request has for it; nil: it reports no usage
	answer func(*llm.Request) []scripted.Item

	mu       sync.Mutex
	requests []*llm.Request
}

func (e *endpoint) Name() string { return e.name }

func (e *endpoint) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	e.mu.Lock()
	e.requests = append(e.requests, req)
	n := len(e.requests)
	e.mu.Unlock()
	if err := view.Check(req); err != nil {
		e.t.Errorf("request %d of %s: %v", n, e.name, err)
	}
	tokens := llm.CountRequest(req, nil)
	if e.count != nil {
		tokens = e.count(req)
	}
	items := e.answer(req)
	if e.window > 0 && tokens > e.window {
		refused := &llm.Error{Code: llm.CodeContextLength, Status: 400, Message: "too long"}
		if e.proxy {
			refused = &llm.Error{Code: llm.CodeBadRequest, Status: 413, Message: "a web page"}
		}
		items = []scripted.Item{scripted.Fail(refused)}
	} else if e.count != nil {
		items = append(items, scripted.Usage(tokens, 10, 0))
	}
	// The ids of calls are made from the name.
	return scripted.Always(fmt.Sprintf("%s-%d", e.name, n), scripted.Reply(items...)).Generate(ctx, req)
}

func (e *endpoint) last() *llm.Request { return e.requests[len(e.requests)-1] }

func says(words string) func(*llm.Request) []scripted.Item {
	return func(*llm.Request) []scripted.Item { return []scripted.Item{scripted.Text(words)} }
}

// working calls the tool look until it has seen so many results since the user
// spoke, then answers.
func working(looks int) func(*llm.Request) []scripted.Item {
	seen := 0
	return func(req *llm.Request) []scripted.Item {
		if last := req.Messages[len(req.Messages)-1]; last.Role == llm.RoleUser {
			seen = 0
		} else {
			seen++
		}
		if seen < looks {
			return []scripted.Item{scripted.Text("Let me look. "), scripted.Call("look", "{}")}
		}
		return []scripted.Item{scripted.Text("That is all I found. " + strings.Repeat("Indeed. ", 10))}
	}
}

func looking(t testing.TB, size int) tools.Tool {
	return tool(t, "look", func(tools.Context) (any, error) { return strings.Repeat("word ", size/5), nil })
}

func build(t testing.TB, store session.Store, m llm.Model, c llmagent.Compaction, opts ...llmagent.Option) *runner.Runner {
	if c.Window != 0 {
		opts = append(opts, llmagent.WithCompaction(c))
	}
	a := must.Get(llmagent.New("solo", "Be kind.", m, opts...))
	return must.Get(runner.New(a, store))
}

func turn(r *runner.Runner, words string) (events []*event.Event, failed error) {
	for e, err := range r.Run(context.Background(), key, llm.UserText(words)) {
		if err != nil {
			failed = err
		} else {
			events = append(events, e)
		}
	}
	return events, failed
}

func words(req *llm.Request) string {
	var b strings.Builder
	for _, m := range req.Messages {
		b.WriteString(m.PlainText() + "\n")
	}
	return b.String()
}

func types(events []*event.Event) (names []string) {
	for _, e := range events {
		names = append(names, e.Type())
	}
	return names
}

// TestALongConversation goes on far beyond the model's window. Every request
// fits in, none is refused, the summary is handed on, and a process that reads
// the log anew sees what the old one saw.
func TestALongConversation(t *testing.T) {
	const window, turns = 2000, 40
	counted := func(req *llm.Request) int { return llm.CountRequest(req, nil) }
	more := func(req *llm.Request) int { return llm.CountRequest(req, nil) * 13 / 10 }
	for name, c := range map[string]struct {
		count     func(*llm.Request) int
		summarize bool
		history   view.Policy
	}{
		"usage unknown":             {nil, true, view.Full()},
		"usage as counted":          {counted, true, view.Full()},
		"usage higher than counted": {more, true, view.Full()},
		"without a summary":         {counted, false, view.Full()},
		"the last turns":            {nil, true, view.LastTurns(3)},
		"redacted":                  {nil, true, view.Full().Redact(strings.ToUpper)},
	} {
		t.Run(name, func(t *testing.T) {
			model := &endpoint{t: t, name: "m", window: window, count: c.count, answer: working(3)}
			small := &endpoint{t: t, name: "small", window: window, answer: says("They asked about things, and I looked.")}
			settings := llmagent.Compaction{Window: window}
			if c.summarize {
				settings.Summarizer = small
			}
			store := sessiontest.Memory(t)
			opts := []llmagent.Option{llmagent.WithTools(looking(t, 300)), llmagent.WithHistory(c.history)}
			r := build(t, store, model, settings, opts...)
			stored := 0
			for i := range turns {
				question := fmt.Sprintf("Question %d", i)
				events := must.Get(turn(r, question))
				stored += len(events)
				require.Contains(t, strings.ToLower(words(model.last())), strings.ToLower(question), "the user's last words are always there")
				said := payloads[*event.Text](events)
				require.Contains(t, said[len(said)-1].Content, "That is all I found")

				warm := must.Get(r.Preview(context.Background(), key, "solo"))
				cold := must.Get(build(t, store, model, settings, opts...).Preview(context.Background(), key, "solo"))
				require.Equal(t, warm, cold)
			}
			log := must.All(r.History(context.Background(), key))
			require.Len(t, log, stored, "the log keeps everything")
			require.Len(t, payloads[*event.User](log), turns)
			done := payloads[*event.Compaction](log)
			require.Greater(t, len(done), 3)
			require.Less(t, len(done), turns/2, "a compaction makes room for a while")
			require.Empty(t, payloads[*event.Notice](log))
			require.Empty(t, payloads[*event.Failure](log))
			require.Len(t, payloads[*event.Usage](log), len(model.requests)+len(small.requests), "each answer is closed by its usage, summaries too")
			if !c.summarize {
				require.Contains(t, words(model.last()), view.LeftOut)
				return
			}
			require.Len(t, small.requests, len(done))
			if name == "the last turns" {
				return // there a summary is trimmed with the turns that it sums up
			}
			require.Contains(t, strings.ToLower(words(model.last())), "i looked.")
			require.Contains(t, strings.ToLower(words(small.last())), "they asked about things", "an earlier summary is summarised too")
			for _, line := range strings.Split(strings.TrimSpace(small.last().Messages[0].Text), "\n") {
				require.True(t, json.Valid([]byte(line)), line)
			}
		})
	}
}

// TestALongTurn has one turn grow beyond the window: its oldest answers go, with
// the results of their calls.
func TestALongTurn(t *testing.T) {
	const window = 1500
	model := &endpoint{t: t, name: "m", window: window, answer: working(30)}
	small := &endpoint{t: t, name: "small", answer: says("Looked so far.")}
	r := build(t, sessiontest.Memory(t), model, llmagent.Compaction{Window: window, Summarizer: small}, llmagent.WithTools(looking(t, 400)))
	r = must.Get(runner.New(r.Tree().Root().Agent, sessiontest.Memory(t), runner.WithLimits(runner.Limits{Steps: runner.NoLimit, ModelCalls: runner.NoLimit})))
	events := must.Get(turn(r, "Look thirty times"))
	require.Len(t, payloads[*event.ToolResult](events), 30)
	require.Greater(t, len(payloads[*event.Compaction](events)), 2)
	for _, req := range model.requests {
		require.Contains(t, words(req), "Look thirty times")
	}
	for _, req := range model.requests[1:] {
		require.Equal(t, llm.RoleTool, req.Messages[len(req.Messages)-1].Role, "the newest results are always shown")
	}
}

// TestRoomForTheSummary lets a request fill the window, with summaries as long
// as they may be: none is too long for it.
func TestRoomForTheSummary(t *testing.T) {
	const window = 1500
	counted := func(req *llm.Request) int { return llm.CountRequest(req, nil) }
	for _, summarize := range []bool{true, false} {
		for size := 100; size < 300; size += 20 {
			model := &endpoint{t: t, name: "m", window: window, count: counted, answer: working(40)}
			small := &endpoint{t: t, name: "small", answer: says(strings.Repeat("word ", 1000))}
			settings := llmagent.Compaction{Window: window, At: 1}
			if summarize {
				settings.Summarizer = small
			}
			r := build(t, sessiontest.Memory(t), model, settings, llmagent.WithTools(looking(t, size)))
			r = must.Get(runner.New(r.Tree().Root().Agent, sessiontest.Memory(t), runner.WithLimits(runner.Limits{Steps: runner.NoLimit, ModelCalls: runner.NoLimit})))
			events := must.Get(turn(r, "Look forty times"))
			require.NotEmpty(t, payloads[*event.Compaction](events))
			require.Len(t, model.requests, 41, "none was refused")
			require.Len(t, payloads[*event.Usage](events), 41+len(small.requests))
		}
	}
}

// TestALongSystemMessage must not take all the room, and counts anew when it
// changes.
func TestALongSystemMessage(t *testing.T) {
	length := 2200
	instructions := llmagent.WithInstructionFunc(func(context.Context, *agent.Invocation) (string, error) { return strings.Repeat("word", length/4), nil })
	model := &endpoint{t: t, name: "m", window: 1000, answer: says("Well, well.")}
	r := build(t, sessiontest.Memory(t), model, llmagent.Compaction{Window: 1000}, instructions)
	var compacted int
	for i := range 40 {
		events := must.Get(turn(r, fmt.Sprint("Question ", i)))
		if now := len(payloads[*event.Compaction](events)); now > 0 && i > 0 {
			compacted += now
			require.Contains(t, words(model.last()), fmt.Sprint("Question ", i-1))
		}
	}
	require.NotZero(t, compacted)
	require.Less(t, compacted, 10)
	length = 2900
	events := must.Get(turn(r, "And now?"))
	require.Len(t, payloads[*event.Compaction](events), 1)
	require.LessOrEqual(t, llm.CountRequest(model.last(), nil), 1000)
}

// TestAnAgentToolOutgrowsItsWindow: the scope of an agent tool has a view of its
// own, whose task stays.
func TestAnAgentToolOutgrowsItsWindow(t *testing.T) {
	const window = 1500
	inner := &endpoint{t: t, name: "inner", window: window, answer: working(20)}
	worker := must.Get(llmagent.New("worker", "Work.", inner, llmagent.WithTools(looking(t, 400)),
		llmagent.WithCompaction(llmagent.Compaction{Window: window, Summarizer: &endpoint{t: t, name: "small", answer: says("Looked so far.")}})))
	work := must.Get(agenttool.New(worker, agenttool.WithName("work")))
	outer := &endpoint{t: t, name: "outer", answer: func(req *llm.Request) []scripted.Item {
		if len(req.Messages) > 1 {
			return []scripted.Item{scripted.Text("Done.")}
		}
		return []scripted.Item{scripted.Call("work", `{"input":"Look twenty times"}`)}
	}}
	a := must.Get(llmagent.New("solo", "Be kind.", outer, llmagent.WithTools(work)))
	r := must.Get(runner.New(a, sessiontest.Memory(t), runner.WithLimits(runner.Limits{Steps: runner.NoLimit, ModelCalls: runner.NoLimit})))
	events := must.Get(turn(r, "Do it"))
	require.Greater(t, len(payloads[*event.Compaction](events)), 1)
	for _, req := range inner.requests {
		require.Contains(t, words(req), "Look twenty times")
	}
	require.Contains(t, words(inner.last()), "Looked so far.")
	require.Equal(t, "Do it\n\n\n", words(outer.last()), "the conversation is as it was")
}

// TestTooLongAnyway has nothing that could be left out: the endpoint decides.
func TestTooLongAnyway(t *testing.T) {
	model := &endpoint{t: t, name: "m", window: 1000, answer: says("Well.")}
	r := build(t, sessiontest.Memory(t), model, llmagent.Compaction{Window: 10_000})
	_, err := turn(r, strings.Repeat("word ", 1500))
	require.Equal(t, llm.CodeContextLength, must.As[*llm.Error](err).Code)
	require.Len(t, model.requests, 1)
	events, err := turn(r, "Shorter, then")
	require.NoError(t, err, "the session stays usable")
	require.Len(t, payloads[*event.Compaction](events), 1)
	require.Equal(t, view.LeftOut+"\nShorter, then\n", words(model.last()))
}

// TestTheEndpointSaysTooLong has a window that is smaller than the settings say.
func TestTheEndpointSaysTooLong(t *testing.T) {
	for _, looks := range []int{1, 12} { // many turns, and long ones
		model := &endpoint{t: t, name: "m", window: 1200, answer: working(looks)}
		small := &endpoint{t: t, name: "small", answer: says("Short.")}
		r := build(t, sessiontest.Memory(t), model, llmagent.Compaction{Window: 100_000, Summarizer: small}, llmagent.WithTools(looking(t, 400)))
		var compacted, answered int
		for i := range 36 / looks {
			events := must.Get(turn(r, fmt.Sprint("Question ", i)))
			compacted += len(payloads[*event.Compaction](events))
			answered += len(payloads[*event.Usage](events))
		}
		require.NotZero(t, compacted)
		require.Equal(t, answered, len(model.requests), "as many are refused as there are summaries")
	}
	// At last it gives up.
	store := sessiontest.Memory(t)
	wide := &endpoint{t: t, name: "wide", answer: says("Well.")}
	for i := range 8 {
		must.Get(turn(build(t, store, wide, llmagent.Compaction{Window: 100_000}), fmt.Sprint("Question ", i)))
	}
	model := &endpoint{t: t, name: "m", window: 1, answer: says("never")}
	events, err := turn(build(t, store, model, llmagent.Compaction{Window: 100_000}), "Well?")
	require.Equal(t, llm.CodeContextLength, must.As[*llm.Error](err).Code)
	require.Len(t, payloads[*event.Compaction](events), 2)
	require.Len(t, model.requests, 3)
}

// TestACompactionIsAStep takes one step at a time, goes on in another process,
// and breaks one off.
// TestTooLongWithoutTheOption: an endpoint that finds a request too long ends one turn at most, and costs as little of the
// conversation as it must.
func TestTooLongWithoutTheOption(t *testing.T) {
	text := strings.Repeat("word ", 2000)
	t.Run("a conversation that outgrows the window", func(t *testing.T) {
		for _, looks := range []int{1, 12} { // many turns, and long ones
			model := &endpoint{t: t, name: "m", window: 1200, answer: working(looks), proxy: looks == 1}
			r := build(t, sessiontest.Memory(t), model, llmagent.Compaction{}, llmagent.WithTools(looking(t, 400)))
			for i := range 36 / looks {
				events := must.Get(turn(r, fmt.Sprint("Question ", i)))
				for _, c := range payloads[*event.Compaction](events) {
					require.Empty(t, c.Summary)
				}
			}
			require.Contains(t, words(model.last()), view.LeftOut)
		}
	})
	t.Run("a message that is too long", func(t *testing.T) {
		model := &endpoint{t: t, name: "m", window: 2000, answer: says("Well.")}
		r := build(t, sessiontest.Memory(t), model, llmagent.Compaction{})
		must.Get(turn(r, "Question 1"))
		events, err := turn(r, text)
		require.Equal(t, llm.CodeContextLength, must.As[*llm.Error](err).Code)
		require.Empty(t, payloads[*event.Compaction](events), "leaving out the question would not help")
		must.Get(turn(r, "Shorter, then"))
		require.Equal(t, view.LeftOut+"\nShorter, then\n", words(model.last()))
		must.Get(turn(r, "And now?"))
		require.Equal(t, view.LeftOut+"\nShorter, then\nWell.\nAnd now?\n", words(model.last()))
	})
	t.Run("a result that is too long", func(t *testing.T) {
		model := &endpoint{t: t, name: "m", window: 2000, answer: working(1)}
		r := build(t, sessiontest.Memory(t), model, llmagent.Compaction{}, llmagent.WithTools(looking(t, 20_000)))
		_, err := turn(r, "Look")
		require.Error(t, err)
		model.answer = says("Well.")
		must.Get(turn(r, "Do not look"))
		require.Equal(t, view.LeftOut+"\nDo not look\n", words(model.last()))
	})
	t.Run("a window that shrinks", func(t *testing.T) {
		model := &endpoint{t: t, name: "m", window: 1 << 20, answer: says("Well.")}
		r := build(t, sessiontest.Memory(t), model, llmagent.Compaction{})
		for i := range 60 {
			must.Get(turn(r, fmt.Sprint("Question ", i, strings.Repeat(" word", 100))))
		}
		model.window = 400
		failed := 0
		for ; failed < 10; failed++ {
			if _, err := turn(r, "Well?"); err == nil {
				break
			}
		}
		require.Equal(t, 1, failed, "each message leaves out three quarters")
	})
}

func TestACompactionIsAStep(t *testing.T) {
	ctx := context.Background()
	small := &endpoint{t: t, name: "small", answer: says("A summary.")}
	r, model, store := full(t, small)
	before := len(model.requests)
	_, _, err := r.Begin(ctx, key, llm.UserText("And now?"))
	require.NoError(t, err)
	events, done, err := over(r.Advance(ctx, key, runner.Step{Attempt: 1}))
	require.NoError(t, err)
	require.False(t, done)
	require.Equal(t, []string{event.TypeCompaction, event.TypeUsage}, types(events))
	require.Len(t, model.requests, before)

	other := build(t, store, model, llmagent.Compaction{Window: 1000, Summarizer: small})
	_, done, err = over(other.Advance(ctx, key, runner.Step{Attempt: 2}))
	require.NoError(t, err)
	require.True(t, done)
	require.Len(t, small.requests, 1, "a summary that is stored is not asked for again")
	require.Contains(t, words(model.last()), "A summary.")

	canceled, cancel := context.WithCancel(ctx)
	r, model, _ = full(t, &endpoint{t: t, name: "small", answer: func(*llm.Request) []scripted.Item {
		cancel()
		return []scripted.Item{scripted.Wait(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })}
	}})
	before = len(model.requests)
	var kept []*event.Event
	var failed error
	for e, err := range r.Run(canceled, key, llm.UserText("And now?")) {
		if failed = err; err == nil {
			kept = append(kept, e)
		}
	}
	require.ErrorIs(t, failed, context.Canceled)
	require.Equal(t, []string{event.TypeUser, event.TypeHarnessStart}, types(kept), "a cancelled summary leaves nothing behind")
	require.Len(t, model.requests, before)
}

func TestCompactionSettings(t *testing.T) {
	m := scripted.Always("m", scripted.Reply(scripted.Text("ok")))
	for _, c := range []struct {
		set  llmagent.Compaction
		max  int
		says string
	}{
		{llmagent.Compaction{}, 0, "window is missing"},
		{llmagent.Compaction{Window: -1}, 0, "window is missing"},
		{llmagent.Compaction{Window: 1000, At: 1.5}, 0, "must satisfy"},
		{llmagent.Compaction{Window: 1000, At: 0.4}, 0, "must satisfy"},
		{llmagent.Compaction{Window: 1000, Keep: 0.9}, 0, "must satisfy"},
		{llmagent.Compaction{Window: 1000, Keep: -0.1}, 0, "must satisfy"},
		{llmagent.Compaction{Window: 1000}, 1000, "leaves no room"},
		{llmagent.Compaction{Window: 1000}, 999, ""},
		{llmagent.Compaction{Window: 1000, At: 1, Keep: 0.99}, 0, ""},
	} {
		_, err := llmagent.New("solo", "", m, llmagent.WithCompaction(c.set), llmagent.WithSettings(llm.Settings{MaxTokens: c.max}))
		if c.says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.says)
		}
	}

	// The answer's tokens stay free.
	model := &endpoint{t: t, name: "m", answer: says(strings.Repeat("word ", 100))}
	r := build(t, sessiontest.Memory(t), model, llmagent.Compaction{Window: 1000}, llmagent.WithSettings(llm.Settings{MaxTokens: 500}))
	for i := range 10 {
		must.Get(turn(r, fmt.Sprint("Question ", i)))
		require.LessOrEqual(t, llm.CountRequest(model.last(), nil), 500)
	}
}

// TestAStepThatNeedsNoCompaction costs what it costs without the option, also
// when the conversation is long.
func TestAStepThatNeedsNoCompaction(t *testing.T) {
	cost := func(history int, opts ...llmagent.Option) float64 {
		a := must.Get(llmagent.New("solo", "Be kind.", scripted.Always("m", scripted.Reply(scripted.Text("ok"), scripted.Usage(100, 10, 0))), opts...))
		r := must.Get(runner.New(a, session.NewMemory()))
		for range history {
			must.Get(turn(r, "Hello"))
		}
		return race.Allocations(t, 50, func() {
			must.All(r.Run(context.Background(), key, llm.UserText("Hello")))
		})
	}
	on := llmagent.WithCompaction(llmagent.Compaction{Window: 1_000_000})
	require.InDelta(t, cost(600), cost(600, on), 3)
	require.InDelta(t, cost(10, on), cost(600, on), 3)
}

// over tells of a step whether its turn is over.
func over(events []*event.Event, s runner.TurnState, err error) ([]*event.Event, bool, error) {
	return events, s.Over, err
}
