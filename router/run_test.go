package router_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

var key = session.ID("s1")

func says(text string) agent.RunFunc {
	return yields(&event.Text{Content: text})
}

// yields is an agent's step that yields the same each time.
func yields(all ...event.Data) agent.RunFunc {
	return func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			for _, data := range all {
				if !yield(&event.Event{Data: data}, nil) {
					return
				}
			}
		}
	}
}

func fails(err error) agent.RunFunc {
	return func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			if yield(&event.Event{Data: &event.Text{Content: "trying"}}, nil) {
				yield(nil, err)
			}
		}
	}
}

func made(t testing.TB, name string, run agent.RunFunc, opts ...agent.Option) agent.Agent {
	return must.Get(agent.New(name, "The agent "+name+".", run, opts...))
}

var toParent = agent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true})

func newRouter(t testing.TB, name string, opts ...router.Option) *router.Router {
	return must.Get(router.New(name, opts...))
}

// talk is a conversation with a tree.
type talk struct {
	t      testing.TB
	tree   agent.Agent
	store  session.Store
	opts   []runner.Option
	events []*event.Event // of the last turn
	err    error
}

func newTalk(t testing.TB, tree agent.Agent, opts ...runner.Option) *talk {
	return &talk{t: t, tree: tree, store: sessiontest.Memory(t), opts: opts}
}

// say plays a turn in a new process, and returns who ran: "front billing".
func (c *talk) say(text string, opts ...runner.TurnOption) string {
	return c.sayWithin(context.Background(), text, opts...)
}

func (c *talk) sayWithin(ctx context.Context, text string, opts ...runner.TurnOption) string {
	r := must.Get(runner.New(c.tree, c.store, c.opts...))
	var ran []string
	c.events, c.err = nil, nil
	for e, err := range sessiontest.Turn(c.t, r.Run(ctx, key, llm.UserText(text), opts...)) {
		if err != nil {
			c.err = err
			break
		}
		if _, ok := e.Data.(*event.HarnessStart); ok {
			ran = append(ran, e.Agent)
		}
		c.events = append(c.events, e)
	}
	return strings.Join(ran, " ")
}

// of returns the payloads of one type in the last turn.
func of[T event.Data](c *talk) (found []T) {
	for _, e := range c.events {
		if d, ok := e.Data.(T); ok {
			found = append(found, d)
		}
	}
	return found
}

func TestTurns(t *testing.T) {
	billing, general := router.Specialist(made(t, "billing", says("b"))), router.Specialist(made(t, "general", says("g")))
	tick := time.Unix(0, 0)
	c := newTalk(t, newRouter(t, "front", router.Rules(
		router.When(router.Keyword("refund")).To(billing),
		router.When(router.Keyword("hours")).To(general).Because("opening hours"),
	), router.Default(general), router.WithClock(func() time.Time { tick = tick.Add(time.Millisecond); return tick })))
	require.Equal(t, "front billing", c.say("a refund, please"))
	require.NoError(t, c.err)
	zero := 0
	require.Equal(t, []*event.Route{{From: "front", To: "billing", RuleIndex: &zero, Reason: `keyword "refund"`, LatencyMs: 1, GraphPath: []string{"front", "billing"}}}, of[*event.Route](c))
	require.Equal(t, []*event.Transfer{{From: "front", To: "billing", Reason: `keyword "refund"`, Outcome: event.TransferCommitted, TransferType: event.TransferTypeBotToBot,
		RouteDecision: []byte(`"billing"`), GraphPath: []string{"front", "billing"}}}, of[*event.Transfer](c))
	i := slices.IndexFunc(c.events, func(e *event.Event) bool { return e.Type() == event.TypeRoute })
	require.True(t, c.events[i].Time.Equal(c.events[i+1].Time), "they are stored in one write")
	require.Equal(t, "front general", c.say("and now?"), "each turn is decided anew")
	require.Nil(t, of[*event.Route](c)[0].RuleIndex)
	require.Equal(t, "no rule matches", of[*event.Route](c)[0].Reason)
	require.Equal(t, "front general", c.say("your hours?"))
	require.Equal(t, "opening hours", of[*event.Transfer](c)[0].Reason)
	for range 20 {
		require.Equal(t, "front billing", c.say("refund"), "no limit of transfers is reached")
	}
}

func TestSticky(t *testing.T) {
	billing, general := router.Specialist(made(t, "billing", says("b"))), router.Specialist(made(t, "general", says("g")))
	once := router.Specialist(made(t, "once", says("o"), agent.WithReturn(agent.ReturnToParent)))
	c := newTalk(t, newRouter(t, "front", router.Sticky(), router.Rules(
		router.When(router.Keyword("refund")).To(billing), router.When(router.Keyword("once")).To(once), router.When(router.Keyword("hours")).To(general)), router.Default(general)))
	require.Equal(t, "front general", c.say("hello"))
	require.Equal(t, "front billing", c.say("refund"))
	require.Equal(t, "front billing", c.say("and now?"), "it stays, in another process too")
	require.Equal(t, "no rule matches: billing stays in charge", of[*event.Route](c)[0].Reason)
	require.Equal(t, "front general", c.say("hours"), "until a rule names another")
	require.Equal(t, "front general", c.say("and now?"))
	require.Equal(t, "front once", c.say("once"))
	require.Equal(t, "front general", c.say("and now?"), "who answers once does not stay")
}

func TestAsksTheUser(t *testing.T) {
	question := made(t, "booking", yields(&event.Text{Content: "When?"}, &event.Finish{Reason: event.FinishReasonInputRequired}))
	task := func(status string) *event.RemoteTask { return &event.RemoteTask{TaskID: "t1", Status: status} }
	state := "input_required"
	remote := made(t, "remote", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return yields(task(state), &event.Text{Content: "r"})(ctx, inv)
	})
	booking, far, general := router.Specialist(question), router.Specialist(remote), router.Specialist(made(t, "general", says("g")))
	c := newTalk(t, newRouter(t, "front", router.Rules(
		router.When(router.Keyword("book")).To(booking), router.When(router.Keyword("far")).To(far), router.When(router.Keyword("hours")).To(general)), router.Default(general)))
	require.Equal(t, "front booking", c.say("book"))
	require.Equal(t, "front booking", c.say("Tuesday"))
	require.Equal(t, "no rule matches: booking has asked the user", of[*event.Route](c)[0].Reason)
	require.Equal(t, "front general", c.say("your hours?"), "rules go first")
	require.Equal(t, "front booking", c.say("Tuesday!"), "and it waits still")
	require.Equal(t, "front remote", c.say("far"))
	require.Equal(t, "front remote", c.say("yes"), "the latest that asked")
	state = "completed"
	require.Equal(t, "front remote", c.say("yes"))
	require.Equal(t, "front booking", c.say("yes"), "its task is over")
}

func TestHandedBack(t *testing.T) {
	back := func(name string) *router.Target {
		return router.Specialist(made(t, name, yields(&event.Transfer{To: "front"}), toParent))
	}
	a, b, general := back("a"), back("b"), router.Specialist(made(t, "general", says("g")))
	c := newTalk(t, newRouter(t, "front", router.Sticky(), router.Rules(router.When(router.Keyword("x")).To(a), router.When(router.Keyword("x")).To(b)), router.Default(general)))
	require.Equal(t, "front a front b front general", c.say("x"), "nobody is chosen again in the turn")
	require.NoError(t, c.err)
	require.Equal(t, "front a front b front general", c.say("x"), "in the next they are")
	c = newTalk(t, newRouter(t, "front", router.Rules(router.When(router.Keyword("x")).To(a)), router.Default(b)))
	require.Equal(t, "front a front b front", c.say("x"))
	require.ErrorIs(t, c.err, router.ErrNobodyLeft)
	require.ErrorContains(t, c.err, `router front: no agent is left to answer: ["a" "b"]`)
}

func TestChained(t *testing.T) {
	x, y := router.Specialist(made(t, "x", says("x"))), router.Specialist(made(t, "y", says("y")))
	inner := router.Specialist(newRouter(t, "inner", router.Rules(router.When(router.Keyword("x")).To(x)), router.Default(y)))
	general := router.Specialist(made(t, "general", says("g")))
	c := newTalk(t, newRouter(t, "front", router.Sticky(), router.Rules(router.When(router.Keyword("in")).To(inner), router.When(router.Keyword("out")).To(general)), router.Default(general)))
	require.Equal(t, "front inner x", c.say("in x"))
	require.Equal(t, []string{"front", "inner", "x"}, of[*event.Route](c)[1].GraphPath)
	require.Equal(t, "front inner y", c.say("now"), "the outer one stays with the inner one, whose rules go on")
	require.Equal(t, "front inner x", c.say("x"))
	require.Equal(t, "front general", c.say("out"))
	require.Equal(t, "front general", c.say("x"))
}

// model answers with a transfer where the last message names an agent that it may transfer
// to, and else with words.
func model(name string) llm.Model {
	return scripted.Func(name, func(req *llm.Request) scripted.Answer {
		text := req.Messages[len(req.Messages)-1].PlainText()
		if _, to, ok := strings.Cut(text, "@"); ok && len(req.Tools) > 0 {
			if to, _, _ = strings.Cut(to, " "); strings.Contains(string(req.Tools[0].Parameters), `"`+to+`"`) {
				return scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"`+to+`"}`))
			}
		}
		return scripted.Reply(scripted.Text(name))
	})
}

func llmAgent(t testing.TB, name string, opts ...llmagent.Option) agent.Agent {
	a, err := llmagent.New(name, "You are "+name+".", model(name), append(opts, llmagent.WithDescription(name))...)
	require.NoError(t, err)
	return a
}

func TestAmongModels(t *testing.T) {
	billing := router.Specialist(llmAgent(t, "billing"))
	front := newRouter(t, "front", router.Description("Routes."), router.Rules(router.When(router.Keyword("refund")).To(billing)), router.Default(router.Specialist(llmAgent(t, "general"))))
	c := newTalk(t, llmAgent(t, "desk", llmagent.WithSubAgents(front)))
	require.Equal(t, "desk", c.say("hello"))
	require.Equal(t, "desk front billing", c.say("@front refund"))
	require.Equal(t, "front general", c.say("hello"), "the turn begins at the router")
	require.Equal(t, []string{"front", "general"}, of[*event.Route](c)[0].GraphPath)

	for _, sticky := range []bool{false, true} {
		deep := llmAgent(t, "deep")
		opts := []router.Option{router.Rules(router.When(router.Keyword("refund")).To(billing)), router.Wrap(llmAgent(t, "desk", llmagent.WithSubAgents(deep)))}
		if sticky {
			opts = append(opts, router.Sticky())
		}
		c = newTalk(t, newRouter(t, "front", opts...))
		require.Equal(t, "front desk deep", c.say("@deep hello"))
		require.Equal(t, map[bool]string{false: "front desk", true: "front deep"}[sticky], c.say("hello"))
		if sticky {
			require.Equal(t, []string{"front", "desk", "deep"}, of[*event.Route](c)[0].GraphPath)
		}
		require.Equal(t, "front billing", c.say("refund"))
		require.NoError(t, c.err)
	}
}

// unready is an agent that cannot start.
type unready struct{ agent.Agent }

func (u unready) Unwrap() agent.Agent         { return u.Agent }
func (u unready) Ready(context.Context) error { return errors.New("it is down") }

func TestOnError(t *testing.T) {
	rest := router.Specialist(made(t, "rest", says("r")))
	broken := router.Specialist(made(t, "broken", fails(errors.New("boom"))), router.OnError(rest))
	down := router.Specialist(&unready{made(t, "down", says("d"))}, router.OnError(broken))
	alone := router.Specialist(&unready{made(t, "alone", says("a"))})
	c := newTalk(t, newRouter(t, "front", router.Rules(
		router.When(router.Keyword("broken")).To(broken), router.When(router.Keyword("down")).To(down), router.When(router.Keyword("alone")).To(alone)), router.Default(rest)))
	require.Equal(t, "front broken rest", c.say("broken"))
	require.NoError(t, c.err)
	require.Equal(t, "boom", of[*event.Route](c)[1].Failed.Message)
	require.Equal(t, "trying", of[*event.Text](c)[0].Content, "what was said stays")
	require.Equal(t, "front down broken rest", c.say("down"))
	require.NoError(t, c.err)
	routes := of[*event.Route](c)
	require.Equal(t, []string{"front down", "down broken target_not_ready", "broken rest agent_error"},
		[]string{routes[0].From + " " + routes[0].To, routes[1].From + " " + routes[1].To + " " + routes[1].Failed.Code, routes[2].From + " " + routes[2].To + " " + routes[2].Failed.Code})
	require.Equal(t, "front alone", c.say("alone"))
	require.ErrorIs(t, c.err, agent.ErrTargetNotReady)
	require.Equal(t, "alone", of[*event.Route](c)[0].To)
}

func TestPerson(t *testing.T) {
	rest := router.Specialist(made(t, "rest", says("r")))
	c := newTalk(t, newRouter(t, "front", router.Rules(
		router.When(router.WantsHuman()).ToHuman("the user asks for a person"),
		router.When(router.Sentiment("frustration").Above(0.6).OverTurns(2)).ToHuman("frustrated")), router.Default(rest)), runner.WithDesk(human.Log{}))
	require.Equal(t, "front rest", c.say("This is ridiculous"))
	require.Greater(t, of[*event.Route](c)[0].Sentiment["frustration"], 0.6)
	require.Equal(t, "front rest", c.say("What do you mean?"), "not twice in a row")
	require.Equal(t, "front rest", c.say("You are useless!"))
	require.Equal(t, "front human", c.say("Unacceptable, the worst service"), "what was felt before is in the log")
	transfer := of[*event.Transfer](c)[0]
	require.Equal(t, []any{"human", "frustrated", event.TransferTypeBotToHuman, []string{"front", "human"}, `"human"`},
		[]any{transfer.To, transfer.Reason, transfer.TransferType, transfer.GraphPath, string(transfer.RouteDecision)})

	c = newTalk(t, c.tree, c.opts...)
	require.Equal(t, "front human", c.say("hello", runner.WithMetadata(map[string]any{"wantsHuman": true})))
}

// classifier is one that a test makes.
type classifier struct {
	kind     router.Kind
	classify func(context.Context, router.Input) ([]router.Score, error)
}

func (c classifier) Kind() router.Kind { return c.kind }
func (c classifier) Labels() []string  { return nil }
func (c classifier) Classify(ctx context.Context, in router.Input) ([]router.Score, error) {
	return c.classify(ctx, in)
}

type odd struct{ classifier }

func (odd) Kind() router.Kind { return "odd" }

func slow(kind router.Kind) classifier {
	return classifier{kind, func(ctx context.Context, _ router.Input) ([]router.Score, error) {
		<-ctx.Done()
		return []router.Score{{Label: "x", Value: 1}}, nil
	}}
}

// signalled is a tree whose default answers where the intent x is not found.
func signalled(t testing.TB, c router.Classifier) agent.Agent {
	x := router.Specialist(made(t, "x", says("x")))
	return newRouter(t, "front", router.Signals(c), router.Rules(
		router.When(router.Keyword("now")).To(x),
		router.When(router.Intent("x", 0.7)).To(x), router.When(router.Intent("y", 0.7)).To(x)), router.Wrap(made(t, "rest", says("r"))))
}

func TestSignals(t *testing.T) {
	give := func(scores ...router.Score) router.Classifier {
		return classifier{router.KindIntent, func(context.Context, router.Input) ([]router.Score, error) { return scores, nil }}
	}
	c := newTalk(t, signalled(t, give(router.Score{Label: "z", Value: -3}, router.Score{Label: "x", Value: 9}, router.Score{Label: "", Value: 1})))
	require.Equal(t, "front x", c.say("hello"))
	require.Equal(t, []any{"x", 1.0}, []any{of[*event.Route](c)[0].IntentLabel, of[*event.Route](c)[0].IntentConfidence})
	require.Equal(t, "front x", c.say("now"))
	require.Empty(t, of[*event.Route](c)[0].IntentLabel, "no rule that was reached needs it")

	for _, bad := range []func(context.Context, router.Input) ([]router.Score, error){
		func(context.Context, router.Input) ([]router.Score, error) {
			return nil, errors.New("the key is sk-123")
		},
		func(context.Context, router.Input) ([]router.Score, error) { panic("sk-123") },
	} {
		c = newTalk(t, signalled(t, classifier{router.KindIntent, bad}))
		require.Equal(t, "front rest", c.say("hello"))
		require.NoError(t, c.err)
		require.Equal(t, []*event.Notice{{Code: "signal_failed", Message: "the intent of the message is not known: the classifier failed"}}, of[*event.Notice](c))
	}
	c = newTalk(t, signalled(t, router.Within(time.Second, give())))
	require.Equal(t, "front rest", c.say("hello"))
}

func TestLateSignal(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			release, calls := make(chan struct{}), new(atomic.Int32)
			began := time.Now()
			c := newTalk(t, signalled(t, router.Within(80*time.Millisecond, classifier{router.KindIntent, func(ctx context.Context, in router.Input) ([]router.Score, error) {
				calls.Add(1)
				if deaf {
					<-release
				}
				return slow("").classify(ctx, in)
			}})))
			require.Equal(t, "front rest", c.say("hello"))
			require.NoError(t, c.err)
			require.Equal(t, 80*time.Millisecond, time.Since(began))
			require.Equal(t, []*event.Notice{{Code: "signal_late", Message: "the intent of the message is not known: that took longer than 80ms"}}, of[*event.Notice](c))
			require.Empty(t, of[*event.Route](c)[0].IntentLabel)
			require.EqualValues(t, 1, calls.Load(), "it is asked once for all rules")
			close(release)
		})
	}
	synctest.Test(t, func(t *testing.T) { // the turn ends while a signal is due
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		c := newTalk(t, signalled(t, slow(router.KindIntent)))
		require.Equal(t, "front", c.sayWithin(ctx, "hello"))
		require.ErrorIs(t, c.err, context.DeadlineExceeded)
		require.Empty(t, of[*event.Transfer](c))
	})
}

func modelIntent(t testing.TB, m llm.Model) router.Classifier {
	c, err := router.ModelIntent(m, []router.Label{{Name: "x", Description: "the first"}, {Name: "y", Description: "the second"}}, func(s *llm.Settings) { s.TopLogProbs = 0 })
	require.NoError(t, err)
	return c
}

func longer(t testing.TB, m llm.Model) router.Classifier {
	return router.Within(time.Minute, modelIntent(t, m))
}

func TestModelIntent(t *testing.T) {
	var asked *llm.Request
	c := newTalk(t, signalled(t, longer(t, scripted.Func("m", func(req *llm.Request) scripted.Answer {
		asked = req
		if strings.Contains(req.Messages[0].PlainText(), "nonsense") {
			return scripted.Reply(scripted.Text("I cannot say."))
		}
		return scripted.Reply(scripted.Text(" X"))
	}))), runner.WithLimits(runner.Limits{ModelCalls: 2}))
	require.Equal(t, "front x", c.say("hello"))
	require.Contains(t, asked.System, "- x: the first\n- y: the second\n")
	require.Len(t, of[*event.Usage](c), 1, "the answer counts")
	require.Equal(t, []any{"x", 1.0, 0}, []any{of[*event.Route](c)[0].IntentLabel, of[*event.Route](c)[0].IntentConfidence, asked.TopLogProbs})
	require.Equal(t, "front rest", c.say("nonsense"))
	require.Len(t, of[*event.Usage](c), 1)
	require.Equal(t, "signal_failed", of[*event.Notice](c)[0].Code)

	c = newTalk(t, signalled(t, longer(t, scripted.Always("m", scripted.Reply(scripted.Text("x"))))), runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Tokens: 1}}))
	require.Equal(t, "front rest", c.say("hello"), "a budget that is spent costs the signal, not the answer")
	require.NoError(t, c.err)
	require.Equal(t, "the intent of the message is not known: budget", of[*event.Notice](c)[0].Message)
	require.Empty(t, of[*event.Discard](c), "the model was not asked")
}

// hanging begins an answer and does not end it.
type hanging struct{}

func (hanging) Name() string { return "hanging" }
func (hanging) Generate(ctx context.Context, _ *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if yield(llm.Chunk{Text: "x"}, nil) {
			<-ctx.Done()
			yield(llm.Chunk{}, ctx.Err())
		}
	}
}

func TestLateModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := newTalk(t, signalled(t, router.Within(100*time.Millisecond, modelIntent(t, hanging{}))))
		require.Equal(t, "front rest", c.say("hello"))
		require.NoError(t, c.err)
		require.Equal(t, 100*time.Millisecond, time.Since(began))
		require.Equal(t, "signal_late", of[*event.Discard](c)[0].Code, "what was cut off is no answer")
		require.Equal(t, "signal_late", of[*event.Notice](c)[0].Code)
		require.Empty(t, of[*event.Route](c)[0].IntentLabel)
	})
}

func TestStateAndTurn(t *testing.T) {
	gold := router.Specialist(made(t, "gold", says("g")))
	c := newTalk(t, newRouter(t, "front", router.Rules(
		router.When(router.All(router.State("tier", "gold"), router.Language("de"))).To(gold)), router.Wrap(made(t, "rest", says("r")))))
	german := runner.WithMetadata(map[string]any{"language": "de-AT"})
	require.Equal(t, "front rest", c.say("hallo", german))
	require.Equal(t, "front gold", c.say("hallo", german, runner.WithState(map[string]any{"tier": "gold"})))
	require.Equal(t, "front rest", c.say("hallo"))
	require.Equal(t, "front gold", c.say("hallo", german), fmt.Sprint(c.err))
}
