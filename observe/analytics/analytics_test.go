package analytics_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/observe/analytics"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

var key = session.ID("s1")

// TestTurns holds whole turns against what is told of them.
func TestTurns(t *testing.T) {
	broken := errors.New("broken: api_key=sk-verysecret123")
	fails := func(t testing.TB, name string, end func() error) agent.Agent {
		return does(t, name, func(_ context.Context, _ *agent.Invocation, yield func(event.Data) bool) error {
			yield(&event.Text{Content: "hm"})
			return end()
		})
	}
	router := func(t testing.TB, name string, under ...agent.Agent) agent.Agent {
		return newRouter(t, name, byWords, agent.WithSubAgents(under...))
	}
	for _, c := range []struct {
		name, words string
		tree        func(t testing.TB) agent.Agent
		opts        []runner.Option
		consume     func(events iter.Seq2[*event.Event, error], cancel context.CancelFunc)
		want        string
	}{
		{"success", "a", func(t testing.TB) agent.Agent { return router(t, "front", says(t, "a"), says(t, "b")) }, nil, nil,
			"received 1|entered front|routed front→a|started a|sent a 1|completed a stop|exited specialist front/a"},
		{"chained", "mid deep", func(t testing.TB) agent.Agent { return router(t, "front", router(t, "mid", says(t, "deep"))) }, nil, nil,
			"received 8|entered front|routed front→mid|routed mid→deep|started deep|sent deep 4|completed deep stop|exited specialist front/mid/deep"},
		{"a failure", "a", func(t testing.TB) agent.Agent {
			return router(t, "front", fails(t, "a", func() error { return broken }))
		}, nil, nil,
			"received 1|entered front|routed front→a|started a|sent a 2|failed a agent_error|exited failed front/a"},
		{"a panic of the agent", "a", func(t testing.TB) agent.Agent { return router(t, "front", fails(t, "a", func() error { panic("oh") })) }, nil, nil,
			"received 1|entered front|routed front→a|started a|sent a 2|failed a internal|exited failed front/a"},
		{"a limit", "a", func(t testing.TB) agent.Agent {
			return router(t, "front", fails(t, "a", func() error { return &agent.LimitError{Name: "x", Limit: 1} }))
		}, nil, nil, "received 1|entered front|routed front→a|started a|sent a 2|failed a limit|exited failed front/a"},
		{"another goes on", "a", func(t testing.TB) agent.Agent {
			return router(t, "front", agent.Via(fails(t, "a", func() error { return broken }), agent.OnError("b")), says(t, "b"))
		}, nil, nil,
			"received 1|entered front|routed front→a|started a|sent a 2|failed a agent_error|started b|sent b 1|completed b stop|exited specialist front/b"},
		{"another goes on below the same", "a", func(t testing.TB) agent.Agent {
			return router(t, "front", goes(t, "a", "c", agent.WithSubAgents(agent.Via(fails(t, "c", func() error { return broken }), agent.OnError("d")), says(t, "d"))))
		}, nil, nil, "received 1|entered front|routed front→a|started a|sent c 2|sent d 1|completed a stop|exited specialist front/a/d"},
		{"a person goes on", "a", func(t testing.TB) agent.Agent {
			return router(t, "front", agent.Via(fails(t, "a", func() error { return broken }), agent.OnError("human")))
		}, []runner.Option{runner.WithDesk(desk{})}, nil,
			"received 1|entered front|routed front→a|started a|sent a 2|failed a agent_error|handoff requested|sent human 37|handoff queued|exited human front/a/human"},
		{"no rule and no default", "x", func(t testing.TB) agent.Agent { return router(t, "front", says(t, "a")) }, nil, nil,
			"received 1|entered front|exited failed front"},
		{"a person", "human", func(t testing.TB) agent.Agent { return router(t, "front", says(t, "a")) }, []runner.Option{runner.WithDesk(desk{})}, nil,
			"received 5|entered front|routed front→human|handoff requested|sent human 37|handoff queued|exited human front/human"},
		{"nobody is there", "human", func(t testing.TB) agent.Agent {
			n := 0
			return newRouter(t, "front", func(*agent.Invocation) (string, error) {
				n++
				return []string{"human", "a"}[min(n-1, 1)], nil
			}, agent.WithSubAgents(says(t, "a")))
		}, []runner.Option{runner.WithDesk(desk{human.ErrUnavailable})}, nil,
			"received 5|entered front|routed front→human|handoff requested|sent human 35|handoff failed|routed front→a|started a|sent a 1|completed a stop|exited specialist front/a"},
		{"a specialist asks for a person", "a", func(t testing.TB) agent.Agent { return router(t, "front", goes(t, "a", "human")) }, []runner.Option{runner.WithDesk(desk{})}, nil,
			"received 1|entered front|routed front→a|started a|completed a transfer|handoff requested|sent human 37|handoff queued|exited human front/a/human"},
		{"below itself", "a", func(t testing.TB) agent.Agent {
			return router(t, "front", goes(t, "a", "deep", agent.WithSubAgents(says(t, "deep"))))
		}, nil, nil,
			"received 1|entered front|routed front→a|started a|sent deep 4|completed a stop|exited specialist front/a/deep"},
		{"to a router below", "a c", func(t testing.TB) agent.Agent {
			return router(t, "front", goes(t, "a", "mid", agent.WithSubAgents(router(t, "mid", says(t, "c")))))
		}, nil, nil,
			"received 3|entered front|routed front→a|started a|completed a transfer|routed mid→c|started c|sent c 1|completed c stop|exited specialist front/a/mid/c"},
		{"to a peer", "a", func(t testing.TB) agent.Agent { return router(t, "front", goes(t, "a", "b"), says(t, "b")) }, nil, nil,
			"received 1|entered front|routed front→a|started a|completed a transfer|started b|sent b 1|completed b stop|exited specialist front/b"},
		{"back to the router", "a b", func(t testing.TB) agent.Agent {
			n := 0
			return newRouter(t, "front", func(*agent.Invocation) (string, error) {
				n++
				return []string{"a", "b"}[n-1], nil
			}, agent.WithSubAgents(goes(t, "a", "front"), says(t, "b")))
		}, nil, nil,
			"received 3|entered front|routed front→a|started a|completed a transfer|routed front→b|started b|sent b 1|completed b stop|exited specialist front/b"},
		{"no router", "a", func(t testing.TB) agent.Agent { return goes(t, "root", "a", agent.WithSubAgents(says(t, "a"))) }, nil, nil, "received 1|sent a 1"},
		{"the consumer breaks", "a", func(t testing.TB) agent.Agent { return router(t, "front", says(t, "a")) }, nil, breaksAt("text"),
			"received 1|entered front|routed front→a|started a|sent a 1|failed a canceled|exited cancelled front/a"},
		{"the consumer breaks between", "a", func(t testing.TB) agent.Agent { return router(t, "front", says(t, "a")) }, nil, breaksAt("transfer"),
			"received 1|entered front|routed front→a|exited cancelled front"},
		{"the consumer breaks after", "a", func(t testing.TB) agent.Agent { return router(t, "front", goes(t, "a", "b"), says(t, "b")) }, nil, breaksAt("transfer a"),
			"received 1|entered front|routed front→a|started a|failed a canceled|exited cancelled front/a"},
		{"the consumer panics", "a", func(t testing.TB) agent.Agent { return router(t, "front", says(t, "a")) }, nil, panicsAt("text"),
			"received 1|entered front|routed front→a|started a|sent a 1|failed a canceled|exited cancelled front/a"},
		{"the consumer panics at the end", "a", func(t testing.TB) agent.Agent { return router(t, "front", says(t, "a")) }, nil, panicsAt("harness_end a"),
			"received 1|entered front|routed front→a|started a|sent a 1|completed a stop|exited specialist front/a"},
		{"the context ends", "a", func(t testing.TB) agent.Agent {
			return router(t, "front", does(t, "a", func(ctx context.Context, _ *agent.Invocation, yield func(event.Data) bool) error {
				yield(&event.Text{Content: "hm"})
				<-ctx.Done()
				return ctx.Err()
			}))
		}, nil, func(events iter.Seq2[*event.Event, error], cancel context.CancelFunc) {
			for e, err := range events {
				if err == nil && e.Type() == "text" {
					cancel()
				}
			}
		}, "received 1|entered front|routed front→a|started a|sent a 2|failed a canceled|exited cancelled front/a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := told(t, nil, func(i agent.Interceptor) {
				r := must.Get(runner.New(c.tree(t), sessiontest.Memory(t), append(c.opts, runner.WithInterceptors(i))...))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				consume := c.consume
				if consume == nil {
					consume = func(events iter.Seq2[*event.Event, error], _ context.CancelFunc) {
						for range sessiontest.Turn(t, events) {
						}
					}
				}
				consume(r.Run(ctx, key, llm.UserText(c.words)), cancel)
			})
			require.Equal(t, c.want, strings.Join(types(all), "|"))
			for _, e := range all {
				require.NotContains(t, e.Message, "verysecret")
				require.Empty(t, e.Text)
			}
		})
	}
}

// at reports whether an event is the one of a type and, if it is given, an agent.
func at(e *event.Event, where string) bool {
	typ, name, ok := strings.Cut(where, " ")
	return e != nil && e.Type() == typ && (!ok || e.Agent == name)
}

func breaksAt(where string) func(iter.Seq2[*event.Event, error], context.CancelFunc) {
	return func(events iter.Seq2[*event.Event, error], _ context.CancelFunc) {
		for e := range events {
			if at(e, where) {
				break
			}
		}
	}
}

func panicsAt(where string) func(iter.Seq2[*event.Event, error], context.CancelFunc) {
	return func(events iter.Seq2[*event.Event, error], _ context.CancelFunc) {
		defer func() { _ = recover() }()
		for e := range events {
			if at(e, where) {
				panic("oh")
			}
		}
	}
}

// TestLeavesTheGraph: an agent above the router goes on, and comes back.
func TestLeavesTheGraph(t *testing.T) {
	visits := 0
	inner := newRouter(t, "desk", func(*agent.Invocation) (string, error) {
		visits++
		return []string{"out", "stay"}[visits-1], nil
	}, agent.WithSubAgents(agent.Via(does(t, "out", func(context.Context, *agent.Invocation, func(event.Data) bool) error {
		return errors.New("broken")
	}), agent.OnError("gate")), says(t, "stay")))
	root := goes(t, "root", "desk", agent.WithSubAgents(inner, goes(t, "gate", "root")))
	all := told(t, nil, func(i agent.Interceptor) {
		r := must.Get(runner.New(root, sessiontest.Memory(t), runner.WithInterceptors(i), runner.WithLimits(runner.Limits{Transfers: runner.NoLimit})))
		must.Get(runner.Collect(r.Run(t.Context(), key, llm.UserText("x"))))
	})
	require.Equal(t, "entered desk|routed desk→out|started out|failed out agent_error|exited failed desk/out|"+
		"entered desk|routed desk→stay|started stay|completed stay stop|exited specialist desk/stay", strings.Join(graphs(types(all)), "|"))
}

// TestApproval: a turn that waits is told in two graphs, the second one of another process.
func TestApproval(t *testing.T) {
	refund := must.Get(tools.Func("refund", "", func(tools.Context, struct{}) (string, error) { return "done", nil }, tools.NeedsApproval(tools.ByUser())))
	script := must.Get(scripted.Parse([]byte("deep: call refund {}\ndeep: \"Done.\"\n")))
	deep := must.Get(llmagent.New("deep", "", script.Model("deep"), llmagent.WithTools(refund)))
	root := newRouter(t, "front", byWords, agent.WithSubAgents(goes(t, "a", "deep", agent.WithSubAgents(deep))))
	store := sessiontest.Memory(t)
	var asked []*event.Relay
	part := func(run func(r *runner.Runner) iter.Seq2[*event.Event, error]) string {
		return strings.Join(types(told(t, nil, func(i agent.Interceptor) {
			r := must.Get(runner.New(root, store, runner.WithInterceptors(i), runner.WithCache(0)))
			res := must.Get(runner.Collect(run(r)))
			asked = append(asked, res.Pending...)
		})), "|")
	}
	require.Equal(t, "received 1|entered front|routed front→a|started a|approval_requested|completed a input_required|exited specialist front/a/deep",
		part(func(r *runner.Runner) iter.Seq2[*event.Event, error] {
			return r.Run(t.Context(), key, llm.UserText("a"))
		}))
	require.Len(t, asked, 1)
	again := func(r *runner.Runner) iter.Seq2[*event.Event, error] {
		return r.Resume(t.Context(), key, runner.Decision{CallID: asked[0].ToolCallID, Approved: true, Reason: "fine", By: "Ann"})
	}
	require.Equal(t, "approval_resolved|entered front resumed|started a|sent deep 5|completed a stop|exited specialist front/a/deep", part(again))
	require.Empty(t, part(again), "the recorded result alone")
}

// TestSteps: each step of an engine is told by itself.
func TestSteps(t *testing.T) {
	root := newRouter(t, "front", byWords, agent.WithSubAgents(goes(t, "a", "deep", agent.WithSubAgents(says(t, "deep")))))
	all := told(t, nil, func(i agent.Interceptor) {
		r := must.Get(runner.New(root, sessiontest.Memory(t), runner.WithInterceptors(i)))
		_, state, err := r.Begin(t.Context(), key, llm.UserText("a"))
		for err == nil && !state.Over {
			_, state, err = r.Advance(t.Context(), key, runner.Step{Attempt: 1})
		}
		require.NoError(t, err)
	})
	require.Equal(t, "entered front|exited specialist front|entered front resumed|routed front→a|started a|completed a |exited specialist front/a|"+
		"entered front resumed|started a|completed a |exited specialist front/a/deep|entered front resumed|started a|completed a stop|exited specialist front/a/deep",
		strings.Join(graphs(types(all)), "|"))
}

// TestInnerRouter: a router in the agent of a tool is a graph of its own.
func TestInnerRouter(t *testing.T) {
	inner := newRouter(t, "front", byWords, agent.WithSubAgents(newRouter(t, "mid", byWords, agent.WithSubAgents(says(t, "deep")))))
	tool := must.Get(agenttool.New(inner))
	script := must.Get(scripted.Parse([]byte("a: call front {\"input\": \"mid deep\"}\na: \"Done.\"\n")))
	a := must.Get(llmagent.New("a", "", script.Model("a"), llmagent.WithTools(tool)))
	root := newRouter(t, "entry", byWords, agent.WithSubAgents(a))
	all := told(t, nil, func(i agent.Interceptor) {
		r := must.Get(runner.New(root, sessiontest.Memory(t), runner.WithInterceptors(i)))
		must.Get(runner.Collect(r.Run(t.Context(), key, llm.UserText("a mid deep"))))
	})
	require.Equal(t, "entered entry|routed entry→a|started a|entered front|routed front→mid|routed mid→deep|started deep|completed deep stop|exited specialist front/mid/deep|"+
		"completed a stop|exited specialist entry/a", strings.Join(graphs(types(all)), "|"))
	for _, e := range all {
		require.Equal(t, e.GraphID == "front", e.Scope != "")
	}
}

// TestRemote: where a remote specialist is, without what is secret, and its task.
func TestRemote(t *testing.T) {
	mock := a2atest.New().Add(a2atest.Reply(a2atest.Text("Hello.")))
	remote := must.Get(a2a.Remote("far", "https://me:secret@example.test/card.json?key=secret", a2a.WithClient(mock)))
	root := newRouter(t, "front", byWords, agent.WithSubAgents(remote))
	all := told(t, nil, func(i agent.Interceptor) {
		r := must.Get(runner.New(root, sessiontest.Memory(t), runner.WithInterceptors(i)))
		must.Get(runner.Collect(r.Run(t.Context(), key, llm.UserText("far"))))
	})
	require.Equal(t, "entered front|routed front→far|started far|completed far stop|exited specialist front/far", strings.Join(graphs(types(all)), "|"))
	for _, e := range all {
		if e.Type == "agent_specialist_started" {
			require.Equal(t, "https://example.test/card.json", e.AgentCardURL)
			require.NotEmpty(t, e.TaskID)
		}
	}
}

// TestUsersWish: a person whom the user asked for was chosen by no router.
func TestUsersWish(t *testing.T) {
	root := newRouter(t, "front", byWords, agent.WithSubAgents(says(t, "a")))
	var handoff string
	all := told(t, nil, func(i agent.Interceptor) {
		r := must.Get(runner.New(root, sessiontest.Memory(t), runner.WithInterceptors(i), runner.WithDesk(desk{})))
		must.Get(runner.Collect(r.Run(t.Context(), key, llm.UserText("a"), runner.CallHuman("pressed"))))
		must.Get(runner.Collect(r.Run(t.Context(), key, llm.UserText("a"))))
		for _, e := range must.All(r.History(t.Context(), key)) {
			if d, ok := e.Data.(*event.HandoffStatus); ok {
				handoff = d.HandoffID
			}
		}
		require.NoError(t, r.Deliver(t.Context(), key, human.Event{ID: "1", HandoffID: handoff, Text: "Ann here.", Update: human.Update{Status: human.Connected, TargetAgent: "Ann"}}))
	})
	require.Equal(t, "received 1|entered front|handoff requested|sent human 37|handoff queued|exited human front/human|received 1|handoff queued|"+
		"sent human 9|handoff connecting|handoff ringing|handoff connected", strings.Join(types(all), "|"))
	require.Equal(t, "Ann", all[len(all)-1].TargetAgent)
	require.Equal(t, handoff, all[len(all)-1].ID)
}

// TestTimesAndJSON: the form of the events, and how times are measured.
func TestTimesAndJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := does(t, "a", func(_ context.Context, _ *agent.Invocation, yield func(event.Data) bool) error {
			time.Sleep(20 * time.Millisecond)
			yield(&event.Text{Content: "secret words"})
			time.Sleep(30 * time.Millisecond)
			return nil
		})
		root := newRouter(t, "front", func(inv *agent.Invocation) (string, error) {
			time.Sleep(5 * time.Millisecond)
			return byWords(inv)
		}, agent.WithSubAgents(slow))
		for _, opts := range [][]analytics.Option{nil, {analytics.WithTexts()}} {
			var out, logged bytes.Buffer
			lines, log := analytics.JSONLines(&out), analytics.Slog(slog.New(slog.NewJSONHandler(&logged, nil)))
			i := must.Get(analytics.New(analytics.SinkFunc(func(ctx context.Context, e analytics.Event) error {
				return errors.Join(lines.Record(ctx, e), log.Record(ctx, e))
			}), opts...))
			r := must.Get(runner.New(root, session.NewMemory(), runner.WithInterceptors(i)))
			for range r.Run(t.Context(), key, llm.UserText("a human")) {
			}
			require.NoError(t, i.Close(t.Context()))
			var all []map[string]any
			for line := range strings.Lines(out.String()) {
				var e map[string]any
				require.NoError(t, json.Unmarshal([]byte(line), &e))
				all = append(all, e)
			}
			require.Len(t, all, 7)
			require.Equal(t, opts != nil, strings.Contains(out.String(), "secret words"))
			require.Equal(t, 7, strings.Count(logged.String(), "\n"))
			require.Contains(t, logged.String(), `"msg":"agent_routed","event":{"type":"agent_routed","sessionId":"s1"`)
			routed, completed, exited := all[2], all[5], all[6]
			delete(routed, "turnId")
			delete(routed, "timestamp")
			require.Equal(t, map[string]any{"type": "agent_routed", "sessionId": "s1", "graphId": "front", "from": "front", "to": "a", "ruleIndex": 0.0, "reason": "the rule of a",
				"intentLabel": "label", "intentConfidence": 0.9, "sentiment": map[string]any{"joy": 1.0}, "latencyMs": 0.5, "graphPath": []any{"front", "a"}}, routed)
			require.Equal(t, []any{3.0, "stop", "specialist"}, []any{completed["eventCount"], completed["finishReason"], exited["outcome"]})
			require.InDelta(t, 50, completed["durationMs"], 0.1) // a store may move times of a write by a microsecond
			require.InDelta(t, 20, completed["firstEventMs"], 0.1)
			require.InDelta(t, 55, exited["durationMs"], 0.1)
		}
	})
	raw := must.Get(json.Marshal(analytics.Event{Type: "agent_routed"}))
	require.Equal(t, `{"type":"agent_routed","timestamp":"0001-01-01T00:00:00Z","ruleIndex":null,"latencyMs":0}`, string(raw))
}

// TestBadSinks: no sink holds up or breaks a turn, and what it loses is counted.
func TestBadSinks(t *testing.T) {
	turns := func(t *testing.T, i *analytics.Interceptor, n int) {
		t.Helper()
		r := must.Get(runner.New(newRouter(t, "front", byWords, agent.WithSubAgents(says(t, "a"))), sessiontest.Memory(t), runner.WithInterceptors(i)))
		for range n {
			must.Get(runner.Collect(r.Run(t.Context(), key, llm.UserText("a"))))
		}
	}
	for name, sink := range map[string]analytics.SinkFunc{
		"fails":  func(context.Context, analytics.Event) error { return errors.New("full") },
		"panics": func(context.Context, analytics.Event) error { panic("oh") },
	} {
		t.Run(name, func(t *testing.T) {
			i := must.Get(analytics.New(sink))
			turns(t, i, 2)
			require.NoError(t, i.Close(t.Context()))
			require.Equal(t, analytics.Stats{Failed: 14}, i.Stats())
			turns(t, i, 1)
			require.NoError(t, i.Close(t.Context()))
			require.Equal(t, analytics.Stats{Failed: 14, Dropped: 7}, i.Stats())
		})
	}
	t.Run("is slow", func(t *testing.T) {
		entered, gate := make(chan struct{}, 1), make(chan struct{})
		var got []analytics.Event
		var logged bytes.Buffer
		i := must.Get(analytics.New(analytics.SinkFunc(func(_ context.Context, e analytics.Event) error {
			select {
			case entered <- struct{}{}:
			default:
			}
			<-gate
			got = append(got, e)
			return nil
		}), analytics.WithQueue(3), analytics.WithLogger(slog.New(slog.NewTextHandler(&logged, nil)))))
		i.Turn(t.Context(), agent.TurnInfo{}, func(context.Context) iter.Seq2[*event.Event, error] {
			return func(yield func(*event.Event, error) bool) {
				yield(&event.Event{Data: &event.User{}}, nil)
				<-entered // so that the queue is empty
			}
		})(func(*event.Event, error) bool { return true })
		turns(t, i, 1)
		require.Equal(t, uint64(4), i.Stats().Dropped)
		close(gate)
		require.NoError(t, i.Close(t.Context()))
		require.Equal(t, "received 0|events_dropped|received 1|entered front|routed front→a", strings.Join(types(got), "|"))
		require.Equal(t, uint64(4), got[1].Dropped)
		require.Contains(t, logged.String(), "events=4")
	})
	t.Run("never returns", func(t *testing.T) {
		entered := make(chan struct{})
		i := must.Get(analytics.New(analytics.SinkFunc(func(ctx context.Context, _ analytics.Event) error {
			close(entered)
			<-ctx.Done()
			return ctx.Err()
		})))
		turns(t, i, 1)
		<-entered
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, i.Close(ctx), context.Canceled)
		require.NoError(t, i.Close(t.Context()), "it gives up")
		require.Equal(t, analytics.Stats{Failed: 7}, i.Stats())
	})
	_, err := analytics.New(nil)
	require.Error(t, err)
	_, err = analytics.New(analytics.JSONLines(nil), nil)
	require.ErrorContains(t, err, "option 0 is nil")
}

// TestRouterOfRules: what a router of package router decides.
func TestRouterOfRules(t *testing.T) {
	broken := does(t, "a", func(context.Context, *agent.Invocation, func(event.Data) bool) error { return errors.New("broken") })
	b := router.Specialist(says(t, "b"))
	a := router.Specialist(broken, router.OnError(b))
	root := must.Get(router.New("front", router.Rules(router.When(router.Keyword("refund")).To(a), router.When(router.Keyword("person")).ToHuman("asked")), router.Default(b)))
	all := told(t, nil, func(i agent.Interceptor) {
		r := must.Get(runner.New(root, sessiontest.Memory(t), runner.WithInterceptors(i), runner.WithDesk(desk{})))
		for _, words := range []string{"hello", "a refund", "a person"} {
			must.Get(runner.Collect(r.Run(t.Context(), key, llm.UserText(words))))
		}
	})
	require.Equal(t, "entered front|routed front→b|started b|completed b stop|exited specialist front/b|"+
		"entered front|routed front→a|started a|failed a agent_error|started b|completed b stop|exited specialist front/b|"+
		"entered front|routed front→human|exited human front/human", strings.Join(graphs(types(all)), "|"))
	var rules []any
	for _, e := range all {
		if e.Type == "agent_routed" {
			rules = append(rules, e.RuleIndex)
			require.NotEmpty(t, e.GraphPath)
		}
	}
	require.Equal(t, []any{(*int)(nil), new(0), new(1)}, rules)
}

// TestCause: a context that ends with an error of the program's own has cancelled the turn.
func TestCause(t *testing.T) {
	all := told(t, nil, func(i agent.Interceptor) {
		ctx, cancel := context.WithCancelCause(t.Context())
		waits := does(t, "a", func(ctx context.Context, _ *agent.Invocation, _ func(event.Data) bool) error {
			cancel(errors.New("we close"))
			<-ctx.Done()
			return ctx.Err()
		})
		r := must.Get(runner.New(newRouter(t, "front", byWords, agent.WithSubAgents(waits)), sessiontest.Memory(t), runner.WithInterceptors(i)))
		_, err := runner.Collect(r.Run(ctx, key, llm.UserText("a")))
		require.EqualError(t, err, "we close")
	})
	require.Equal(t, "entered front|routed front→a|started a|failed a canceled|exited cancelled front/a", strings.Join(graphs(types(all)), "|"))
}

// TestRedactor: a redactor of the program sees what is left.
func TestRedactor(t *testing.T) {
	all := told(t, []analytics.Option{analytics.WithTexts(), analytics.WithRedactor(func(s string) string { return strings.ReplaceAll(s, "rule", "[gone]") })}, func(i agent.Interceptor) {
		r := must.Get(runner.New(newRouter(t, "front", byWords, agent.WithSubAgents(says(t, "a"))), sessiontest.Memory(t), runner.WithInterceptors(i)))
		must.Get(runner.Collect(r.Run(t.Context(), key, llm.UserText("a rule"))))
	})
	require.Equal(t, "a [gone]", all[0].Text)
	require.Equal(t, "the [gone] of a", all[2].Reason)
}
