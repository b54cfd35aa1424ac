package a2a_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/workflowagent"
)

// clerk is a tree on a server whose tool asks two questions, one after the other.
type clerk struct {
	url    string
	server *a2aserver.Server
	stop   atomic.Pointer[context.CancelCauseFunc] // what a call does, which gets no answer then
}

func newClerk(t *testing.T) *clerk {
	t.Helper()
	refund := must.Get(tools.Func("refund", "", func(ctx tools.Context, _ struct{}) (string, error) {
		charge, err := ctx.Ask("Which of the two charges?", nil)
		if err != nil {
			return "", err
		}
		card, err := ctx.Ask("To which card?", nil)
		return string(charge) + " to " + string(card), err
	}))
	root := must.Get(llmagent.New("clerk", "You refund.", scripted.Func("clerk", func(req *llm.Request) scripted.Answer {
		if last := req.Messages[len(req.Messages)-1]; last.Role == llm.RoleTool {
			return scripted.Reply(scripted.Text("Refunded " + output(last) + "."))
		}
		return scripted.Reply(scripted.Call("refund", "{}"))
	}), llmagent.WithTools(refund)))
	s := must.Get(a2aserver.New(root, sessiontest.Memory(t)))
	p := &clerk{server: s}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if stop := p.stop.Load(); stop != nil && req.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, req.Body) // so that the server notices who goes away
			(*stop)(agent.ErrSuspended)
			<-req.Context().Done()
			return
		}
		s.ServeHTTP(w, req)
	}))
	p.url = srv.URL
	t.Cleanup(func() {
		srv.Close()
		require.NoError(t, s.Close(context.Background()))
	})
	return p
}

func output(m llm.Message) string { return m.Parts[0].(llm.ToolResult).Output }

// task is the only one that the server has.
func (c *clerk) task(t *testing.T) *sdk.Task {
	t.Helper()
	list := must.Get(c.server.RequestHandler().ListTasks(context.Background(), &sdk.ListTasksRequest{}))
	require.Len(t, list.Tasks, 1)
	return list.Tasks[0]
}

// caller calls the agent, and says what the call gave.
func caller(t *testing.T, inner agent.Agent) agent.Agent {
	tool := must.Get(agenttool.New(inner))
	return must.Get(llmagent.New("support", "You ask.", scripted.Func("support", func(req *llm.Request) scripted.Answer {
		if last := req.Messages[len(req.Messages)-1]; last.Role == llm.RoleTool {
			return scripted.Reply(scripted.Text("It says: " + output(last)))
		} else if last.PlainText() == "never mind" {
			return scripted.Reply(scripted.Text("As you like."))
		}
		return scripted.Reply(scripted.Call(inner.Name(), `{"input":"refund"}`))
	}), llmagent.WithTools(tool)))
}

func inGraph(t *testing.T, node agent.Agent) agent.Agent {
	return must.Get(agentgraph.NewBuilder("desk").Node("billing", node).Build())
}

func inWorkflow(t *testing.T, child agent.Agent) agent.Agent {
	return must.Get(workflowagent.Sequential("line", "", []agent.Agent{child}))
}

// places are where an agent can be inside of others, with the agents around it.
var places = map[string]struct {
	root   func(t *testing.T, remote agent.Agent) agent.Agent
	within []string
	called bool // by an agent that goes on when it fails
}{
	"an agent tool":         {caller, []string{"support"}, true},
	"a node of a graph":     {inGraph, []string{"desk"}, false},
	"a child of a workflow": {inWorkflow, []string{"line"}, false},
	"a graph in a workflow": {func(t *testing.T, remote agent.Agent) agent.Agent { return inWorkflow(t, inGraph(t, remote)) }, []string{"line", "desk"}, false},
	"a graph behind a tool": {func(t *testing.T, remote agent.Agent) agent.Agent { return caller(t, inGraph(t, remote)) }, []string{"support", "desk"}, true},
	"a target inside a tool": {func(t *testing.T, remote agent.Agent) agent.Agent {
		front := must.Get(llmagent.New("front", "You route.", scripted.Func("front", func(*llm.Request) scripted.Answer { return transfer() }), llmagent.WithSubAgents(remote)))
		return caller(t, front)
	}, []string{"support"}, true},
}

// asked returns the only question of a turn that waits.
func asked(t *testing.T, events []*event.Event, err error) *event.Relay {
	t.Helper()
	require.NoError(t, err)
	require.Equal(t, event.FinishReasonInputRequired, lastEnd(events))
	relays := remotetest.Find[*event.Relay](events)
	require.Len(t, relays, 1)
	return relays[0]
}

func (f *fixture) answers(q *event.Relay, words string) ([]*event.Event, string, error) {
	return f.Collect(f.Resume(context.Background(), key, runner.Answer(q.ToolCallID, words)))
}

// words returns what the user was told by the last event that tells something.
func words(events []*event.Event) string {
	var a event.Answer
	for _, e := range events {
		if e.Scope == "" {
			a.Apply(e)
		}
	}
	return a.Text
}

// A remote agent inside of others asks the user: each time in another process the answer goes
// to the task that asked, and the last words are the answer of the agent.
func TestQuestionsInsideOfAgents(t *testing.T) {
	for name, c := range places {
		for _, streaming := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				var opts []runner.Option
				if streaming {
					opts = append(opts, runner.WithStreaming())
				}
				p := newClerk(t)
				root := func() agent.Agent { return c.root(t, remotetest.Billing(t, p.url)) }
				f := newRunner(t, root(), opts...)
				events, _, err := f.Turn("refund")
				first := asked(t, events, err)
				require.Equal(t, event.RelayInput, first.Kind)
				require.Equal(t, "ask_user", first.Tool)
				require.Contains(t, first.Message, "Which of the two charges?")
				require.Empty(t, first.Schema)
				require.Equal(t, c.within, first.Within)
				require.JSONEq(t, string(event.EncodeJSON(map[string]string{"message": first.Message})), string(first.Params))
				require.Empty(t, remotetest.Texts(events), "the question is no answer")
				require.Equal(t, sdk.TaskStateInputRequired, p.task(t).Status.State)

				f = again(t, f.Store, root(), opts...)
				events = f.NoError(f.resume())
				require.Empty(t, events, "nothing was decided")
				events, _, err = f.answers(first, "the second")
				second := asked(t, events, err)
				require.Contains(t, second.Message, "To which card?")
				require.NotContains(t, second.Message, "Which of the two")
				require.NotEqual(t, first.ToolCallID, second.ToolCallID)
				result := remotetest.Find[*event.ToolResult](events)[0]
				require.Equal(t, &event.ToolResult{Name: "ask_user", Output: json.RawMessage(`"the second"`)}, result)

				f = again(t, f.Store, root(), opts...)
				events = f.NoError(f.answers(second, "the red one"))
				require.Equal(t, event.FinishReasonStop, lastEnd(events))
				require.Contains(t, words(events), "the second")
				require.Contains(t, words(events), "the red one")
				require.Equal(t, sdk.TaskStateCompleted, p.task(t).Status.State)
			})
		}
	}
}

// A process dies with an answer, at any place of the log, and the peer has it already or not.
// Another process goes on, and each answer comes to the task once.
func TestAnswersAfterACrash(t *testing.T) {
	for name, c := range places {
		t.Run(name, func(t *testing.T) {
			p := newClerk(t)
			root := c.root(t, remotetest.Billing(t, p.url))
			f := newRunner(t, root)
			events, _, err := f.Turn("refund")
			first := asked(t, events, err)
			ctx, stop := context.WithCancelCause(context.Background())
			p.stop.Store(&stop)
			_, _, err = f.Collect(f.Resume(ctx, key, runner.Answer(first.ToolCallID, "the second")))
			require.ErrorIs(t, err, agent.ErrSuspended)
			p.stop.Store(nil)
			require.Equal(t, sdk.TaskStateInputRequired, p.task(t).Status.State)
			f = again(t, f.Store, root)
			events, _, err = f.resume()
			second := asked(t, events, err)
			require.Contains(t, second.Message, "To which card?")

			crashed := func(answers int, want func(f *fixture, events []*event.Event, err error)) (n int) {
				var fold session.Fold
				taken, log := false, stored(f.Store)
				for i, e := range log[:len(log)-1] {
					fold.Apply(e)
					if log[i+1].Time.Equal(e.Time) || e.Type() == event.TypeHarnessEnd && e.Scope == "" {
						continue
					}
					if taken = taken || e.Agent == "billing" && e.Type() == event.TypeHarnessStart && len(remotetest.Find[*event.RelayResolved](log[:i])) == answers; !taken || fold.Held() {
						continue // nothing was sent, or nothing is open
					}
					cut := &fixture{&remotetest.Client{Store: sessiontest.Memory(t), T: t}}
					ctx := context.Background()
					lease := must.Get(sessiontest.Acquire(ctx, cut.Store, key, session.Self()))
					var write []*event.Event
					for _, e := range log[:i+1] {
						own := *e
						write = append(write, &own)
					}
					require.NoError(t, sessiontest.Append(ctx, cut.Store, key, 0, lease, write...))
					require.NoError(t, sessiontest.Release(ctx, cut.Store, key, lease))
					cut = again(t, cut.Store, c.root(t, remotetest.Billing(t, p.url)))
					events, _, err := cut.resume()
					want(cut, events, err)
					n++
				}
				return n
			}
			n := crashed(1, func(_ *fixture, events []*event.Event, err error) {
				require.NoError(t, err)
				require.Equal(t, event.FinishReasonInputRequired, lastEnd(events))
				for _, q := range remotetest.Find[*event.Relay](events) {
					require.Contains(t, q.Message, "To which card?")
				}
				require.Equal(t, sdk.TaskStateInputRequired, p.task(t).Status.State)
			})
			require.Greater(t, n, 2)

			f.NoError(f.answers(second, "the red one"))
			n = crashed(2, func(_ *fixture, events []*event.Event, err error) {
				require.NoError(t, err)
				require.Equal(t, event.FinishReasonStop, lastEnd(events))
				require.Contains(t, words(events), "the red one")
				require.Equal(t, sdk.TaskStateCompleted, p.task(t).Status.State)
			})
			require.Greater(t, n, 2)
		})
	}
}

// A question that is declined ends the run with the reason, and its task, also in another
// process. The remote agent hears no words that it could take for an answer. A fork does not cancel the task.
func TestDeclinedInsideOfAgents(t *testing.T) {
	for name, c := range places {
		for _, forked := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", forked ", forked), func(t *testing.T) {
				p := newClerk(t)
				f := newRunner(t, c.root(t, remotetest.Billing(t, p.url)))
				events, _, err := f.Turn("refund")
				q := asked(t, events, err)
				at, state, says := key, sdk.TaskStateCanceled, "its task was canceled"
				if forked {
					at, state, says = f.forked(t, event.TypeHarnessEnd), sdk.TaskStateInputRequired, "a fork does not cancel a task of its parent session"
				}
				f = again(t, f.Store, c.root(t, remotetest.Billing(t, p.url)))
				events, _, err = f.Collect(f.Resume(context.Background(), at, runner.Deny(q.ToolCallID, "that is private")))
				failure := remotetest.Find[*event.Failure](events)[0]
				if c.called {
					require.NoError(t, err)
					require.Contains(t, words(events), "declined")
					require.Contains(t, words(events), "that is private")
				} else {
					requireCode(t, err, a2a.CodeDeclined)
					require.ErrorContains(t, err, "that is private")
				}
				require.Equal(t, string(a2a.CodeDeclined), failure.Code)
				require.Contains(t, failure.Message, says)
				require.True(t, remotetest.Find[*event.ToolResult](events)[0].IsError)
				require.Equal(t, []string{"canceled"}, handles(events))
				require.Equal(t, state, p.task(t).Status.State)
			})
		}
	}
}

// A question that nobody answers any more is withdrawn, and its task canceled, whether the
// user says something else or gives the turn up.
func TestWithdrawnInsideOfAgents(t *testing.T) {
	for name, c := range places {
		for how, act := range map[string]func(f *fixture) ([]*event.Event, error){
			"canceled": func(f *fixture) ([]*event.Event, error) { return f.Cancel(context.Background(), key) },
			"something else": func(f *fixture) (events []*event.Event, err error) {
				events, _, err = f.Turn("never mind")
				return events, err
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				p := newClerk(t)
				f := newRunner(t, c.root(t, remotetest.Billing(t, p.url)))
				events, _, err := f.Turn("refund")
				q := asked(t, events, err)
				task := p.task(t)
				f = again(t, f.Store, c.root(t, remotetest.Billing(t, p.url)))
				events = must.Get(act(f))
				require.True(t, remotetest.Find[*event.ToolResult](events)[0].IsError)
				require.Contains(t, handles(events), "canceled")
				now, err := p.server.RequestHandler().GetTask(context.Background(), &sdk.GetTaskRequest{ID: task.ID})
				require.NoError(t, err)
				require.Equal(t, sdk.TaskStateCanceled, now.Status.State)
				var fold session.Fold
				for _, e := range stored(f.Store) {
					fold.Apply(e)
				}
				for _, r := range fold.Remote {
					require.NotEqual(t, string(task.ID), r.TaskID)
				}
				before := len(stored(f.Store))
				_, _, err = f.answers(q, "the second")
				require.ErrorIs(t, err, runner.ErrNoApproval)
				require.Len(t, stored(f.Store), before)
			})
		}
	}
}

// A task that went on without the answer, because somebody else has given one, is not taken for
// ours, nor canceled. What it asks now gets no answer to another question.
func TestAnsweredBySomebodyElse(t *testing.T) {
	for name, now := range map[string]string{
		"over":       taskJSON("COMPLETED", "", "a", "Refunded the first."),
		"at work":    taskJSON("WORKING", ""),
		"asks again": taskJSON("INPUT_REQUIRED", "To which card?"),
	} {
		t.Run(name, func(t *testing.T) {
			p := newWire(t, func(w http.ResponseWriter, c call) { c.stream(w, taskEvent("INPUT_REQUIRED", "Which one?")) })
			f := newRunner(t, inGraph(t, remotetest.Billing(t, p.URL)))
			events, _, err := f.Turn("refund")
			q := asked(t, events, err)
			require.Equal(t, "Which one?", q.Message)
			p.set(func(w http.ResponseWriter, c call) { c.reply(w, now) })
			events, _, err = f.answers(q, "the second")
			requireCode(t, err, a2a.CodeTaskGone)
			require.Empty(t, remotetest.Texts(events))
			require.Len(t, p.made(sends), 1)
			require.Empty(t, p.made(cancels))
		})
	}
}

// The peer refuses our answer, because somebody else answered after our look at the task. The task is not canceled. A task
// that still asks is.
func TestAnsweredWhileOurAnswerTravels(t *testing.T) {
	for name, c := range map[string]struct {
		now     string
		code    a2a.ErrorCode
		cancels int
	}{
		"over":       {taskJSON("COMPLETED", "", "a", "Refunded the first."), a2a.CodeTaskGone, 0},
		"at work":    {taskJSON("WORKING", ""), a2a.CodeTaskGone, 0},
		"asks again": {taskJSON("INPUT_REQUIRED", "To which card?"), a2a.CodeTaskGone, 0},
		"still asks": {taskJSON("INPUT_REQUIRED", "Which one?"), a2a.CodeProtocol, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := newWire(t, func(w http.ResponseWriter, c call) { c.stream(w, taskEvent("INPUT_REQUIRED", "Which one?")) })
			f := newRunner(t, inGraph(t, remotetest.Billing(t, p.URL)))
			events, _, err := f.Turn("refund")
			q := asked(t, events, err)
			p.set(func(w http.ResponseWriter, r call) {
				switch {
				case r.Method == gets && len(p.made(sends)) == 1:
					r.reply(w, taskJSON("INPUT_REQUIRED", "Which one?"))
				case r.Method == gets:
					r.reply(w, c.now)
				case r.Method == cancels:
					r.reply(w, taskJSON("CANCELED", ""))
				default:
					r.fail(w, -32602, "the task no longer asks this")
				}
			})
			_, _, err = f.answers(q, "the second")
			requireCode(t, err, c.code)
			require.Len(t, p.made(cancels), c.cancels)
		})
	}
}

// The answer is sent again under the id that it had, to the same task and context.
func TestAnswersAreSentUnderOneID(t *testing.T) {
	p := newWire(t, func(w http.ResponseWriter, c call) {
		c.stream(w, taskEvent("WORKING", ""), deltaEvent("a", "Two charges."), statusEvent("INPUT_REQUIRED", "Which one?"))
	})
	f := newRunner(t, inGraph(t, remotetest.Billing(t, p.URL)), runner.WithStreaming())
	events, _, err := f.Turn("refund")
	q := asked(t, events, err)
	require.Equal(t, "Two charges.\n\nWhich one?", q.Message)
	require.Len(t, remotetest.Find[*event.Discard](events), 1, "what was shown is no answer")
	ctx, cancel := context.WithCancelCause(context.Background())
	p.set(func(w http.ResponseWriter, c call) {
		if c.Method == gets {
			c.reply(w, taskJSON("INPUT_REQUIRED", "Which one?", "a", "Two charges."))
			return
		}
		cancel(agent.ErrSuspended) // the process stops before it hears anything
		<-c.ctx.Done()
	})
	_, _, err = f.Collect(f.Resume(ctx, key, runner.Answer(q.ToolCallID, "the second")))
	require.ErrorIs(t, err, agent.ErrSuspended)
	f = again(t, f.Store, inGraph(t, remotetest.Billing(t, p.URL)))
	p.set(func(w http.ResponseWriter, c call) {
		if c.Method == gets {
			c.reply(w, taskJSON("INPUT_REQUIRED", "Which one?", "a", "Two charges."))
			return
		}
		c.stream(w, taskEvent("COMPLETED", "", "a", "Two charges.", "b", "Refunded."))
	})
	events = f.NoError(f.resume())
	require.Equal(t, []string{"Refunded."}, remotetest.Texts(events))
	sent := p.made(sends)
	require.Len(t, sent, 3)
	first, second := sent[1].Params.Message, sent[2].Params.Message
	require.Equal(t, first.ID, second.ID)
	require.NotEqual(t, sent[0].Params.Message.ID, first.ID)
	for _, m := range []*sdk.Message{first, second} {
		require.Equal(t, []string{"the second"}, texts(m))
		require.Equal(t, sdk.TaskID("t1"), m.TaskID)
		require.Equal(t, "c1", m.ContextID)
		require.Equal(t, map[string]any{"answers": "m-INPUT_REQUIRED"}, m.Metadata[a2a.Extension])
	}
	require.Empty(t, p.made(cancels))
}

// Words that the peer takes back are discarded before those that take their place, and a
// question behind words that were shown is shown as well.
func TestWordsOnTheWay(t *testing.T) {
	for name, c := range map[string]struct {
		answer  a2atest.Answer
		visible []string
		types   []string
	}{
		"replaced": {a2atest.Reply(a2atest.Snapshots("Hello there", "Goodbye")), []string{"Hello there", "Goodbye"}, []string{"discard", "text"}},
		"asked":    {a2atest.Reply(a2atest.Text("Two ", "charges."), a2atest.InputRequired("Which one?")), []string{"Two ", "charges.", "\n\nWhich one?"}, []string{"text"}},
	} {
		t.Run(name, func(t *testing.T) {
			node := must.Get(a2a.Remote("billing", "", a2a.WithClient(a2atest.New().Add(c.answer))))
			f := newRunner(t, node, runner.WithStreaming())
			var visible, types []string
			for e, err := range sessiontest.Turn(t, f.Run(context.Background(), key, llm.UserText("help"))) {
				require.NoError(t, err)
				if w := e.Visible(); w != "" {
					visible = append(visible, w)
				}
				if typ := e.Type(); !e.Partial && (typ == event.TypeText || typ == event.TypeDiscard) {
					types = append(types, typ)
				}
			}
			require.Equal(t, c.visible, visible)
			require.Equal(t, c.types, types)
		})
	}
}
