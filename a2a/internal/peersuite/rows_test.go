package peersuite

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"

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
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// same plays a row with the specialist in each place, and requires that the same comes
// out.
func same(t *testing.T, row func(t *testing.T, p place) any) {
	var want any
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			got := row(t, p)
			if !p.remote {
				want = got
				return
			}
			require.Equal(t, want, got)
		})
	}
}

// scene is a coordinator and a specialist.
type scene struct {
	asked
	script  *scripted.Script
	billing *desk
	store   session.Store
	*runner.Runner
}

func newScene(t *testing.T, p place, script *scripted.Script, support ...llmagent.Option) *scene {
	t.Helper()
	c := &scene{script: script, store: sessiontest.Memory(t)}
	billing := must.Get(llmagent.New("billing", "You refund.", c.model("billing", script.Model("billing")), llmagent.WithDescription("Refunds"), llmagent.WithHistory(view.TextOnly())))
	c.billing = p.put(t, billing)
	c.begin(t, support...)
	return c
}

// begin starts the program that has the tree.
func (c *scene) begin(t *testing.T, support ...llmagent.Option) {
	t.Helper()
	root := must.Get(llmagent.New("support", "You route.", c.model("support", c.script.Model("support")), append(support, llmagent.WithSubAgents(c.billing.Agent))...))
	c.Runner = newRunner(t, root, c.store, runner.WithStreaming())
}

// state is what a conversation has come to.
type state struct {
	Log    []string
	Active string
	Wire   []string
	// News is what the specialist was told. Words to which a remote agent gave no answer
	// are sent again, because its peer may have forgotten them; here they stand once.
	News [][]string
}

func (c *scene) state(t *testing.T) state {
	t.Helper()
	events := log(c.store)
	active := must.Get(c.Active(context.Background(), key))
	told := c.news("billing")
	for i := range told {
		told[i] = slices.Compact(told[i])
	}
	return state{account(events), active, c.wire("support"), told}
}

func handOver(items ...scripted.Item) scripted.Answer {
	return scripted.Reply(append(items, scripted.CallID("t1", agent.TransferTool, `{"agent_name":"billing"}`))...)
}

func says(words ...string) scripted.Answer { return scripted.Reply(scripted.Text(words...)) }

// A tool that needs approval, and a transfer: the turn pauses before the transfer, and the
// specialist hears of the conversation only after the decision.
func TestApprovalBeforeTransfer(t *testing.T) {
	for _, approve := range []bool{true, false} {
		t.Run(fmt.Sprint("approved ", approve), func(t *testing.T) {
			same(t, func(t *testing.T, p place) any {
				audit := must.Get(tools.Func("audit", "Audits.", func(tools.Context, struct{}) (string, error) { return "audited", nil }, tools.NeedsApproval(tools.ByUser())))
				script := scripted.New().
					Add("support", scripted.Reply(scripted.Call("audit", `{}`), scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`))).
					Add("billing", says("I see."))
				c := newScene(t, p, script, llmagent.WithTools(audit))
				require.NoError(t, turn(t, c.Runner, "help", nil))
				require.Zero(t, c.count("billing"))
				paused := c.state(t)
				c.begin(t, llmagent.WithTools(audit)) // the decision comes to another process
				d := runner.Approve(callOf(t, c.store, "audit"))
				if !approve {
					d = runner.Deny(callOf(t, c.store, "audit"), "not today")
				}
				require.NoError(t, drain(c.Resume(context.Background(), key, d), nil))
				require.NoError(t, script.Done())
				checkCalls(t, log(c.store))
				return []state{paused, c.state(t)}
			})
		})
	}
}

// A tool of the specialist's own needs approval. A local specialist pauses the turn until
// somebody decides; a remote one asks in words, and the user's next words decide. Its tool
// runs once, and it says the same.
func TestApprovalAtTheTarget(t *testing.T) {
	same(t, func(t *testing.T, p place) any {
		ran := 0
		refund := must.Get(tools.Func("refund", "Refunds.", func(tools.Context, struct{}) (string, error) {
			ran++
			return "refunded", nil
		}, tools.NeedsApproval(tools.ByUser())))
		script := scripted.New().Add("support", handOver()).
			Add("billing", scripted.Reply(scripted.Text("Let me see."), scripted.Call("refund", `{}`)), says("It is ", "done."), says("Bye."))
		c := &scene{script: script, store: sessiontest.Memory(t)}
		billing := must.Get(llmagent.New("billing", "You refund.", c.model("billing", script.Model("billing")), llmagent.WithDescription("Refunds"), llmagent.WithTools(refund)))
		c.billing = p.put(t, billing)
		c.begin(t)
		require.NoError(t, turn(t, c.Runner, "help", nil))
		require.Zero(t, ran)
		if p.remote {
			require.NoError(t, turn(t, c.Runner, "Yes, please.", nil))
		} else {
			require.NoError(t, drain(c.Resume(context.Background(), key, runner.Approve(callOf(t, c.store, "refund"))), nil))
		}
		require.Equal(t, 1, ran)
		require.NoError(t, turn(t, c.Runner, "thanks", nil))
		require.NoError(t, script.Done())
		var said []string
		for _, e := range log(c.store) {
			if e.Agent == "billing" && e.Type() == event.TypeText {
				said = append(said, e.Text())
			}
		}
		return said[1:] // the first one holds the question, where there is one
	})
}

// waits is an answer that says something and then waits until its call is canceled.
func waits() scripted.Answer {
	return scripted.Reply(scripted.Text("Let me"), scripted.Wait(func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}))
}

// ended requires that the specialist's own session, if it has one, has ended with the
// reason.
func (d *desk) ended(t *testing.T, reason event.FinishReason) {
	t.Helper()
	if d.server == nil {
		return
	}
	must.Wait(t, func() bool {
		infos := must.Get(d.store.List(context.Background(), session.Key{App: session.DefaultApp, User: session.DefaultUser}, session.Page{}))
		require.Len(t, infos, 1)
		var last *event.Event
		for _, e := range must.All(d.store.Load(context.Background(), infos[0].Key, 0)) {
			last = e
		}
		end, ok := last.Data.(*event.HarnessEnd)
		return ok && end.FinishReason == reason
	})
}

// The caller cancels while the specialist answers: what it said is not kept, its work is
// stopped wherever it is done, and it answers the next turn.
func TestCancelWhileTheTargetAnswers(t *testing.T) {
	same(t, func(t *testing.T, p place) any {
		script := scripted.New().Add("support", handOver()).Add("billing", waits(), says("Here."))
		c := newScene(t, p, script)
		ctx, cancel := context.WithCancelCause(context.Background())
		failed := drain(c.Run(ctx, key, llm.UserText("help")), func(e *event.Event) bool {
			if e.Partial && e.Agent == "billing" {
				cancel(errors.New("the user has left"))
			}
			return false
		})
		require.Error(t, failed)
		c.billing.ended(t, event.FinishReasonCanceled)
		canceled := c.state(t)
		require.NoError(t, turn(t, c.Runner, "still there?", nil))
		return []state{canceled, c.state(t)}
	})
}

// The consumer walks away after the first words of the specialist: the turn is over, and
// its work is stopped.
func TestBreakWhileTheTargetAnswers(t *testing.T) {
	same(t, func(t *testing.T, p place) any {
		script := scripted.New().Add("support", handOver()).Add("billing", waits(), says("Here."))
		c := newScene(t, p, script)
		require.NoError(t, turn(t, c.Runner, "help", func(e *event.Event) bool { return e.Partial && e.Agent == "billing" }))
		c.billing.ended(t, event.FinishReasonCanceled)
		left := c.state(t)
		require.NoError(t, turn(t, c.Runner, "still there?", nil))
		return []state{left, c.state(t)}
	})
}

// The consumer walks away as soon as the transfer is committed: nothing was asked of the
// specialist yet, and Resume asks it, not the coordinator.
func TestBreakBetweenCommitAndTarget(t *testing.T) {
	same(t, func(t *testing.T, p place) any {
		script := scripted.New().Add("support", handOver(scripted.Text("One moment."))).Add("billing", says("I see ", "two."), says("Bye."))
		c := newScene(t, p, script)
		require.NoError(t, turn(t, c.Runner, "help", func(e *event.Event) bool {
			end, ok := e.Data.(*event.HarnessEnd)
			return ok && end.FinishReason == event.FinishReasonTransfer
		}))
		require.Zero(t, c.count("billing"))
		left := c.state(t)
		c.begin(t)
		require.NoError(t, drain(c.Resume(context.Background(), key), nil))
		resumed := c.state(t)
		require.Equal(t, 1, c.count("billing"))
		require.NoError(t, turn(t, c.Runner, "thanks", nil))
		require.NoError(t, script.Done())
		return []state{left, resumed, c.state(t)}
	})
}

// The caller cancels while the coordinator decides: nothing is switched, and nothing is
// asked of the specialist.
func TestCancelBeforeCommit(t *testing.T) {
	same(t, func(t *testing.T, p place) any {
		ctx, cancel := context.WithCancel(context.Background())
		script := scripted.New().Add("support", handOver(scripted.Wait(func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return context.Cause(ctx)
		})), handOver()).Add("billing", says("Here."))
		c := newScene(t, p, script)
		require.Error(t, drain(c.Run(ctx, key, llm.UserText("help")), nil))
		require.Zero(t, c.count("billing"))
		canceled := c.state(t)
		require.NoError(t, turn(t, c.Runner, "help me", nil))
		return []state{canceled, c.state(t)}
	})
}

// unready is an agent that cannot start.
type unready struct{ agent.Agent }

func (unready) Ready(context.Context) error { return errors.New("the endpoint is not configured") }

// The target cannot start, known before the commit: the call's only result is the error,
// nothing is switched, and the coordinator goes on.
func TestTargetCannotStart(t *testing.T) {
	same(t, func(t *testing.T, p place) any {
		script := scripted.New().Add("support", handOver(), says("I am on my own."), handOver()).Add("billing", says("Here I am."))
		c := &scene{script: script, store: sessiontest.Memory(t)}
		billing := must.Get(llmagent.New("billing", "You refund.", c.model("billing", script.Model("billing")), llmagent.WithDescription("Refunds"), llmagent.WithHistory(view.TextOnly())))
		if p.remote {
			c.billing = &desk{Agent: p.node(t, "billing", "http://127.0.0.1:1/")} // nobody listens there
		} else {
			c.billing = &desk{Agent: unready{billing}}
		}
		c.begin(t)
		require.NoError(t, turn(t, c.Runner, "help", nil))
		require.Zero(t, c.count("billing"))
		failed := account(log(c.store))
		require.Contains(t, failed, "support transfer support → billing: failed ")
		c.billing = p.put(t, billing) // and now it can
		c.begin(t)
		require.NoError(t, turn(t, c.Runner, "once more", nil))
		require.NoError(t, script.Done())
		return withoutIDs(append(failed, account(log(c.store))...))
	})
}

// The target refuses what it was handed after the commit: the conversation goes back,
// and a coordinator that insists comes to an end.
func TestTargetRefuses(t *testing.T) {
	for _, insists := range []bool{false, true} {
		t.Run(fmt.Sprint("insists ", insists), func(t *testing.T) {
			same(t, func(t *testing.T, p place) any {
				script := scripted.New()
				if insists {
					script.Func("support", func(*llm.Request) scripted.Answer {
						return scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`))
					})
				} else {
					script.Add("support", handOver(scripted.Text("One moment.")), says("They are closed."), says("Still closed."))
				}
				c := &scene{script: script, store: sessiontest.Memory(t)}
				if p.remote { // an agent that takes words in no form there is
					mute := must.Get(agent.New("billing", "Refunds", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
						return func(func(*event.Event, error) bool) { t.Error("it was asked") }
					}))
					c.billing = p.put(t, mute)
					refuse(t, c.billing)
				} else {
					mute := must.Get(agent.New("billing", "Refunds", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
						return func(yield func(*event.Event, error) bool) {
							yield(nil, &agent.RunError{Agent: "billing", Code: "closed", Err: &agent.RefusedError{Agent: "billing", Reason: "closed"}})
						}
					}))
					c.billing = &desk{Agent: mute}
				}
				c.begin(t)
				err := turn(t, c.Runner, "help", nil)
				require.Equal(t, insists, errors.Is(err, agent.ErrTransferRejected), "%v", err)
				first := account(log(c.store))
				require.Equal(t, "support", must.Get(c.Active(context.Background(), key)))
				if !insists {
					require.NoError(t, turn(t, c.Runner, "and now?", nil))
					require.NoError(t, script.Done())
				}
				return withoutIDs(append(first, account(log(c.store))...))
			})
		})
	}
}

// What the specialist's models use is counted in the coordinator's log, wherever they run.
func TestUsage(t *testing.T) {
	same(t, func(t *testing.T, p place) any {
		script := scripted.New().Add("support", handOver()).
			Add("billing", scripted.Reply(scripted.Text("I see."), scripted.Usage(10, 5, 2)), scripted.Reply(scripted.Text("Bye."), scripted.Usage(20, 7, 10)))
		c := newScene(t, p, script)
		require.NoError(t, turn(t, c.Runner, "help", nil))
		require.NoError(t, turn(t, c.Runner, "thanks", nil))
		var sum event.Usage
		for _, e := range log(c.store) {
			var used []event.Usage
			switch d := e.Data.(type) {
			case *event.Usage:
				used = []event.Usage{*d}
			case *event.RemoteTask:
				used = d.Usage
			}
			for _, u := range used {
				if e.Agent == "billing" {
					sum.InputTokens += u.InputTokens
					sum.OutputTokens += u.OutputTokens
					sum.CachedTokens += u.CachedTokens
				}
			}
		}
		require.Equal(t, 30, sum.InputTokens)
		return sum
	})
}
