package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
)

// A stream that breaks is subscribed to again, however the peer goes on from there,
// and where it cannot, the task is polled. The words are there once, and none is
// missing.
func TestBrokenStream(t *testing.T) {
	begun := []string{taskEvent("SUBMITTED", ""), artifactEvent("a", "one ", false), deltaEvent("a", "two ")}
	whole := func(w http.ResponseWriter, c call) { c.reply(w, taskJSON("COMPLETED", "", "a", "one two three")) }
	for name, c := range map[string]struct {
		subscribe func(w http.ResponseWriter, c call)
		get       func(w http.ResponseWriter, c call)
		streamed  string // what is shown, if it is not all
	}{
		"a snapshot, then the rest": {func(w http.ResponseWriter, c call) {
			c.stream(w, taskEvent("WORKING", "", "a", "one two "), deltaEvent("a", "three"), statusEvent("COMPLETED", ""))
		}, whole, ""},
		"a snapshot that says more": {func(w http.ResponseWriter, c call) {
			c.stream(w, taskEvent("WORKING", "", "a", "one two three"), statusEvent("COMPLETED", ""))
		}, whole, ""},
		"everything from the beginning": {func(w http.ResponseWriter, c call) {
			c.stream(w, append(begun, deltaEvent("a", "three"), statusEvent("COMPLETED", ""))...)
		}, whole, ""},
		"the rest, with a hole": {func(w http.ResponseWriter, c call) {
			c.stream(w, deltaEvent("a", "ree"), statusEvent("COMPLETED", ""))
		}, whole, ""},
		"nothing but the end": {func(w http.ResponseWriter, c call) { c.stream(w, statusEvent("COMPLETED", "")) }, whole, ""},
		"it breaks again":     {func(w http.ResponseWriter, c call) { breakOnce(w, c) }, whole, ""},
		"it breaks again, and there are only streams": {func(w http.ResponseWriter, c call) { breakOnce(w, c) },
			func(w http.ResponseWriter, c call) { c.fail(w, -32601, "no") }, ""},
		"it breaks again, and leaves a hole": {func(w http.ResponseWriter, c call) {
			if c.number == 1 {
				breakOnce(w, c)
			}
			c.stream(w, deltaEvent("a", "e"), statusEvent("COMPLETED", ""))
		}, whole, ""},
		"no streams":             {func(w http.ResponseWriter, c call) { c.fail(w, unsupported, "no") }, whole, ""},
		"no such method":         {func(w http.ResponseWriter, c call) { c.fail(w, -32601, "no") }, whole, ""},
		"no stream of this task": {func(w http.ResponseWriter, c call) { c.fail(w, taskNotFound, "no") }, whole, ""},
		"HTTP 404":               {func(w http.ResponseWriter, _ call) { http.NotFound(w, nil) }, whole, ""},
		"an answer from the past": {func(w http.ResponseWriter, c call) {
			c.stream(w, taskEvent("WORKING", "", "a", "one two "), deltaEvent("a", "three"), statusEvent("COMPLETED", ""))
		}, func(w http.ResponseWriter, c call) { c.reply(w, taskJSON("WORKING", "", "a", "one ")) }, ""},
		"a hole, and answers from the past": {func(w http.ResponseWriter, c call) {
			c.stream(w, deltaEvent("a", "ree"), statusEvent("COMPLETED", ""))
		}, func(w http.ResponseWriter, c call) {
			if c.number == 1 {
				c.reply(w, taskJSON("WORKING", "", "a", "one "))
				return
			}
			whole(w, c)
		}, ""},
		"a hole, and a proxy that fails": {func(w http.ResponseWriter, c call) {
			c.stream(w, deltaEvent("a", "ree"), statusEvent("COMPLETED", ""))
		}, func(w http.ResponseWriter, c call) {
			if c.number == 1 {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			whole(w, c)
		}, ""},
		"the whole cannot be had": {func(w http.ResponseWriter, c call) {
			c.stream(w, taskEvent("WORKING", "", "a", "one two "), deltaEvent("a", "three"), statusEvent("COMPLETED", ""))
		}, func(w http.ResponseWriter, c call) { c.fail(w, internal, "no") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newWire(t, func(w http.ResponseWriter, cl call) {
				switch cl.Method {
				case sends:
					cl.stream(w, begun...)
					breaks()
				case subscribes:
					c.subscribe(w, cl)
				default:
					c.get(w, cl)
				}
			})
			f := newRunner(t, remotetest.Billing(t, p.URL), runner.WithStreaming())
			events, streamed, err := f.Turn("hi")
			require.NoError(t, err)
			require.Equal(t, []string{"one two three"}, remotetest.Texts(events))
			require.Equal(t, "one two three", streamed)
			require.Len(t, p.made(sends), 1)
			require.Equal(t, []string{"working", "completed"}, handles(events))
		})
	}
}

// An answer with a hole is no answer: it could say the opposite.
func TestHoleThatStays(t *testing.T) {
	p := newWire(t, func(w http.ResponseWriter, c call) {
		switch c.Method {
		case sends:
			c.stream(w, taskEvent("SUBMITTED", ""), artifactEvent("a", "Do not ", false))
			breaks()
		case subscribes:
			c.stream(w, deltaEvent("a", "pay."), statusEvent("COMPLETED", ""))
		default:
			c.fail(w, internal, "no")
		}
	})
	events, _, err := newRunner(t, remotetest.Billing(t, p.URL)).Turn("hi")
	requireCode(t, err, a2a.CodeProtocol)
	require.Empty(t, remotetest.Texts(events))
	require.Empty(t, p.made(cancels), "the task has ended")
}

// breakOnce breaks the first subscription after some of it.
func breakOnce(w http.ResponseWriter, c call) {
	if c.number == 1 {
		c.stream(w, taskEvent("WORKING", "", "a", "one two "), deltaEvent("a", "th"))
		breaks()
	}
	c.stream(w, taskEvent("WORKING", "", "a", "one two th"), deltaEvent("a", "ree"), statusEvent("COMPLETED", ""))
}

// A peer that is away for a while finds nobody who sends again when it is back.
func TestPeerIsBack(t *testing.T) {
	away := 3
	p := newWire(t, func(w http.ResponseWriter, c call) {
		switch {
		case c.Method == sends:
			c.stream(w, taskEvent("WORKING", ""))
			breaks()
		case c.Method == subscribes && away > 0:
			away--
			breaks()
		case c.Method == subscribes:
			c.fail(w, taskNotFound, "it does not run any more")
		case c.number == 1:
			c.reply(w, taskJSON("WORKING", ""))
		default:
			c.reply(w, taskJSON("COMPLETED", "", "a", "Here again."))
		}
	})
	events, _, err := newRunner(t, remotetest.Billing(t, p.URL)).Turn("hi")
	require.NoError(t, err)
	require.Equal(t, []string{"Here again."}, remotetest.Texts(events))
	require.Len(t, p.made(sends), 1)
}

// stub is a client that a test writes by hand.
type stub struct {
	a2a.Client
	send      func(*sdk.SendMessageRequest) iter.Seq2[sdk.Event, error]
	subscribe func(ctx context.Context) iter.Seq2[sdk.Event, error]
	get       func(context.Context) (*sdk.Task, error)

	mu       sync.Mutex
	canceled int
}

func (c *stub) SendStreamingMessage(_ context.Context, req *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	return c.send(req)
}
func (c *stub) SubscribeToTask(ctx context.Context, _ *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	return c.subscribe(ctx)
}
func (c *stub) GetTask(ctx context.Context, _ *sdk.GetTaskRequest) (*sdk.Task, error) {
	return c.get(ctx)
}
func (c *stub) CancelTask(context.Context, *sdk.CancelTaskRequest) (*sdk.Task, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.canceled++
	return nil, nil
}

func yields(err error, events ...sdk.Event) iter.Seq2[sdk.Event, error] {
	return must.Seq(events, err)
}

var errBroken = errors.New("the connection broke")

func working() *sdk.Task {
	return &sdk.Task{ID: "t1", ContextID: "c1", Status: sdk.TaskStatus{State: sdk.TaskStateWorking}}
}

// A peer that does not come back is given up after a while, and one that no longer says anything is asked only once more.
// Its task is canceled.
func TestPeerDoesNotComeBack(t *testing.T) {
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	broken := func(context.Context) error { return errBroken }
	for name, c := range map[string]struct {
		subscribe, get func(context.Context) error
		code           a2a.ErrorCode
		asked          int
		atLeast        time.Duration
	}{
		"broken":         {broken, broken, a2a.CodeProtocol, 11, 10 * time.Second},
		"silent":         {broken, silent, a2a.CodeTimeout, 2, 2 * time.Minute},
		"wholly silent":  {silent, silent, a2a.CodeTimeout, 2, 4 * time.Minute},
		"silent streams": {silent, broken, a2a.CodeProtocol, 2, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				stub := &stub{send: func(*sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] { return yields(errBroken, working()) },
					subscribe: func(ctx context.Context) iter.Seq2[sdk.Event, error] { asked++; return yields(c.subscribe(ctx)) },
					get:       func(ctx context.Context) (*sdk.Task, error) { return nil, c.get(ctx) }}
				r := must.Get(a2a.Remote("billing", "", a2a.WithClient(stub), a2a.WithTimeout(0), a2a.WithIdleTimeout(time.Minute)))
				began := time.Now()
				_, _, err := newRunner(t, r).Turn("hi")
				requireCode(t, err, c.code)
				require.Equal(t, c.asked, asked)
				took := time.Since(began)
				require.GreaterOrEqual(t, took, c.atLeast)
				require.Less(t, took, c.atLeast+time.Minute)
				require.Equal(t, 1, stub.canceled)
			})
		})
	}
}

// A peer whose streams end at once without a word is not asked in a loop.
func TestEmptyStreamsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := &stub{send: func(*sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] { return yields(errBroken, working()) },
			subscribe: func(context.Context) iter.Seq2[sdk.Event, error] { asked++; return yields(nil, working()) },
			get:       func(context.Context) (*sdk.Task, error) { return working(), nil }}
		r := must.Get(a2a.Remote("billing", "", a2a.WithClient(c), a2a.WithTimeout(10*time.Minute)))
		_, _, err := newRunner(t, r).Turn("hi")
		requireCode(t, err, a2a.CodeTimeout)
		require.Less(t, asked, 200)
	})
}

// A peer without the operation that gets a task says nothing for several idle limits: its answers to the other requests
// show that it is alive.
func TestSilentStreamsOfAPeerThatAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := &stub{send: func(*sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] { return yields(errBroken, working()) },
			get: func(context.Context) (*sdk.Task, error) { return nil, sdk.ErrUnsupportedOperation },
			subscribe: func(ctx context.Context) iter.Seq2[sdk.Event, error] {
				if asked++; asked < 5 {
					<-ctx.Done()
					return yields(ctx.Err())
				}
				done := working()
				done.Status.State, done.Artifacts = sdk.TaskStateCompleted, []*sdk.Artifact{{ID: "a", Parts: sdk.ContentParts{sdk.NewTextPart("Done.")}}}
				return yields(nil, done)
			}}
		f := newRunner(t, must.Get(a2a.Remote("billing", "", a2a.WithClient(c), a2a.WithTimeout(0), a2a.WithIdleTimeout(time.Minute))))
		require.Equal(t, []string{"Done."}, remotetest.Texts(f.NoError(f.Turn("hi"))))
		require.Zero(t, c.canceled)
	})
}

// A proxy cuts every stream, or the peer says nothing while it works: the task is healthy as long as the peer says so.
func TestStreamsThatEndEarly(t *testing.T) {
	cut := func(first ...sdk.Event) func(context.Context) iter.Seq2[sdk.Event, error] {
		return func(context.Context) iter.Seq2[sdk.Event, error] {
			time.Sleep(time.Minute)
			return yields(errBroken, first...)
		}
	}
	for name, subscribe := range map[string]func(context.Context) iter.Seq2[sdk.Event, error]{
		"after a snapshot": cut(working()), "before it": cut(),
		"silence": func(ctx context.Context) iter.Seq2[sdk.Event, error] {
			return func(yield func(sdk.Event, error) bool) {
				if yield(working(), nil) {
					<-ctx.Done()
					yield(nil, ctx.Err())
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				c := &stub{send: func(*sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] { return yields(errBroken, working()) }, subscribe: subscribe,
					get: func(context.Context) (*sdk.Task, error) {
						now := working()
						if time.Since(began) > time.Hour {
							now.Status.State, now.Artifacts = sdk.TaskStateCompleted, []*sdk.Artifact{{ID: "a", Parts: sdk.ContentParts{sdk.NewTextPart("Done.")}}}
						}
						return now, nil
					}}
				f := newRunner(t, must.Get(a2a.Remote("billing", "", a2a.WithClient(c), a2a.WithTimeout(0))))
				require.Equal(t, []string{"Done."}, remotetest.Texts(f.NoError(f.Turn("hi"))))
				require.Zero(t, c.canceled)
			})
		})
	}
}

// A peer that takes longer than the idle limit to say what became of the task is asked again.
func TestPeerThatFallsSilent(t *testing.T) {
	p := newWire(t, func(w http.ResponseWriter, c call) {
		switch {
		case c.Method == sends:
			c.stream(w, taskEvent("WORKING", ""))
			w.(http.Flusher).Flush()
		case c.Method == gets && c.number > 1:
			c.reply(w, taskJSON("COMPLETED", "", "a", "At last."))
			return
		}
		<-c.ctx.Done()
	})
	f := newRunner(t, remotetest.Billing(t, p.URL, a2a.WithIdleTimeout(200*time.Millisecond)))
	events := f.NoError(f.Turn("hi"))
	require.Equal(t, []string{"At last."}, remotetest.Texts(events))
	require.Empty(t, p.made(cancels))
}

// A peer that gives the next task the id of the last one is not quoted again.
func TestTaskIDIsUsedAgain(t *testing.T) {
	for name, second := range map[string][]string{
		"a snapshot":          {taskEvent("COMPLETED", "", "a", "One.", "b", "Two.")},
		"a snapshot, later":   {statusEvent("WORKING", ""), taskEvent("COMPLETED", "", "a", "One.", "b", "Two.")},
		"only what is new":    {statusEvent("WORKING", ""), deltaEvent("b", "Two."), statusEvent("COMPLETED", "")},
		"as much in one part": {taskEvent("COMPLETED", "", "a", "One.Two.")},
	} {
		t.Run(name, func(t *testing.T) {
			p := newWire(t, func(w http.ResponseWriter, c call) {
				if c.number == 1 {
					c.stream(w, taskEvent("WORKING", ""), deltaEvent("a", "One."), statusEvent("COMPLETED", ""))
					return
				}
				c.stream(w, second...)
			})
			f := newRunner(t, remotetest.Billing(t, p.URL))
			f.NoError(f.Turn("hi"))
			require.Equal(t, []string{"Two."}, remotetest.Texts(f.NoError(f.Turn("again"))))
		})
	}
}

// A crash between the sending and the handle: the message is sent again, with the same
// id, by which a server that has it can know it. Other messages have others.
func TestCrashBeforeTheHandle(t *testing.T) {
	ids := make(map[string]int)
	p := newWire(t, func(w http.ResponseWriter, c call) {
		c.stream(w, taskEvent("WORKING", ""), statusEvent("COMPLETED", "Done."))
	})
	f := newRunner(t, remotetest.Billing(t, p.URL))
	f.NoError(f.Turn("first"))
	for range 2 {
		crashed := again(t, f.crashed(t, event.TypeHarnessStart, 1), remotetest.Billing(t, p.URL))
		events := crashed.NoError(crashed.resume())
		require.Equal(t, []string{"Done."}, remotetest.Texts(events))
	}
	f.NoError(f.Turn("second"))
	for _, c := range p.made(sends) {
		ids[c.Params.Message.ID]++
		require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, c.Params.Message.ID)
	}
	require.Len(t, ids, 2)
	require.Equal(t, 3, ids[p.made(sends)[0].Params.Message.ID])
}

// A message that is turned away after a crash may have been taken before it.
func TestRefusedAfterACrash(t *testing.T) {
	p := newWire(t, func(w http.ResponseWriter, c call) { c.stream(w, messageEvent("Done.")) })
	f := newRunner(t, remotetest.Billing(t, p.URL))
	f.NoError(f.Turn("first"))
	p.set(func(w http.ResponseWriter, c call) { c.fail(w, unsupported, "I know this message") })
	crashed := again(t, f.crashed(t, event.TypeHarnessStart, 1), remotetest.Billing(t, p.URL))
	_, _, err := crashed.resume()
	require.ErrorContains(t, err, "I know this message")
	require.NotErrorIs(t, err, agent.ErrRefused)
}

// A crash behind the handle: the task is taken up where it is, with what it streams
// from then on, and what was said of it in earlier turns is not said again.
func TestCrashBehindTheHandle(t *testing.T) {
	p := newWire(t, func(w http.ResponseWriter, c call) {
		switch {
		case c.Method == sends && c.number == 1:
			c.stream(w, taskEvent("WORKING", ""), deltaEvent("a", "Two charges."), statusEvent("INPUT_REQUIRED", "Which one?"))
		case c.Method == sends:
			c.stream(w, statusEvent("WORKING", ""), deltaEvent("b", "Refunded."), statusEvent("COMPLETED", ""))
		default:
			c.reply(w, taskJSON("INPUT_REQUIRED", "Which one?", "a", "Two charges."))
		}
	})
	f := newRunner(t, remotetest.Billing(t, p.URL))
	f.NoError(f.Turn("refund"))
	f.NoError(f.Turn("the second"))

	store := f.crashed(t, event.TypeRemoteTask, 3) // the second turn's handle
	p.set(func(w http.ResponseWriter, c call) {
		switch c.Method {
		case subscribes:
			c.stream(w, taskEvent("WORKING", "", "a", "Two charges.", "b", "Re"), deltaEvent("b", "funded."), statusEvent("COMPLETED", ""))
		case gets:
			state := "WORKING"
			if p.made(subscribes) != nil {
				state = "COMPLETED"
			}
			c.reply(w, taskJSON(state, "", "a", "Two charges.", "b", "Refunded."))
		}
	})
	before := len(p.made(sends))
	crashed := again(t, store, remotetest.Billing(t, p.URL), runner.WithStreaming())
	events, streamed, err := crashed.resume()
	require.NoError(t, err)
	require.Equal(t, []string{"Refunded."}, remotetest.Texts(events))
	require.Equal(t, "Refunded.", streamed)
	require.Equal(t, []string{"completed"}, handles(events), "the handle is stored already")
	require.Len(t, p.made(sends), before)
}

// A peer that has lost the task since: whether it did what it was asked for is unknown,
// so nothing is sent again. The next message begins anew.
func TestTaskIsLostInACrash(t *testing.T) {
	p := newWire(t, func(w http.ResponseWriter, c call) {
		c.stream(w, taskEvent("WORKING", ""), statusEvent("COMPLETED", "Done."))
	})
	f := newRunner(t, remotetest.Billing(t, p.URL))
	f.NoError(f.Turn("refund"))
	store := f.crashed(t, event.TypeRemoteTask, 1)
	p.set(func(w http.ResponseWriter, c call) {
		if c.Method == sends {
			c.stream(w, messageEvent("Hello again."))
			return
		}
		c.fail(w, taskNotFound, "who?")
	})
	crashed := again(t, store, remotetest.Billing(t, p.URL))
	events, _, err := crashed.resume()
	requireCode(t, err, a2a.CodeTaskGone)
	require.ErrorIs(t, err, sdk.ErrTaskNotFound)
	require.Equal(t, []string{"unknown"}, handles(events))
	require.Equal(t, string(a2a.CodeTaskGone), remotetest.Find[*event.Failure](events)[0].Code)
	require.Len(t, p.made(sends), 1)
	require.Empty(t, p.made(cancels), "there is nothing to cancel")
	events = crashed.NoError(crashed.Turn("hello?"))
	require.Equal(t, []string{"Hello again."}, remotetest.Texts(events))
	require.Equal(t, []string{"refund", "hello?"}, texts(p.made(sends)[1].Params.Message))
}

// The same while its end is waited for.
func TestTaskIsLostMeanwhile(t *testing.T) {
	p := newWire(t, func(w http.ResponseWriter, c call) {
		if c.Method == sends {
			c.stream(w, taskEvent("WORKING", ""))
			breaks()
		}
		c.fail(w, taskNotFound, "who?")
	})
	_, _, err := newRunner(t, remotetest.Billing(t, p.URL)).Turn("refund")
	requireCode(t, err, a2a.CodeTaskGone)
	require.Len(t, p.made(sends), 1)
}

// A canceled turn has canceled its task. Resume begins another one, with a message of
// another id, in the same context.
func TestResumeAfterCancel(t *testing.T) {
	srv := newServer(t, true, func(ctx context.Context, ec *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
		yield(sdk.NewSubmittedTask(ec, ec.Message), nil)
		yield(sdk.NewArtifactEvent(ec, sdk.NewTextPart("thinking")), nil)
		<-ctx.Done()
	})
	f := newRunner(t, remotetest.Billing(t, srv.cardURL()), runner.WithStreaming())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for e, err := range f.Run(ctx, key, llm.UserText("hi")) {
		if err == nil && e.Partial {
			cancel()
		}
	}
	srv.mu.Lock()
	require.Len(t, srv.canceled, 1)
	srv.execute = remotetest.Completes("Here again.")
	srv.mu.Unlock()
	events := f.NoError(f.resume())
	require.Equal(t, []string{"Here again."}, remotetest.Texts(events))
	first, second := srv.messages()[0], srv.messages()[1]
	require.NotEqual(t, first.ID, second.ID)
	require.Equal(t, texts(first), texts(second))
	require.Equal(t, remotetest.Find[*event.RemoteTask](events)[0].ContextID, second.ContextID)
}

// An answer that does not end is cut off when it is larger than it may be, however it is
// cut into responses.
func TestEndlessAnswers(t *testing.T) {
	for name, event := range map[string]func(i int) string{
		"one artifact": func(int) string { return deltaEvent("a", strings.Repeat("x", 1000)) },
		"files": func(int) string {
			return strings.ReplaceAll(deltaEvent("a", ""), `{"text":""}`, `{"url":"https://x.test"}`)
		},
		"many artifacts": func(i int) string { return deltaEvent(fmt.Sprint("a", i), strings.Repeat("x", 1000)) },
		"progress": func(i int) string {
			return strings.ReplaceAll(statusEvent("WORKING", strings.Repeat("x", 1000)), "m-WORKING", fmt.Sprint("m", i))
		},
	} {
		t.Run(name, func(t *testing.T) {
			const most = 100_000
			sent := 0
			p := newWire(t, func(w http.ResponseWriter, c call) {
				switch c.Method {
				case cancels:
					c.reply(w, taskJSON("CANCELED", ""))
				case gets:
					c.reply(w, taskJSON("WORKING", ""))
				default: // each response is small
					var events []string
					if c.Method == sends {
						events = append(events, taskEvent("WORKING", ""))
					}
					for range 20 {
						events = append(events, event(sent))
						sent++
					}
					c.stream(w, events...)
					breaks()
				}
			})
			_, _, err := newRunner(t, remotetest.Billing(t, p.URL, a2a.WithMaxResponse(most)), runner.WithStreaming()).Turn("hi")
			requireCode(t, err, a2a.CodeTooLarge)
			require.Less(t, sent, 200)
			require.Len(t, p.made(cancels), 1)
		})
	}
}
