package a2a_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// forked forks the session after the last event of a type, and returns the key of the fork.
func (f *fixture) forked(t *testing.T, typ string) session.Key {
	t.Helper()
	fork, at := session.ID("fork"), int64(0)
	for _, e := range stored(f.Store) {
		if e.Type() == typ {
			at = e.Seq
		}
	}
	require.NoError(t, f.Store.Fork(context.Background(), key, at, fork))
	return fork
}

// suspended begins a turn, and ends it here while its task works.
func (f *fixture) suspended(t *testing.T) {
	t.Helper()
	ctx, suspend := context.WithCancelCause(context.Background())
	defer suspend(nil)
	go onceStored(f, 1, func() { suspend(agent.ErrSuspended) })
	_, _, err := f.Collect(f.Run(ctx, key, llm.UserText("refund")))
	require.ErrorIs(t, err, agent.ErrSuspended)
}

// Cancel of a fork does not cancel a task of the parent session.
func TestCancelOfAFork(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, c call)
		begin  func(t *testing.T, f *fixture)
		at     string
	}{
		"the task works": {func(w http.ResponseWriter, c call) {
			if c.stream(w, taskEvent("WORKING", "")); c.Method == sends {
				<-c.ctx.Done()
			}
		}, func(t *testing.T, f *fixture) { f.suspended(t) }, event.TypeRemoteTask},
		"it waits for an authorization": {asksForAuth(nil), func(_ *testing.T, f *fixture) { f.NoError(f.Turn("refund")) }, event.TypeHarnessEnd},
		"it asks": {func(w http.ResponseWriter, c call) { c.stream(w, taskEvent("INPUT_REQUIRED", "Which one?")) },
			func(_ *testing.T, f *fixture) { f.NoError(f.Turn("refund")) }, event.TypeHarnessEnd},
	} {
		t.Run(name, func(t *testing.T) {
			p := newWire(t, func(w http.ResponseWriter, cl call) {
				if cl.Method == cancels {
					cl.reply(w, taskJSON("CANCELED", ""))
					return
				}
				c.answer(w, cl)
			})
			f := newRunner(t, remotetest.Billing(t, p.URL))
			c.begin(t, f)
			fork := f.forked(t, c.at)
			must.Get(f.Cancel(context.Background(), fork))
			require.Empty(t, p.made(cancels))

			p.set(func(w http.ResponseWriter, c call) { c.stream(w, messageEvent("Hello.")) })
			f.NoError(f.Collect(f.Run(context.Background(), fork, llm.UserText("never mind"))))
			require.Empty(t, p.made(sends)[1].Params.Message.TaskID, "the fork has given the task up")
			must.Get(f.Cancel(context.Background(), key))
			require.Len(t, p.made(cancels), 1)
		})
	}
}

// A fork that follows a task of the other session leaves it at work when its client goes.
func TestResumeOfAForkThatIsCanceled(t *testing.T) {
	var once sync.Once
	joined := make(chan struct{})
	p := newWire(t, func(w http.ResponseWriter, c call) {
		switch c.Method {
		case gets:
			c.reply(w, taskJSON("WORKING", ""))
		default:
			c.stream(w, taskEvent("WORKING", ""))
			if c.Method == subscribes {
				once.Do(func() { close(joined) })
			}
			<-c.ctx.Done()
		}
	})
	f := newRunner(t, remotetest.Billing(t, p.URL))
	f.suspended(t)
	fork := f.forked(t, event.TypeRemoteTask)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-joined
		cancel()
	}()
	_, _, err := f.Collect(f.Resume(ctx, fork))
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, p.made(cancels))
	require.Len(t, p.made(sends), 1)
}

// A message in a fork answers the question that the fork shows, and no later one.
func TestMessageInAFork(t *testing.T) {
	for name, c := range map[string]struct {
		state, asks string
		task        sdk.TaskID
	}{
		"the same question":       {"INPUT_REQUIRED", "Which invoice?", "t1"},
		"another question":        {"INPUT_REQUIRED", "Pay out 5000?", ""},
		"a question without text": {"INPUT_REQUIRED", "", ""},
		"it was answered":         {"WORKING", "", ""},
		"it has ended":            {"COMPLETED", "Paid.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newWire(t, func(w http.ResponseWriter, c call) { c.stream(w, taskEvent("INPUT_REQUIRED", "Which invoice?")) })
			f := newRunner(t, remotetest.Billing(t, p.URL))
			f.NoError(f.Turn("refund"))
			fork := f.forked(t, event.TypeHarnessEnd)
			p.set(func(w http.ResponseWriter, cl call) {
				if cl.Method == sends {
					cl.stream(w, messageEvent("Very well."))
					return
				}
				cl.reply(w, taskJSON(c.state, c.asks))
			})
			f.NoError(f.Collect(f.Run(context.Background(), fork, llm.UserText("the second"))))
			require.Equal(t, c.task, p.made(sends)[1].Params.Message.TaskID)
		})
	}
}

// If another client has answered the question of a task, and the task asks the next one, a message that was written
// before is not the answer to that, even if both questions have the same words.
func TestMessageForAnEarlierQuestion(t *testing.T) {
	for name, next := range map[string]string{
		"in other words":    taskJSON("INPUT_REQUIRED", "Pay out 5000?"),
		"in the same words": strings.ReplaceAll(taskJSON("INPUT_REQUIRED", "Pay out?"), "m-INPUT_REQUIRED", "m-2"),
	} {
		t.Run(name, func(t *testing.T) {
			p := newWire(t, func(w http.ResponseWriter, c call) { c.stream(w, taskEvent("INPUT_REQUIRED", "Pay out?")) })
			f := newRunner(t, remotetest.Billing(t, p.URL))
			f.NoError(f.Turn("refund"))
			p.set(func(w http.ResponseWriter, c call) {
				if c.Method == sends {
					c.stream(w, messageEvent("Very well."))
					return
				}
				c.reply(w, next)
			})
			f.NoError(f.Turn("yes"))
			require.Empty(t, p.made(sends)[1].Params.Message.TaskID)
		})
	}
}

// A peer that gives the same question a new message id at each request receives the answer in the task that asked, also
// within a graph. A question in other words is another one.
func TestPeerWithNewMessageIDs(t *testing.T) {
	for _, inside := range []bool{false, true} {
		for asks, task := range map[string]sdk.TaskID{"Pay out?": "t1", "Pay out 5000?": ""} {
			t.Run(fmt.Sprint(asks, ", inside ", inside), func(t *testing.T) {
				p := newWire(t, func(w http.ResponseWriter, c call) { c.stream(w, taskEvent("INPUT_REQUIRED", "Pay out?")) })
				root := remotetest.Billing(t, p.URL)
				if inside {
					root = inGraph(t, root)
				}
				f := newRunner(t, root)
				events := f.NoError(f.Turn("refund"))
				p.set(func(w http.ResponseWriter, c call) {
					if c.Method == sends {
						c.stream(w, messageEvent("Very well."))
						return
					}
					c.reply(w, strings.ReplaceAll(taskJSON("INPUT_REQUIRED", asks), "m-INPUT_REQUIRED", fmt.Sprint("m-", c.number)))
				})
				turn := func() ([]*event.Event, string, error) { return f.Turn("yes") }
				if inside {
					turn = func() ([]*event.Event, string, error) { return f.answers(asked(t, events, nil), "yes") }
				}
				_, _, err := turn()
				if inside && task == "" {
					requireCode(t, err, a2a.CodeTaskGone)
					require.Len(t, p.made(sends), 1)
					return
				}
				require.NoError(t, err)
				require.Equal(t, task, p.made(sends)[1].Params.Message.TaskID)
			})
		}
	}
}

// A fork is another conversation at the peer, too: it has a context of its own, which begins with the whole conversation.
func TestForkHasItsOwnContext(t *testing.T) {
	say := func(text, contextID string) func(w http.ResponseWriter, c call) {
		return func(w http.ResponseWriter, c call) {
			c.stream(w, strings.ReplaceAll(messageEvent(text), "c1", contextID))
		}
	}
	p := newWire(t, say("Which invoice?", "c1"))
	f := newRunner(t, remotetest.Billing(t, p.URL))
	f.NoError(f.Turn("refund"))
	fork := f.forked(t, event.TypeHarnessEnd)
	sent := func(f *fixture, in session.Key, text string) (contextID string, texts []string) {
		f.NoError(f.Collect(f.Run(context.Background(), in, llm.UserText(text))))
		all := p.made(sends)
		m := all[len(all)-1].Params.Message
		for _, part := range m.Parts {
			texts = append(texts, part.Text())
		}
		return m.ContextID, texts
	}
	for _, c := range []struct {
		key     session.Key
		answer  string
		context string // of the message
		texts   []string
		restart bool
	}{
		{fork, "c2", "", []string{"refund", "[billing] Which invoice?", "the first"}, false},
		{key, "c1", "c1", []string{"the first"}, false},
		{fork, "c2", "c2", []string{"the first"}, false},
		{fork, "c2", "c2", []string{"the first"}, true},
	} {
		p.set(say("Very well.", c.answer))
		if c.restart {
			f = again(t, f.Store, remotetest.Billing(t, p.URL))
		}
		contextID, texts := sent(f, c.key, "the first")
		require.Equal(t, c.context, contextID)
		require.Equal(t, c.texts, texts)
	}
}

// A peer that keeps one context for both conversations gets that of the fork once, and not at each turn.
func TestForkInTheContextOfItsParent(t *testing.T) {
	task := taskEvent("COMPLETED", "", "a", "Very well.")
	for name, answers := range map[string][]string{
		"messages": {messageEvent("Very well."), messageEvent("Very well."), messageEvent("Very well.")},
		"tasks":    {task, strings.ReplaceAll(task, "t1", "t2"), strings.ReplaceAll(task, "t1", "t3")},
	} {
		t.Run(name, func(t *testing.T) {
			p := newWire(t, func(w http.ResponseWriter, c call) { c.stream(w, answers[c.number-1]) })
			f := newRunner(t, remotetest.Billing(t, p.URL))
			f.NoError(f.Turn("refund"))
			fork := f.forked(t, event.TypeHarnessEnd)
			for _, text := range []string{"the first", "the second"} {
				f.NoError(f.Collect(f.Run(context.Background(), fork, llm.UserText(text))))
			}
			sent := p.made(sends)
			require.Empty(t, sent[1].Params.Message.ContextID)
			require.Equal(t, []string{"refund", "[billing] Very well.", "the first"}, texts(sent[1].Params.Message))
			require.Equal(t, "c1", sent[2].Params.Message.ContextID)
			require.Equal(t, []string{"the second"}, texts(sent[2].Params.Message))
		})
	}
}
