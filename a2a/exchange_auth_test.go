package a2a_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
)

const signIn = "Sign in at https://login.test, please."

// asksForAuth answers the first message with some words and a request for an
// authorization; other calls are answered by then.
func asksForAuth(then func(w http.ResponseWriter, c call)) func(w http.ResponseWriter, c call) {
	return func(w http.ResponseWriter, c call) {
		if c.Method == sends && c.number == 1 {
			c.stream(w, taskEvent("SUBMITTED", ""), deltaEvent("a", "Two charges"), deltaEvent("a", " found."), statusEvent("AUTH_REQUIRED", signIn))
			return
		}
		then(w, c)
	}
}

func handles(events []*event.Event) (statuses []string) {
	for _, h := range remotetest.Find[*event.RemoteTask](events) {
		statuses = append(statuses, h.Status)
	}
	return statuses
}

// An authorization that the peer asks for is a pause; Resume looks whether it is there
// and goes on with the task. Nothing is sent twice, and nothing is said twice.
func TestAuthRequired(t *testing.T) {
	for _, transferred := range []bool{false, true} {
		for _, streaming := range []bool{false, true} {
			p := newWire(t, asksForAuth(func(w http.ResponseWriter, c call) {
				c.reply(w, taskJSON("AUTH_REQUIRED", signIn, "a", "Two charges found."))
			}))
			var opts []runner.Option
			if streaming {
				opts = append(opts, runner.WithStreaming())
			}
			root := remotetest.Billing(t, p.URL)
			if transferred {
				root = tree(t, scripted.New().Add("support", transfer()), root)
			}
			f := newRunner(t, root, opts...)
			events, streamed, err := f.Turn("refund")
			require.NoError(t, err)
			require.Equal(t, []string{"Two charges found.\n\n" + signIn}, remotetest.Texts(events))
			if streaming {
				require.Equal(t, "Two charges found.\n\n"+signIn, streamed, "what is asked is not only stored")
			}
			require.Equal(t, []string{"working", "auth_required"}, handles(events))
			require.Equal(t, event.FinishReasonInputRequired, lastEnd(events))
			paused := events[len(events)-1]

			// Another process looks: still nothing.
			root = remotetest.Billing(t, p.URL)
			if transferred {
				root = tree(t, scripted.New(), root)
			}
			f = again(t, f.Store, root, opts...)
			events, streamed, err = f.resume()
			require.NoError(t, err)
			require.Equal(t, paused.RunID+":harness_end", events[0].ParentID)
			require.Empty(t, remotetest.Texts(events), "it is in the log already")
			require.Empty(t, streamed)
			require.Equal(t, []string{"auth_required"}, handles(events))
			require.Equal(t, event.FinishReasonInputRequired, lastEnd(events))

			// The user has signed in: the task goes on.
			p.set(func(w http.ResponseWriter, c call) {
				if c.Method == subscribes {
					c.stream(w, taskEvent("WORKING", "", "a", "Two charges found."), deltaEvent("a", " One is gone."), deltaEvent("b", "Refunded."), statusEvent("COMPLETED", ""))
					return
				}
				state, all := "WORKING", []string{"a", "Two charges found."}
				if p.made(subscribes) != nil {
					state, all = "COMPLETED", []string{"a", "Two charges found. One is gone.", "b", "Refunded."}
				}
				c.reply(w, taskJSON(state, "", all...))
			})
			events, streamed, err = f.resume()
			require.NoError(t, err)
			require.Equal(t, []string{" One is gone.\n\nRefunded."}, remotetest.Texts(events))
			if streaming {
				require.Equal(t, " One is gone.\n\nRefunded.", streamed)
			}
			require.Equal(t, []string{"working", "completed"}, handles(events))
			require.Equal(t, event.FinishReasonStop, lastEnd(events))
			require.Len(t, p.made(sends), 1)
			require.Len(t, p.made(subscribes), 1)
			require.Empty(t, p.made(cancels))
			events = f.NoError(f.resume())
			require.Empty(t, events)
		}
	}
}

// It asks for something else the second time.
func TestAuthRequiredTwice(t *testing.T) {
	p := newWire(t, asksForAuth(func(w http.ResponseWriter, c call) {
		c.reply(w, `{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_AUTH_REQUIRED","message":{"messageId":"m2","role":"ROLE_AGENT","parts":[{"text":"And at the bank."}]}},
			"artifacts":[{"artifactId":"a","parts":[{"text":"Two charges found."}]}],"history":[{"messageId":"m1","role":"ROLE_AGENT","parts":[{"text":"`+signIn+`"}]}]}`)
	}))
	f := newRunner(t, remotetest.Billing(t, p.URL))
	f.NoError(f.Turn("refund"))
	events := f.NoError(f.resume())
	require.Equal(t, []string{"And at the bank."}, remotetest.Texts(events))
	require.Equal(t, event.FinishReasonInputRequired, lastEnd(events))
}

// A message of the user instead goes to the task that waits, however often a resume has asked for it before.
func TestMessageInsteadOfAuth(t *testing.T) {
	for resumes := range 3 {
		p := newWire(t, asksForAuth(func(w http.ResponseWriter, c call) {
			switch {
			case c.Method == gets:
				c.reply(w, taskJSON("AUTH_REQUIRED", signIn, "a", "Two charges found."))
			case len(c.Params.Message.Parts) == 1 && c.Params.Message.Parts[0].Text() == "I cannot sign in":
				c.stream(w, statusEvent("AUTH_REQUIRED", signIn))
			default:
				c.stream(w, deltaEvent("b", "Never mind, then."), statusEvent("COMPLETED", ""))
			}
		}))
		f := newRunner(t, remotetest.Billing(t, p.URL))
		f.NoError(f.Turn("refund"))
		for i, c := range []struct{ message, answer string }{{"I cannot sign in", signIn}, {"I really cannot", "Never mind, then."}} {
			for range resumes {
				f.NoError(f.resume())
			}
			events := f.NoError(f.Turn(c.message))
			require.Equal(t, []string{c.answer}, remotetest.Texts(events))
			sent := p.made(sends)[i+1].Params.Message
			require.Equal(t, "t1", string(sent.TaskID), "after %d resumes", resumes)
			require.Equal(t, "c1", sent.ContextID)
			require.Equal(t, []string{c.message}, texts(sent))
		}
		require.Empty(t, p.made(cancels))
	}
}

// What can become of a task while its authorization is waited for.
func TestTaskThatWaitedIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, c call)
		code   a2a.ErrorCode
	}{
		"forgotten": {func(w http.ResponseWriter, c call) { c.fail(w, taskNotFound, "who?") }, a2a.CodeTaskGone},
		"canceled":  {func(w http.ResponseWriter, c call) { c.reply(w, taskJSON("CANCELED", "too late")) }, a2a.CodeTaskCanceled},
		"failed":    {func(w http.ResponseWriter, c call) { c.reply(w, taskJSON("FAILED", "no funds")) }, a2a.CodeTaskFailed},
	} {
		t.Run(name, func(t *testing.T) {
			p := newWire(t, asksForAuth(c.answer))
			f := newRunner(t, remotetest.Billing(t, p.URL))
			f.NoError(f.Turn("refund"))
			_, _, err := f.resume()
			requireCode(t, err, c.code)
			require.Len(t, p.made(sends), 1, "nothing is sent again")

			p.set(func(w http.ResponseWriter, c call) { c.stream(w, messageEvent("Hello again.")) })
			events := f.NoError(f.Turn("hello?"))
			require.Equal(t, []string{"Hello again."}, remotetest.Texts(events))
			sent := p.made(sends)[1].Params.Message
			require.Empty(t, sent.TaskID)
			require.Equal(t, "c1", sent.ContextID)
		})
	}
}

// A turn that is given up leaves no task behind.
func TestCancelWhileAuthIsWaitedFor(t *testing.T) {
	p := newWire(t, asksForAuth(func(w http.ResponseWriter, c call) { c.reply(w, taskJSON("CANCELED", "")) }))
	f := newRunner(t, remotetest.Billing(t, p.URL))
	f.NoError(f.Turn("refund"))
	events := must.Get(f.Cancel(context.Background(), key))
	require.Equal(t, event.FinishReasonCanceled, lastEnd(events))
	require.Equal(t, []string{"canceled"}, handles(events))
	require.Len(t, p.made(cancels), 1)
	events = f.NoError(f.resume())
	require.Empty(t, events)
}

// Inside of another agent an authorization is a pause as well, of the turn: it goes on with the
// task, and with what is around.
func TestAuthRequiredInsideOfAgents(t *testing.T) {
	for name, root := range map[string]func(t *testing.T, remote agent.Agent, s *scripted.Script) agent.Agent{
		"an agent tool": func(t *testing.T, remote agent.Agent, s *scripted.Script) agent.Agent {
			tool := must.Get(agenttool.New(remote))
			return must.Get(llmagent.New("support", "You ask.", s.Model("support"), llmagent.WithTools(tool)))
		},
		"a node of a graph": func(t *testing.T, remote agent.Agent, _ *scripted.Script) agent.Agent {
			return must.Get(agentgraph.NewBuilder("desk").Node("ask", remote).Build())
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newWire(t, asksForAuth(func(w http.ResponseWriter, c call) {
				c.reply(w, taskJSON("AUTH_REQUIRED", signIn, "a", "Two charges found."))
			}))
			s := scripted.New()
			if name == "an agent tool" {
				s.Add("support", scripted.Reply(scripted.Call("billing", `{"input":"refund"}`)), scripted.Reply(scripted.ExpectResult("Refunded."), scripted.Text("Done.")))
			}
			f := newRunner(t, root(t, remotetest.Billing(t, p.URL), s))
			events := f.NoError(f.Turn("refund"))
			require.Equal(t, event.FinishReasonInputRequired, lastEnd(events))
			words := ""
			for _, e := range remotetest.Find[*event.Text](events) {
				words += e.Content
			}
			require.Contains(t, words, signIn)

			// Another process looks: still nothing.
			f = again(t, f.Store, root(t, remotetest.Billing(t, p.URL), s))
			events = f.NoError(f.resume())
			require.Equal(t, event.FinishReasonInputRequired, lastEnd(events))
			require.Empty(t, remotetest.Find[*event.Text](events))

			p.set(func(w http.ResponseWriter, c call) {
				c.reply(w, taskJSON("COMPLETED", "", "a", "Two charges found.", "b", "Refunded."))
			})
			events = f.NoError(f.resume())
			require.NoError(t, s.Done())
			require.Equal(t, event.FinishReasonStop, lastEnd(events))
			require.Len(t, p.made(sends), 1)
			require.Empty(t, p.made(cancels))
		})
	}
}
