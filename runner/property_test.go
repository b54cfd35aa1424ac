package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// TestProperties plays random conversations on random trees of agents with
// random models and holds them against what is always true. Run it for longer
// with -rapid.checks=20000.
func TestProperties(t *testing.T) {
	require.NoError(t, flag.Set("rapid.nofailfile", "true")) // a failure prints its seed
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: rapidTB{t, rt}, rt: rt, runs: make(map[string]int), last: make(map[string]shown)}
		w.play()
	})
}

// rapidTB lets helpers that want a testing.TB fail a rapid check.
type rapidTB struct {
	testing.TB
	rt *rapid.T
}

func (t rapidTB) Helper()                           {}
func (t rapidTB) Errorf(format string, args ...any) { t.rt.Errorf(format, args...) }
func (t rapidTB) FailNow()                          { t.rt.FailNow() }
func (t rapidTB) Fatalf(format string, args ...any) { t.rt.Fatalf(format, args...) }

// world is one random case: a tree, what its models will say, and what was seen.
type world struct {
	t     testing.TB
	rt    *rapid.T
	names []string // of the agents in the tree
	root  agent.Agent
	store session.Store
	opts  []runner.Option

	mu        sync.Mutex // models and tools run in parallel
	plans     []plan
	turn      int
	problems  []string
	panics    bool
	runs      map[string]int   // executions of tools that are not idempotent, by key
	last      map[string]shown // the last request of each agent
	streaming bool
}

type shown struct {
	turn     int
	messages []llm.Message
}

// plan is one answer of a model.
type plan struct {
	Texts, Thoughts []string
	Calls           []plannedCall
	Usage           bool
	Finish          llm.FinishReason
	End             string // "", cut, fail (retryable), refuse, panic
}

type plannedCall struct{ ID, Name, Args string }

func (w *world) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// next takes the next plan; when there is none left, models say "ok".
func (w *world) next() plan {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.plans) == 0 {
		return plan{Texts: []string{"ok"}}
	}
	p := w.plans[0]
	w.plans = w.plans[1:]
	w.panics = w.panics || p.End == "panic"
	return p
}

// plannedModel is the model of one agent. Inner ones are asked in several scopes.
type plannedModel struct {
	w     *world
	name  string
	inner bool
	trims bool // its agent's view does
}

func (m *plannedModel) Name() string { return m.name }

func (m *plannedModel) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		m.check(req)
		p := m.w.next()
		for _, c := range p.chunks() {
			if err := ctx.Err(); err != nil {
				yield(llm.Chunk{}, err)
				return
			}
			if !yield(c, nil) {
				return
			}
		}
		switch p.End {
		case "panic":
			panic("the model's adapter panics")
		case "fail":
			yield(llm.Chunk{}, &llm.Error{Code: llm.CodeServer, Status: 503, Retryable: true, Message: "busy"})
		case "refuse":
			yield(llm.Chunk{}, &llm.Error{Code: llm.CodeRateLimited, Status: 429, Message: "no quota"})
		}
	}
}

func (p plan) chunks() []llm.Chunk {
	var chunks []llm.Chunk
	for _, s := range p.Thoughts {
		chunks = append(chunks, llm.Chunk{Reasoning: s})
	}
	for _, s := range p.Texts {
		chunks = append(chunks, llm.Chunk{Text: s})
	}
	for _, c := range p.Calls {
		chunks = append(chunks, llm.Chunk{Call: &llm.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Args}})
	}
	if p.End == "" {
		last := llm.Chunk{Finish: p.Finish}
		if last.Finish == "" {
			last.Finish = llm.FinishStop
		}
		if p.Usage {
			last.Usage = &llm.Usage{InputTokens: 3, OutputTokens: 2}
		}
		chunks = append(chunks, last)
	}
	return chunks
}

// check holds a request against the wire rules, and against the agent's last
// one: a conversation only grows at its end.
func (m *plannedModel) check(req *llm.Request) {
	if err := view.Check(req); err != nil {
		m.w.problem("request of %s: %v\n%v", m.name, err, req.Messages)
	}
	if m.inner {
		return
	}
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	last, ok := m.w.last[m.name]
	if ok && (!m.trims || last.turn == m.w.turn) {
		if len(last.messages) > len(req.Messages) || !equalMessages(last.messages, req.Messages[:len(last.messages)]) {
			m.w.problems = append(m.w.problems, fmt.Sprintf("request of %s does not continue its last one:\n%v\n%v", m.name, last.messages, req.Messages))
		}
	}
	m.w.last[m.name] = shown{m.w.turn, req.Messages}
}

func equalMessages(a, b []llm.Message) bool {
	return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b)
}

// tree builds a random tree of at most 50 agents, at most 6 deep.
func (w *world) tree() {
	n := rapid.OneOf(rapid.IntRange(1, 6), rapid.IntRange(1, 6), rapid.IntRange(1, 6), rapid.IntRange(7, 50)).Draw(w.rt, "agents")
	parent, depth := make([]int, n), make([]int, n)
	for i := range n {
		w.names = append(w.names, fmt.Sprintf("a%d", i))
		if i > 0 {
			parent[i] = rapid.IntRange(0, i-1).Draw(w.rt, "parent")
			for depth[parent[i]] >= 5 {
				parent[i] = parent[parent[i]]
			}
			depth[i] = depth[parent[i]] + 1
		}
	}
	w.plans = rapid.SliceOfN(w.genPlan(), 0, 24).Draw(w.rt, "plans")
	kids := make([][]agent.Agent, n)
	for i := n - 1; i >= 0; i-- {
		a := w.agent(w.names[i], kids[i])
		if i == 0 {
			w.root = a
			break
		}
		var opts []agent.EdgeOption
		if rapid.IntRange(0, 3).Draw(w.rt, "show reason") == 3 {
			opts = append(opts, agent.ShowReason())
		}
		kids[parent[i]] = append([]agent.Agent{agent.Via(a, opts...)}, kids[parent[i]]...)
	}
}

func (w *world) agent(name string, kids []agent.Agent) agent.Agent {
	policy := agent.TransferPolicy{
		AllowTransferToParent: rapid.Bool().Draw(w.rt, "to parent"), AllowTransferToPeers: rapid.Bool().Draw(w.rt, "to peers")}
	if rapid.IntRange(0, 9).Draw(w.rt, "function agent") == 9 {
		a, err := agent.New(name, "A function.", w.function, agent.WithSubAgents(kids...), agent.WithTransferPolicy(policy))
		require.NoError(w.t, err)
		return a
	}
	history := rapid.SampledFrom([]string{"full", "full", "text_only", "own", "last_turns:1", "last_turns:2"}).Draw(w.rt, "history")
	p, err := view.Parse(history)
	require.NoError(w.t, err)
	m := &plannedModel{w: w, name: name, trims: strings.HasPrefix(history, "last")}
	a, err := llmagent.New(name, "You are "+name+".", m, llmagent.WithDescription("Agent "+name), llmagent.WithSubAgents(kids...),
		llmagent.WithTransferPolicy(policy), llmagent.WithHistory(p), llmagent.WithTools(w.tools(name)...),
		llmagent.WithParallelTools(rapid.IntRange(1, 3).Draw(w.rt, "parallel")))
	require.NoError(w.t, err)
	return a
}

// function is a function agent: it says the texts of a plan, and transfers
// without asking first. Calls that an earlier step of its run has left, before
// or after a crash, it answers first.
func (w *world) function(ctx context.Context, inv *agent.Invocation) iter.Seq2[*agent.Event, error] {
	return func(yield func(*agent.Event, error) bool) {
		var open []string
		for e, err := range inv.Session().Events(ctx, 0) {
			if err != nil {
				yield(nil, err)
				return
			}
			switch e.Data.(type) {
			case *agent.ToolCall:
				if e.RunID == inv.RunID() {
					open = append(open, e.ID)
				}
			case *agent.ToolResult:
				open = slices.DeleteFunc(open, func(id string) bool { return id == e.ID })
			}
		}
		for _, id := range open {
			if !yield(&agent.Event{ID: id, Data: &agent.ToolResult{Name: "own", Output: json.RawMessage(`"forgotten"`)}}, nil) {
				return
			}
		}
		p := w.next()
		for _, s := range p.Texts {
			if !yield(&agent.Event{Data: &agent.Text{Content: s}}, nil) {
				return
			}
		}
		for _, c := range p.Calls {
			var args struct {
				To string `json:"agent_name"`
			}
			_ = json.Unmarshal([]byte(c.Args), &args)
			switch c.Name {
			case agent.TransferTool:
				if !yield(&agent.Event{Data: &agent.Transfer{To: args.To, Outcome: agent.TransferCommitted}}, nil) {
					return
				}
			case "fine": // a call and its result
				call := &agent.Event{ID: c.ID, Data: &agent.ToolCall{Name: "own", Input: agent.ObjectInput(c.Args)}}
				if !yield(call, nil) || !yield(&agent.Event{ID: call.ID, Data: &agent.ToolResult{Name: "own", Output: json.RawMessage(`1`)}}, nil) {
					return
				}
			case "remember":
				if !yield(&agent.Event{Data: &agent.State{Delta: map[string]any{"seen": true}}, More: true}, nil) {
					return
				}
			case "broken": // a call that it forgets
				if !yield(&agent.Event{ID: c.ID, Data: &agent.ToolCall{Name: "own", Input: agent.ObjectInput(c.Args)}, More: p.Usage}, nil) {
					return
				}
			}
		}
		switch {
		case p.End == "panic":
			panic("the function panics")
		case p.End != "":
			yield(nil, &llm.Error{Code: llm.CodeServer, Message: "broken function"})
		case p.Finish == llm.FinishToolCalls:
			yield(&agent.Event{Data: &agent.Continue{}}, nil)
		}
	}
}

func (w *world) tools(owner string) []tools.Tool {
	type in struct {
		N int `json:"n,omitempty"`
	}
	once := func(name string, f func(tools.Context, in) (any, error), opts ...tools.Option) tools.Tool {
		t, err := tools.Func(name, "Does "+name+".", func(ctx tools.Context, in in) (any, error) {
			if len(opts) == 0 {
				w.mu.Lock()
				w.runs[ctx.IdempotencyKey()]++
				w.mu.Unlock()
			}
			return f(ctx, in)
		}, opts...)
		require.NoError(w.t, err)
		return t
	}
	inner, err := llmagent.New("in_"+owner, "", &plannedModel{w: w, name: "in_" + owner, inner: true}, llmagent.WithTools(once("fine", func(tools.Context, in) (any, error) { return "fine", nil })))
	require.NoError(w.t, err)
	nested, err := agenttool.New(inner, agenttool.WithName("nested"))
	require.NoError(w.t, err)
	return []tools.Tool{
		once("fine", func(_ tools.Context, in in) (any, error) { return map[string]int{"n": in.N}, nil }),
		once("again", func(tools.Context, in) (any, error) { return "again", nil }, tools.Idempotent()),
		once("broken", func(tools.Context, in) (any, error) { return nil, errors.New("on fire\nall of it") }),
		once("panics", func(tools.Context, in) (any, error) { panic("boom") }),
		once("remember", func(c tools.Context, in in) (any, error) {
			c.Set("seen", in.N)
			c.Progress(in.N)
			return strings.Repeat("é", 300), nil
		}),
		nested,
	}
}

func (w *world) genPlan() *rapid.Generator[plan] {
	words := rapid.SampledFrom([]string{"Hello.", " ", "", "é世界", "[a0] said", "line\nline", "bad \xff byte"})
	name := rapid.SampledFrom(append([]string{"nobody", "", "A0", " a0 "}, w.names...))
	args := rapid.OneOf(
		rapid.SampledFrom([]string{"", "{}", `{"n": 3}`, `{"n": "x"}`, "[1]", "{oops", `"text"`, "null", `{"input":"do it"}`, "{\"n\": 1,\n\"x\": \"\xff\"}"}),
		rapid.Map(name, func(n string) string { return fmt.Sprintf(`{"agent_name": %q, "reason": "because\nof it"}`, n) }),
		rapid.Map(name, func(n string) string { return fmt.Sprintf("%q", fmt.Sprintf(`{"agent_name": %q}`, n)) }),
		rapid.SampledFrom([]string{`{"agent_name": 3}`, `{"agent_name": null}`, `{"reason": "x"}`}),
	)
	call := rapid.Custom(func(t *rapid.T) plannedCall {
		c := plannedCall{ID: rapid.SampledFrom([]string{"", "c1", "c1", "c2", "bad id\n", strings.Repeat("x", 70)}).Draw(t, "id")}
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0, 1:
			c.Name = agent.TransferTool
			c.Args = fmt.Sprintf(`{"agent_name": %q}`, name.Draw(t, "target"))
		case 2, 3:
			c.Name = rapid.SampledFrom([]string{"fine", "again", "broken", "panics", "remember", "nested"}).Draw(t, "tool")
			c.Args = rapid.SampledFrom([]string{"", `{"n": 3}`, `{"input": "do it"}`, `{"input": " "}`}).Draw(t, "args")
		case 4:
			c.Name, c.Args = name.Draw(t, "bare name"), args.Draw(t, "args")
		default:
			c.Name = rapid.SampledFrom([]string{agent.TransferTool, "fine", "nested", "unknown", "bad name", "\xff", strings.Repeat("n", 65)}).Draw(t, "odd tool")
			c.Args = args.Draw(t, "args")
		}
		return c
	})
	return rapid.Custom(func(t *rapid.T) plan {
		p := plan{Usage: rapid.Bool().Draw(t, "usage")}
		if rapid.IntRange(0, 3).Draw(t, "think") == 3 {
			p.Thoughts = rapid.SliceOfN(words, 1, 2).Draw(t, "thoughts")
		}
		if rapid.Bool().Draw(t, "speak") {
			p.Texts = rapid.SliceOfN(words, 1, 3).Draw(t, "texts")
		}
		if rapid.IntRange(0, 3).Draw(t, "act") > 0 {
			p.Calls = rapid.SliceOfN(call, 1, 4).Draw(t, "calls")
		}
		if rapid.IntRange(0, 3).Draw(t, "odd finish") == 3 {
			p.Finish = rapid.SampledFrom([]llm.FinishReason{llm.FinishLength, llm.FinishToolCalls, llm.FinishContentFilter, "weird"}).Draw(t, "finish")
		}
		if rapid.IntRange(0, 5).Draw(t, "odd end") == 5 {
			p.End = rapid.SampledFrom([]string{"cut", "cut", "fail", "refuse", "panic"}).Draw(t, "end")
		}
		return p
	})
}

func (w *world) play() {
	w.tree()
	w.store = session.NewMemory()
	if rapid.Bool().Draw(w.rt, "codec") {
		w.store = codecStore{w.store}
	}
	if w.streaming = rapid.Bool().Draw(w.rt, "streaming"); w.streaming {
		w.opts = append(w.opts, runner.WithStreaming())
	}
	if rapid.IntRange(0, 3).Draw(w.rt, "small limits") == 3 {
		limit := rapid.IntRange(0, 4)
		w.opts = append(w.opts, runner.WithLimits(runner.Limits{Transfers: limit.Draw(w.rt, "transfers"),
			ModelCalls: limit.Draw(w.rt, "model calls"), ToolCalls: limit.Draw(w.rt, "tool calls"), Steps: limit.Draw(w.rt, "steps")}))
	}
	r := w.runner()
	var log []*agent.Event
	for range rapid.IntRange(1, 5).Draw(w.rt, "actions") {
		if rapid.IntRange(0, 2).Draw(w.rt, "another process") == 2 {
			r = w.runner()
		}
		if rapid.IntRange(0, 2).Draw(w.rt, "resume") == 2 {
			log = w.act(r, log, false, func(ctx context.Context, key session.Key) iter.Seq2[*agent.Event, error] { return r.Resume(ctx, key) })
		} else {
			w.turn++
			msg := w.message()
			log = w.act(r, log, true, func(ctx context.Context, key session.Key) iter.Seq2[*agent.Event, error] { return r.Run(ctx, key, msg) })
		}
	}
}

func (w *world) runner() *runner.Runner {
	r, err := runner.New(w.root, w.store, w.opts...)
	require.NoError(w.t, err)
	return r
}

func (w *world) message() llm.Message {
	return rapid.SampledFrom([]llm.Message{
		llm.UserText("Hello"), llm.UserText("a\x00 \u202e<b>\n"),
		llm.UserParts(llm.TextPart{Text: "See"}, llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte{1, 2}}),
		{Role: llm.RoleUser, Content: llm.Content{Text: "Both", Parts: []llm.Part{llm.Media{Kind: llm.MediaFile, MediaType: "text/plain", URL: "https://example.com/a.txt", Name: "a"}}}},
	}).Draw(w.rt, "message")
}

// act runs or resumes a turn, with a break or a cancellation at a random event,
// and checks all that must hold afterwards. It returns the log.
func (w *world) act(r *runner.Runner, before []*agent.Event, fresh bool, start func(context.Context, session.Key) iter.Seq2[*agent.Event, error]) []*agent.Event {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopAt, how := 0, ""
	if rapid.IntRange(0, 2).Draw(w.rt, "stop") == 2 {
		how = rapid.SampledFrom([]string{"break", "cancel"}).Draw(w.rt, "how")
		stopAt = rapid.IntRange(1, 30).Draw(w.rt, "stop at")
	}
	var delivered []*agent.Event
	var failed error
	deltas, settled := make(map[string]string), make(map[string]bool)
	n, stopped := 0, false
	for e, err := range start(ctx, s1) {
		require.NoError(w.t, failed, "nothing comes after an error")
		n++
		switch {
		case err != nil:
			require.Nil(w.t, e)
			failed = err
		case e.Partial:
			require.True(w.t, w.streaming)
			require.False(w.t, settled[e.ID], "a delta of a block that is over")
			require.Positive(w.t, e.Attempt)
			deltas[e.ID] += partialText(e)
		default:
			delivered = append(delivered, e)
			switch d := e.Data.(type) {
			case *agent.Text, *agent.Reasoning:
				if shown, ok := deltas[e.ID]; ok {
					require.Equal(w.t, strings.ToValidUTF8(shown, "\uFFFD"), partialText(e))
				}
				settled[e.ID] = true
			case *agent.Discard:
				for _, id := range d.IDs {
					require.Contains(w.t, deltas, id)
					require.False(w.t, settled[id])
					settled[id] = true
				}
			}
		}
		if n == stopAt {
			stopped = true
			if how == "break" {
				break
			}
			cancel()
		}
	}
	after := load(w.t, r, s1)
	if len(w.problems) > 0 {
		w.t.Fatalf("%s", strings.Join(w.problems, "\n"))
	}
	for key, runs := range w.runs {
		require.Equal(w.t, 1, runs, "the tool call %s was executed more than once", key)
	}
	w.checkError(failed, stopped)
	checkLog(w.t, r, after)
	require.GreaterOrEqual(w.t, len(after), len(before))
	requireSame(w.t, before, after[:len(before)])
	if fresh && !stopped {
		require.NotEmpty(w.t, delivered)
	}
	// What is delivered is what is stored, from the first new event on.
	require.LessOrEqual(w.t, len(before)+len(delivered), len(after))
	requireSame(w.t, delivered, after[len(before):len(before)+len(delivered)])
	if !stopped {
		require.Len(w.t, after, len(before)+len(delivered))
		for id := range deltas {
			require.True(w.t, settled[id], "the deltas of %s came to nothing", id)
		}
		if len(after) > 0 {
			require.Equal(w.t, agent.TypeHarnessEnd, after[len(after)-1].Type())
		}
	}
	w.checkWarm(r, after)
	return after
}

func (w *world) checkError(err error, stopped bool) {
	if err == nil || stopped && errors.Is(err, context.Canceled) {
		return
	}
	var re *agent.RunError
	require.ErrorAs(w.t, err, &re)
	switch re.Code {
	case "transfer_limit":
		require.ErrorIs(w.t, err, agent.ErrTransferLimit)
	case "transfer_rejected":
		require.ErrorIs(w.t, err, agent.ErrTransferRejected)
	case "limit":
		require.ErrorIs(w.t, err, agent.ErrLimit)
	case "output_truncated":
		require.ErrorIs(w.t, err, agent.ErrOutputTruncated)
	case "internal":
		require.True(w.t, w.panics, "%v", err)
	default:
		var me *llm.Error
		require.ErrorAs(w.t, err, &me)
		require.Contains(w.t, []llm.ErrorCode{llm.CodeTruncated, llm.CodeServer, llm.CodeRateLimited}, me.Code)
	}
}

// checkWarm compares the runner, warm by now, with one that knows nothing but
// the log, and both with the log itself.
func (w *world) checkWarm(r *runner.Runner, log []*agent.Event) {
	cold := w.runner()
	active := w.names[0]
	for _, e := range log {
		if d, ok := e.Data.(*agent.Transfer); ok && d.Outcome == agent.TransferCommitted && e.Scope == "" {
			active = d.To
		}
	}
	for _, who := range []*runner.Runner{r, cold} {
		got, err := who.Active(context.Background(), s1)
		require.NoError(w.t, err)
		require.Equal(w.t, active, got)
	}
	for _, name := range w.names {
		a, err := r.Preview(context.Background(), s1, name)
		require.NoError(w.t, err)
		b, err := cold.Preview(context.Background(), s1, name)
		require.NoError(w.t, err)
		if a == nil && b == nil {
			continue // a function
		}
		require.Equal(w.t, b.Messages, a.Messages, "the warm view of %s is not the cold one", name)
		require.Equal(w.t, b.System, a.System)
		require.Equal(w.t, b.Tools, a.Tools)
	}
}

func requireSame(t testing.TB, want, got []*agent.Event) {
	require.Len(t, got, len(want))
	for i := range want {
		a, err := json.Marshal(want[i])
		require.NoError(t, err)
		b, err := json.Marshal(got[i])
		require.NoError(t, err)
		require.Equal(t, string(a), string(b))
	}
}

// codecStore keeps of each event what its JSON form keeps.
type codecStore struct{ session.Store }

func (s codecStore) Append(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*agent.Event) error {
	decoded := make([]*agent.Event, len(events))
	for i, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		decoded[i] = new(agent.Event)
		if err := json.Unmarshal(data, decoded[i]); err != nil {
			return err
		}
	}
	return s.Store.Append(ctx, key, seq, lease, decoded...)
}
