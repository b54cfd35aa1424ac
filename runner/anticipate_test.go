package runner_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/policy"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// always predicts one target.
func always(target string) runner.Predictor {
	return func(context.Context, runner.Prospect) (string, float64) { return target, 1 }
}

// firstToken is how long a model of these tests takes to its first token.
const firstToken = 300 * time.Millisecond

// after waits for some time before the rest of an answer.
func after(d time.Duration) scripted.Item {
	return scripted.Wait(func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// tallied counts the requests to a model, and those of them that are anticipated.
type tallied struct {
	llm.Model
	mu                 *sync.Mutex
	asked, anticipated *int
}

func (m tallied) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	m.mu.Lock()
	*m.asked++
	if llm.Anticipated(ctx) {
		*m.anticipated++
	}
	m.mu.Unlock()
	return m.Model.Generate(ctx, req)
}

// forecast is a desk that transfers to billing at once, and what its models were asked.
type forecast struct {
	root               agent.Agent
	asked, anticipated map[string]*int
}

// newForecast returns such a desk. Says is what desk answers; nil transfers.
func newForecast(t testing.TB, says *scripted.Answer, delay time.Duration, name string, edge ...agent.EdgeOption) *forecast {
	f := &forecast{asked: make(map[string]*int), anticipated: make(map[string]*int)}
	make := func(of string, answer scripted.Answer, opts ...llmagent.Option) agent.Agent {
		f.asked[of], f.anticipated[of] = new(int), new(int)
		called := of
		if name != "" {
			called = name
		}
		return must.Get(llmagent.New(of, "You are "+of+".", tallied{scripted.Always(called, answer), new(sync.Mutex), f.asked[of], f.anticipated[of]},
			append(opts, llmagent.WithDescription("Work of "+of), llmagent.WithSettings(llm.Settings{MaxTokens: 50}))...))
	}
	if says == nil {
		transfer := scripted.Reply(after(delay), scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`), scripted.Usage(100, 10, 0))
		says = &transfer
	}
	billing := make("billing", scripted.Reply(after(delay), scripted.Text("Your ", "refund."), scripted.Usage(70, 20, 0)))
	shipping := make("shipping", scripted.Reply(after(delay), scripted.Text("Your parcel."), scripted.Usage(60, 20, 0)))
	f.root = make("desk", *says, llmagent.WithSubAgents(agent.Via(billing, edge...), agent.Via(shipping, edge...)))
	return f
}

// lines shows a log without what the runner has anticipated, and the discards of that.
func lines(events []*event.Event) (log string, discards []*event.Discard) {
	var out strings.Builder
	var calls transcript.Calls
	for _, e := range events {
		if d, ok := e.Data.(*event.Discard); ok && d.Code == event.CodeAnticipated {
			discards = append(discards, d)
			continue
		}
		calls.Add(e)
		shown := *e
		shown.Seq = 0
		writeEvent(&out, &shown, calls, 0)
		if u, ok := e.Data.(*event.Usage); ok {
			fmt.Fprintf(&out, "%+v\n", *u)
		}
	}
	return out.String(), discards
}

// TestAnticipation asks a target while the agent that transfers to it is still asked: a turn with a transfer takes as
// long as one without, whatever the agents' requests are like, and the log is the same.
func TestAnticipation(t *testing.T) {
	for name, opts := range map[string][]runner.Option{"": nil, "streamed": {runner.WithStreaming()}, "shared": {runner.WithSharedRequests()},
		"with interceptors": {runner.WithInterceptors(agent.Passthrough{})}, "with budgets": {runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Tokens: 9000}})}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				play := func(opts ...runner.Option) (log string, discards []*event.Discard, took time.Duration, f *forecast) {
					input := `{"agent_name":"billing","reason":"a refund"}`
					if name == "shared" { // where the target is shown the call
						input = `{"agent_name":"billing"}`
					}
					says := scripted.Reply(after(firstToken), scripted.Call(agent.TransferTool, input), scripted.Usage(100, 10, 0))
					f = newForecast(t, &says, firstToken, "one")
					r := newRun(t, f.root, opts...)
					begun, deltas := time.Now(), ""
					for _, e := range must.All(r.Run(context.Background(), s1, llm.UserText("Where is my refund?"))) {
						if e.Partial {
							deltas += partialText(e)
						}
					}
					took = time.Since(begun)
					require.True(t, deltas == "" || deltas == "Your refund.", deltas)
					all := load(t, r, s1)
					log, discards = lines(all)
					return log, discards, took, f
				}
				plain, _, took, _ := play(opts...)
				require.Equal(t, 2*firstToken, took)
				log, discards, took, f := play(append(opts, runner.WithAnticipation(always("billing"), 0.6))...)
				require.Equal(t, plain, log)
				require.Empty(t, discards)
				require.Equal(t, firstToken, took)
				require.Equal(t, []int{1, 1, 1, 0}, []int{*f.asked["desk"], *f.asked["billing"], *f.anticipated["billing"], *f.asked["shipping"]})
			})
		})
	}
}

// TestAnticipationInVain has predictors that are wrong in every way, and agents that do something else: the log is what
// it is without them, but for one discard with what was used. No goroutine is left.
func TestAnticipationInVain(t *testing.T) {
	answers := scripted.Reply(after(firstToken), scripted.Text("I can do that."), scripted.Usage(100, 10, 0))
	tells := scripted.Reply(after(firstToken), scripted.Text("A moment. "), after(firstToken), scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`), scripted.Usage(100, 10, 0))
	fails := scripted.Reply(after(firstToken), scripted.Status(400, 0))
	twice := scripted.Reply(after(firstToken), scripted.Call("unknown", "{}"), scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`), scripted.Usage(100, 10, 0))
	for name, c := range map[string]struct {
		says    *scripted.Answer
		predict runner.Predictor
		asks    string // who is asked in vain
		opts    []runner.Option
	}{
		"another target":     {nil, always("shipping"), "shipping", nil},
		"no transfer":        {&answers, always("billing"), "billing", nil},
		"words before it":    {&tells, always("billing"), "billing", nil},
		"an error":           {&fails, always("billing"), "billing", nil},
		"two calls":          {&twice, always("billing"), "billing", []runner.Option{runner.WithLimits(runner.Limits{ModelCalls: 6, Steps: 2})}},
		"an unknown target":  {nil, always("nobody"), "", nil},
		"the agent itself":   {nil, always("desk"), "", nil},
		"a person":           {nil, always(agent.Human), "", nil},
		"not sure enough":    {nil, func(context.Context, runner.Prospect) (string, float64) { return "billing", 0.59 }, "", nil},
		"no number":          {nil, func(context.Context, runner.Prospect) (string, float64) { return "billing", math.NaN() }, "", nil},
		"a panic":            {nil, func(context.Context, runner.Prospect) (string, float64) { panic("oh") }, "", nil},
		"until it is ended":  {nil, func(ctx context.Context, _ runner.Prospect) (string, float64) { <-ctx.Done(); return "billing", 1 }, "", nil},
		"longer than a turn": {nil, func(context.Context, runner.Prospect) (string, float64) { time.Sleep(time.Hour); return "billing", 1 }, "", nil},
		"no room in limits":  {nil, always("billing"), "", []runner.Option{runner.WithLimits(runner.Limits{ModelCalls: 2})}},
		"no transfer left":   {&answers, always("billing"), "billing", []runner.Option{runner.WithLimits(runner.Limits{Transfers: 1})}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				play := func(opts ...runner.Option) (string, []*event.Discard, time.Duration, *forecast) {
					f := newForecast(t, c.says, firstToken, "")
					r := newRun(t, f.root, append(slices.Clone(c.opts), opts...)...)
					begun := time.Now()
					_, err := collect(r.Run(context.Background(), s1, llm.UserText("Where is my refund?")))
					took, all := time.Since(begun), load(t, r, s1)
					log, discards := lines(all)
					return log + fmt.Sprint(err), discards, took, f
				}
				plain, _, before, _ := play()
				log, discards, took, f := play(runner.WithAnticipation(c.predict, 0.6))
				time.Sleep(2 * time.Hour) // a predictor may take longer than the turn; then it asks nobody
				require.Equal(t, plain, log)
				require.Equal(t, before, took)
				for of, n := range f.anticipated {
					require.Equal(t, map[bool]int{true: 1}[of == c.asks], *n, of)
				}
				if c.asks == "" {
					require.Empty(t, discards)
					return
				}
				require.Len(t, discards, 1)
				require.Contains(t, discards[0].Message, c.asks+" was asked before a transfer to it")
				require.Greater(t, discards[0].Usage.InputTokens, 10)
				require.Equal(t, c.asks, discards[0].Usage.Model)
			})
		})
	}
}

// TestAnticipationNotAsked has edges and agents that are not anticipated, whatever the predictor says.
func TestAnticipationNotAsked(t *testing.T) {
	guard := agent.Guard{Name: "guard", In: func(context.Context, *agent.Invocation, agent.Ingress) error { return nil }}
	model := func(name string) llm.Model { return scripted.Always(name, scripted.Reply(scripted.Text("Hello."))) }
	to := func(m llm.Model, opts ...llmagent.Option) agent.Agent {
		return must.Get(llmagent.New("billing", "", m, opts...))
	}
	fallback := must.Get(policy.NewFallback([]llm.Model{model("a"), model("b")}))
	function := must.Get(llmagent.Func("billing", "", func(*llmagent.Step) error { return nil }))
	plain := must.Get(agent.New("billing", "", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(func(*event.Event, error) bool) {}
	}))
	hides := func(s string) string { return s }
	for name, c := range map[string]struct {
		to     agent.Agent
		opts   []llmagent.Option
		target bool // it is one that a predictor is asked about
	}{
		"nothing":                     {to: to(model("m")), target: true},
		"a model that asks others":    {to: to(fallback), target: true},
		"an input":                    {to: agent.Via(to(model("m")), someInput)},
		"a guard of the edge":         {to: agent.Via(to(model("m")), agent.GuardedBy(guard))},
		"a guard of the agent":        {to: to(model("m"), llmagent.WithGuards(guard))},
		"a condition":                 {to: agent.Via(to(model("m")), agent.When(func(context.Context, *agent.Invocation, string) (bool, error) { return false, nil }))},
		"a redaction":                 {to: to(model("m"), llmagent.WithHistory(view.Full().Redact(hides)))},
		"a redaction of the edge":     {to: agent.Via(to(model("m")), view.Full().Redact(hides))},
		"a choice":                    {to: agent.Via(to(model("m")), view.Func(func(*event.Event) bool { return true }))},
		"an agent that is not ready":  {to: away{to(model("m"))}},
		"a function":                  {to: function},
		"an agent without a model":    {to: plain},
		"an approval of the transfer": {to: to(model("m")), opts: []llmagent.Option{llmagent.WithTransferApproval()}},
	} {
		t.Run(name, func(t *testing.T) {
			root := must.Get(llmagent.New("desk", "", model("desk"), append(c.opts, llmagent.WithSubAgents(c.to))...))
			asked := 0
			r := newRun(t, root, runner.AnticipatesFirst(), runner.WithAnticipation(func(_ context.Context, p runner.Prospect) (string, float64) {
				asked++
				require.Equal(t, "desk", p.Agent.Agent.Name())
				require.Equal(t, "Hello", p.Message.PlainText())
				return "billing", 1
			}, 1))
			run(t, r, s1, "Hello")
			_, discards := lines(load(t, r, s1))
			require.Equal(t, map[bool]int{true: 1}[c.target], asked)
			require.Len(t, discards, map[bool]int{true: 1}[name == "nothing"])
		})
	}
	for _, threshold := range []float64{0, -1, 1.1, math.NaN()} {
		_, err := runner.New(to(model("m")), sessiontest.Memory(t), runner.WithAnticipation(always("billing"), threshold))
		require.ErrorContains(t, err, "threshold")
	}
	_, err := runner.New(to(model("m")), sessiontest.Memory(t), runner.WithAnticipation(nil, 0.5))
	require.ErrorContains(t, err, "predictor")
}

// TestAnticipationWithinBudgets has a predictor that is always wrong, and any budgets and limits: they hold to the token,
// with what was used in vain, and a turn with one transfer that comes to its end without anticipation does so with it.
func TestAnticipationWithinBudgets(t *testing.T) {
	vain, right := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		target := rapid.SampledFrom([]string{"billing", "shipping"}).Draw(rt, "predicts")
		tokens, calls := rapid.Int64Range(0, 3000).Draw(rt, "tokens"), rapid.IntRange(0, 5).Draw(rt, "calls")
		var b runner.Budgets
		switch budget := (runner.Budget{Tokens: tokens}); rapid.IntRange(0, 3).Draw(rt, "of") {
		case 0:
			b.Turn = budget
		case 1:
			b.Session = budget
		case 2:
			b.Agents = map[string]runner.Budget{"desk": budget}
		case 3:
			b.Agents = map[string]runner.Budget{"billing": budget}
		}
		exact := func(name string, items ...scripted.Item) llm.Model {
			return scripted.Func(name, func(req *llm.Request) scripted.Answer {
				return scripted.Reply(append(items, scripted.Usage(llm.CountRequest(req, llm.EstimateTokens), 50, 0))...)
			})
		}
		make := func(name string, m llm.Model, opts ...llmagent.Option) agent.Agent {
			return must.Get(llmagent.New(name, "You are "+name+".", m, append(opts, llmagent.WithDescription("Work of "+name), llmagent.WithSettings(llm.Settings{MaxTokens: 50}))...))
		}
		play := func(opts ...runner.Option) error {
			root := make("desk", exact("desk", scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`)), llmagent.WithSubAgents(
				make("billing", exact("billing", scripted.Text("Your refund."))), make("shipping", exact("shipping", scripted.Text("Your parcel.")))))
			r := must.Get(runner.New(root, sessiontest.Memory(t), append(opts, runner.WithBudgets(b), runner.ResumeRoot(), runner.WithLimits(runner.Limits{ModelCalls: calls}))...))
			var failed error
			for range 3 {
				if _, failed = collect(r.Run(context.Background(), s1, llm.UserText("Where is my refund?"))); failed != nil {
					require.ErrorIs(rt, failed, agent.ErrLimit)
					break
				}
				if b.Turn.Tokens > 0 || b.Session.Tokens == 0 && b.Agents == nil {
					continue
				}
				break // what later turns may spend depends on what was spent
			}
			spent, asked := map[string]int64{}, 0
			for _, e := range load(t, r, s1) {
				var u *event.Usage
				switch d := e.Data.(type) {
				case *event.User:
					asked, spent["turn"] = 0, 0
				case *event.Usage:
					u = d
				case *event.Discard:
					u = d.Usage
					vain++
				}
				if u != nil {
					asked++
					for _, of := range []string{"turn", "session", e.Agent} {
						spent[of] += int64(u.InputTokens + u.OutputTokens)
					}
				}
				for of, most := range map[string]int64{"turn": b.Turn.Tokens, "session": b.Session.Tokens, "desk": b.Agents["desk"].Tokens, "billing": b.Agents["billing"].Tokens} {
					require.True(rt, most == 0 || spent[of] <= most, "%s has spent %d of %d", of, spent[of], most)
				}
				require.True(rt, calls == 0 || asked <= calls)
			}
			if target == "billing" && len(opts) > 0 && failed == nil {
				right++
			}
			return failed
		}
		if plain := play(); plain == nil {
			require.NoError(rt, play(runner.AnticipatesFirst(), runner.WithAnticipation(always(target), 1)))
		} else {
			require.Error(rt, play(runner.AnticipatesFirst(), runner.WithAnticipation(always(target), 1)))
		}
	})
	require.Positive(t, vain)
	require.Positive(t, right)
}

// TestAnticipationIsClosed has an endpoint see that a request is not wanted any more when the agent says something, while its
// answer goes on, when it transfers elsewhere, or when the turn is cancelled.
func TestAnticipationIsClosed(t *testing.T) {
	for name, answer := range map[string]string{
		"the agent speaks":      `{"choices":[{"index":0,"delta":{"content":"Well"}}]}`,
		"it transfers":          `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"transfer_to_agent","arguments":"{\"agent_name\":\"shipping\"}"}}]},"finish_reason":"tool_calls"}]}`,
		"the turn is cancelled": "",
	} {
		t.Run(name, func(t *testing.T) {
			asked, wrote, closed, over := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				body, _ := io.ReadAll(req.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				w.WriteHeader(http.StatusOK)
				w.(http.Flusher).Flush()
				switch {
				case strings.Contains(string(body), `"model":"billing"`):
					close(asked)
					<-req.Context().Done()
					close(closed)
				case strings.Contains(string(body), `"model":"shipping"`):
					fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Yes\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
				default:
					<-asked
					close(wrote)
					if answer != "" {
						fmt.Fprintf(w, "data: %s\n\n", answer)
						w.(http.Flusher).Flush()
					}
					if name == "it transfers" {
						fmt.Fprint(w, "data: [DONE]\n\n")
						return
					}
					select {
					case <-over:
					case <-req.Context().Done():
					}
				}
			}))
			defer server.Close()
			defer close(over)
			make := func(name string, kids ...agent.Agent) agent.Agent {
				m := must.Get(openai.New(name, openai.WithBaseURL(server.URL), openai.WithRetries(0)))
				return must.Get(llmagent.New(name, "", m, llmagent.WithSubAgents(kids...)))
			}
			r := newRun(t, make("desk", make("billing"), make("shipping")), runner.WithStreaming(), runner.WithAnticipation(always("billing"), 1))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			done := started(func() { _, _ = collect(r.Run(ctx, s1, llm.UserText("Hello"))) })
			<-wrote
			if answer == "" {
				cancel()
			}
			select {
			case <-closed:
			case <-time.After(2 * time.Minute):
				require.Fail(t, "the request is still open")
			}
			cancel()
			<-done
		})
	}
}

// started runs a function and returns a channel that is closed when it is over.
func started(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}

// TestAnticipationIsCutOff breaks a turn off wherever it delivers something: it is continued as any other.
func TestAnticipationIsCutOff(t *testing.T) {
	for stop := 1; ; stop++ {
		f := newForecast(t, nil, 0, "")
		r := newRun(t, f.root, runner.AnticipatesFirst(), runner.WithAnticipation(always("billing"), 1))
		n := 0
		for range r.Run(context.Background(), s1, llm.UserText("Hello")) {
			if n++; n == stop {
				break
			}
		}
		if n < stop {
			require.Greater(t, stop, 5)
			return
		}
		finish(t, r.Resume(context.Background(), s1))
		all := load(t, r, s1)
		require.Equal(t, event.FinishReasonStop, all[len(all)-1].Data.(*event.HarnessEnd).FinishReason)
		require.LessOrEqual(t, *f.asked["billing"], 2)
	}
}

// TestSharedWords names the target that shares words with the message, or has an agent below it that does.
func TestSharedWords(t *testing.T) {
	named := func(name, description string, kids ...agent.Agent) agent.Agent {
		return must.Get(llmagent.New(name, "", scripted.Always("m", scripted.Reply()), llmagent.WithDescription(description), llmagent.WithSubAgents(kids...)))
	}
	tree := must.Get(agent.NewTree(named("desk", "Greets", named("billing", "Refunds and invoices"), named("tech", "Errors", named("network", "Routers and wifi")))))
	for message, want := range map[string]string{"My refund?": "billing", "The wifi is slow": "tech", "Hello": "", "": ""} {
		target, confidence := runner.SharedWords(t.Context(), runner.Prospect{Agent: tree.Root(), Targets: tree.Root().Targets(), Message: llm.Content{Text: message}})
		require.Equal(t, want, target, message)
		require.Equal(t, want != "", confidence == 1, message)
	}
	_, confidence := runner.SharedWords(t.Context(), runner.Prospect{Agent: tree.Root(), Targets: tree.Root().Targets(), Message: llm.Content{Text: "An error with my refund"}})
	require.InDelta(t, 0.5, confidence, 0.2)
}

// reads counts the events that are read from a store.
type reads struct {
	session.Store
	n atomic.Int64
}

func (s *reads) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for e, err := range s.Store.Load(ctx, key, after) {
			s.n.Add(1)
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestAnticipationReadsNothingAgain has a session of many turns: a prediction reads nothing of it from the store but what
// its target has never read.
func TestAnticipationReadsNothingAgain(t *testing.T) {
	answers := scripted.Reply(scripted.Text("I can do that."), scripted.Usage(100, 10, 0))
	for name, c := range map[string]struct {
		says   *scripted.Answer
		target string
	}{"in vain": {&answers, "shipping"}, "rightly": {nil, "billing"}, "another": {nil, "shipping"}} {
		t.Run(name, func(t *testing.T) {
			store := &reads{Store: sessiontest.Memory(t)}
			f := newForecast(t, c.says, 0, "")
			predicts := func(_ context.Context, p runner.Prospect) (string, float64) {
				return c.target, float64(len(p.Message.Text)) // of an empty message nothing is predicted
			}
			r := must.Get(runner.New(f.root, store, runner.AnticipatesFirst(), runner.ResumeRoot(), runner.WithAnticipation(predicts, 0.5)))
			play := func(says string) (read int64) {
				before := store.n.Load()
				run(t, r, s1, says)
				return store.n.Load() - before
			}
			for range 20 {
				play("-")
			}
			asked := *f.anticipated[c.target]
			for range 20 {
				require.LessOrEqual(t, play("Hello"), int64(12), "more than a turn")
			}
			require.GreaterOrEqual(t, *f.anticipated[c.target], asked+20)
		})
	}
}

// TestAnticipationLeavesNoTransfer: the view of a target that was predicted in vain knows of no transfer, also if it begins in
// the middle of the log.
func TestAnticipationLeavesNoTransfer(t *testing.T) {
	model := scripted.New().Func("m", func(*llm.Request) scripted.Answer { return scripted.Reply(scripted.Text("Here.")) }).Model("m")
	billing := must.Get(llmagent.New("billing", "You bill.", model, llmagent.WithHistory(view.LastTurns(1))))
	front := must.Get(llmagent.New("front", "You route.", model, llmagent.WithSubAgents(billing)))
	store := sessiontest.Memory(t)
	warm := newRunner(t, front, store, runner.AnticipatesFirst(), runner.WithAnticipation(always("billing"), 0.5))
	for range 4 {
		run(t, warm, s1, "Hello")
		got := must.Get(warm.Preview(t.Context(), s1, "billing"))
		want := must.Get(newRunner(t, front, store).Preview(t.Context(), s1, "billing"))
		require.Equal(t, want.System, got.System)
		warm = newRunner(t, front, store, runner.AnticipatesFirst(), runner.WithAnticipation(always("billing"), 0.5))
	}
}

// TestAnticipationAfterTheTurn: an early request that is still prepared when its turn was cancelled leaves the turn's
// memos alone, which the end of the turn brings up to date. The race detector notices if it does not.
func TestAnticipationAfterTheTurn(t *testing.T) {
	for i := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		late := &lateTools{asked: cancel, turnEnds: make(chan struct{})}
		billing := must.Get(llmagent.New("billing", "You bill.", scripted.Always("m", scripted.Reply(scripted.Text("Here."))), llmagent.WithToolset(late)))
		waits := scripted.Reply(scripted.Wait(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))
		front := must.Get(llmagent.New("front", "", scripted.Always("m", waits), llmagent.WithSubAgents(billing),
			llmagent.WithInstructionFunc(func(_ context.Context, inv *agent.Invocation) (string, error) {
				for key := range 1000 {
					inv.Session().Memo(key, func() any { return late })
				}
				return "You route.", nil
			})))
		r := newRunner(t, front, session.NewMemory(), runner.WithAnticipation(always("billing"), 0.5))
		_, err := collect(r.Run(ctx, session.ID(fmt.Sprint(i)), llm.UserText("Hello")))
		require.ErrorIs(t, err, context.Canceled)
	}
}

// lateTools is a set of tools which cancels the turn that asks for it, and which answers when the turn ends. As a memo it
// notices that.
type lateTools struct {
	asked    func()
	turnEnds chan struct{}
	once     sync.Once
}

func (l *lateTools) Tools(context.Context) (*tools.Registry, error) {
	l.asked()
	<-l.turnEnds
	return tools.NewRegistry()
}

func (l *lateTools) Seq() int64 { return math.MaxInt64 }

func (l *lateTools) CatchUp(iter.Seq2[*event.Event, error]) error {
	l.once.Do(func() { close(l.turnEnds) })
	return nil
}

// TestAnticipationOfCancelledTurns has turns that are cancelled while a target is asked ahead: the log has what that has
// used, which counts in budgets.
func TestAnticipationOfCancelledTurns(t *testing.T) {
	for name, breaks := range map[string]bool{"its context ends": false, "its consumer breaks off": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				says := scripted.Reply(after(firstToken), scripted.Think("Hm"), after(time.Hour), scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`))
				f := newForecast(t, &says, 0, "")
				budget := runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: 5000}})
				r := newRun(t, f.root, runner.WithStreaming(), budget, runner.WithAnticipation(always("billing"), 1))
				for turn := 1; ; turn++ {
					require.Less(t, turn, 100, "what is asked ahead costs nothing")
					ctx, cancel := context.WithTimeout(context.Background(), 2*firstToken)
					var seen []*event.Event
					var failed error
					for e, err := range r.Run(ctx, s1, llm.UserText("Hello")) {
						if failed = err; err != nil || breaks && e.Partial {
							break
						}
						seen = append(seen, e)
					}
					cancel()
					all := load(t, r, s1)
					_, discards := lines(all)
					require.True(t, breaks && failed == nil || errors.Is(failed, context.DeadlineExceeded), failed)
					if len(discards) < turn { // the budget has no room for one more
						require.Greater(t, turn, 5)
						return
					}
					require.Positive(t, discards[turn-1].Usage.InputTokens)
					require.Equal(t, !breaks, seen[len(seen)-1].Seq == all[len(all)-1].Seq, "the consumer gets it, if there still is one")
				}
			})
		})
	}
}

// TestAnticipationOfTurnsCancelledAtItsRequest has turns that end just before the target's request would adopt the early
// one: the log has what that has used.
func TestAnticipationOfTurnsCancelledAtItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		asked := new(atomic.Int32)
		billing := must.Get(llmagent.New("billing", "", scripted.Always("billing", scripted.Reply(scripted.Text("Your refund."), scripted.Usage(70, 20, 0))),
			llmagent.WithInstructionFunc(func(context.Context, *agent.Invocation) (string, error) {
				if asked.Add(1) == 2 { // the first is the early request
					cancel()
				}
				return "Refund.", nil
			})))
		desk := must.Get(llmagent.New("desk", "", scripted.Always("desk", scripted.Reply(after(time.Second), scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`), scripted.Usage(1, 1, 0))), llmagent.WithSubAgents(billing)))
		r := newRun(t, desk, runner.WithBudgets(runner.Budgets{Session: runner.Budget{Tokens: 5000}}), runner.WithAnticipation(always("billing"), 1))
		_, err := runner.Collect(r.Run(ctx, s1, llm.UserText("Hello")))
		require.ErrorIs(t, err, context.Canceled)
		_, discards := lines(load(t, r, s1))
		require.Len(t, discards, 1)
		require.Equal(t, 70, discards[0].Usage.InputTokens)
	})
}

// TestAnticipationFails has the target's model fail when it is asked ahead: it is asked once more, as usual.
func TestAnticipationFails(t *testing.T) {
	for name, c := range map[string]struct {
		fails scripted.Answer
		usage bool
	}{
		"at once":         {scripted.Reply(scripted.Status(429, 0)), false},
		"in mid-answer":   {scripted.Reply(scripted.Text("Your "), scripted.Fail(errors.New("broken"))), true},
		"without its end": {scripted.Reply(scripted.Text("Your "), scripted.Cut()), true},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			asked := 0
			billing := must.Get(llmagent.New("billing", "", scripted.Func("billing", func(*llm.Request) scripted.Answer {
				mu.Lock()
				defer mu.Unlock()
				if asked++; asked == 1 {
					return c.fails
				}
				return scripted.Reply(scripted.Text("Your refund."), scripted.Usage(1, 1, 0))
			})))
			desk := must.Get(llmagent.New("desk", "", scripted.Always("desk", scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`), scripted.Usage(1, 1, 0))), llmagent.WithSubAgents(billing)))
			r := newRun(t, desk, runner.AnticipatesFirst(), runner.WithAnticipation(always("billing"), 1))
			result := must.Get(runner.Collect(r.Run(context.Background(), s1, llm.UserText("Hello"))))
			require.Equal(t, "Your refund.", result.Text)
			all := load(t, r, s1)
			_, discards := lines(all)
			if name == "without its end" { // which is adopted, and asked again as any answer that breaks off
				require.Empty(t, discards)
				return
			}
			require.Len(t, discards, 1)
			require.Equal(t, c.usage, discards[0].Usage != nil)
		})
	}
}

// TestAnticipationNeverReturns has a predictor, a predicted target's instruction or its model ignore the end of its
// context: the turn ends all the same, and after 64 such turns the runner asks nothing early until a call returns.
func TestAnticipationNeverReturns(t *testing.T) {
	for _, ignores := range []string{"predictor", "instruction", "model"} {
		t.Run(ignores, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release, calls := make(chan struct{}), new(atomic.Int32)
				defer close(release)
				block := func(who string) {
					if who == ignores {
						calls.Add(1)
						<-release
					}
				}
				billing := must.Get(llmagent.New("billing", "", modelFunc(func(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
					return func(func(llm.Chunk, error) bool) { block("model") }
				}), llmagent.WithInstructionFunc(func(context.Context, *agent.Invocation) (string, error) {
					block("instruction")
					return "You bill.", nil
				})))
				desk := must.Get(llmagent.New("desk", "", scripted.Always("desk", scripted.Reply(after(firstToken), scripted.Text("Hello."))), llmagent.WithSubAgents(billing)))
				r := newRun(t, desk, runner.WithAnticipation(func(context.Context, runner.Prospect) (string, float64) {
					block("predictor")
					return "billing", 1
				}, 1))
				for range 70 {
					began := time.Now()
					run(t, r, s1, "Hi")
					require.LessOrEqual(t, time.Since(began), firstToken+2*time.Second)
				}
				require.EqualValues(t, 64, calls.Load())
				_, discards := lines(load(t, r, s1))
				require.Len(t, discards, map[string]int{"model": 64}[ignores])
				for _, d := range discards {
					require.Positive(t, d.Usage.InputTokens, "the endpoint may charge for it")
				}
				release <- struct{}{}
				synctest.Wait()
				run(t, r, s1, "Hi")
				require.EqualValues(t, 65, calls.Load())
			})
		})
	}
}

// TestNoPredictionAfterTheTurn: a turn that is cancelled before its predictor is called does not call it.
func TestNoPredictionAfterTheTurn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	desk := must.Get(llmagent.New("desk", "", scripted.Always("desk", scripted.Reply(scripted.Text("Hello."))), llmagent.WithInstructionFunc(
		func(context.Context, *agent.Invocation) (string, error) { cancel(); return "You greet.", nil }), llmagent.WithSubAgents(must.Get(llmagent.New("billing", "", scripted.Always("m", scripted.Reply()))))))
	begun := false
	r := newRun(t, desk, runner.AnticipatesFirst(), runner.WithAnticipation(func(context.Context, runner.Prospect) (string, float64) {
		begun = true
		return "billing", 1
	}, 1))
	_, err := collect(r.Run(ctx, s1, llm.UserText("Hi")))
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, begun)
}
