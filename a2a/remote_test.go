package a2a_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
)

// server is a real A2A server on loopback, whose agent does what the test says.
type server struct {
	*httptest.Server
	card *sdk.AgentCard

	mu       sync.Mutex
	execute  func(ctx context.Context, ec *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool)
	got      []*sdk.Message
	canceled []sdk.TaskID
	cards    int
	headers  []http.Header
	cardGate chan struct{}
	wrap     func(http.Handler) http.Handler
}

func (s *server) Execute(ctx context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		s.mu.Lock()
		s.got = append(s.got, ec.Message)
		execute := s.execute
		s.mu.Unlock()
		execute(ctx, ec, yield)
	}
}

func (s *server) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		s.mu.Lock()
		s.canceled = append(s.canceled, ec.TaskID)
		s.mu.Unlock()
		yield(sdk.NewStatusUpdateEvent(ec, sdk.TaskStateCanceled, nil), nil)
	}
}

func (s *server) messages() []*sdk.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got
}

func (s *server) fetches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cards
}

func (s *server) cardURL() string { return s.URL + "/.well-known/agent-card.json" }

func newServer(t *testing.T, streaming bool, execute func(context.Context, *a2asrv.ExecutorContext, func(sdk.Event, error) bool)) *server {
	t.Helper()
	s := &server{execute: execute}
	rpc := a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(s))
	mux := http.NewServeMux()
	mux.HandleFunc("/rpc", func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		s.headers = append(s.headers, req.Header.Clone())
		wrap := s.wrap
		s.mu.Unlock()
		if wrap != nil {
			wrap(rpc).ServeHTTP(w, req)
			return
		}
		rpc.ServeHTTP(w, req)
	})
	mux.HandleFunc("/.well-known/agent-card.json", func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		s.cards++
		s.headers = append(s.headers, req.Header.Clone())
		gate := s.cardGate
		s.mu.Unlock()
		if gate != nil {
			<-gate
		}
		a2asrv.NewStaticAgentCardHandler(s.card).ServeHTTP(w, req)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Server.Close)
	s.card = &sdk.AgentCard{Name: "Billing", Description: "Says what it likes", Version: "1",
		SupportedInterfaces: []*sdk.AgentInterface{sdk.NewAgentInterface(s.URL+"/rpc", sdk.TransportProtocolJSONRPC)},
		Capabilities:        sdk.AgentCapabilities{Streaming: streaming}}
	return s
}

// tree is a support agent that hands over to the remote one when it is asked
// anything.
func tree(t *testing.T, s *scripted.Script, remote agent.Agent) agent.Agent {
	t.Helper()
	return must.Get(llmagent.New("support", "You route.", s.Model("support"), llmagent.WithSubAgents(remote)))
}

func transfer() scripted.Answer {
	return scripted.Reply(scripted.Text("One moment."), scripted.CallID("t1", "transfer_to_agent", `{"agent_name":"billing"}`))
}

type fixture struct{ *remotetest.Client }

func newRunner(t *testing.T, root agent.Agent, opts ...runner.Option) *fixture {
	t.Helper()
	return &fixture{remotetest.NewClient(t, root, opts...)}
}

var key = remotetest.Key

func texts(m *sdk.Message) (texts []string) {
	for _, p := range m.Parts {
		texts = append(texts, p.Text())
	}
	return texts
}

func lastEnd(events []*event.Event) event.FinishReason {
	ends := remotetest.Find[*event.HarnessEnd](events)
	return ends[len(ends)-1].FinishReason
}

// requireCode requires the error of a remote agent with a code, and returns it.
func requireCode(t *testing.T, err error, code a2a.ErrorCode) *a2a.Error {
	t.Helper()
	var e *a2a.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code, "%v", err)
	return e
}

func TestTransferAndFollowUp(t *testing.T) {
	for _, streams := range []bool{true, false} {
		for _, streaming := range []bool{true, false} {
			t.Run(fmt.Sprintf("server streams=%v runner streams=%v", streams, streaming), func(t *testing.T) {
				srv := newServer(t, streams, remotetest.Completes("I see ", "two ", "charges."))
				s := scripted.New().Add("support", transfer())
				var opts []runner.Option
				if streaming {
					opts = append(opts, runner.WithStreaming())
				}
				f := newRunner(t, tree(t, s, remotetest.Billing(t, srv.cardURL())), opts...)
				events, streamed, err := f.Turn("I was charged twice")
				require.NoError(t, err)
				require.Equal(t, []string{"I see two charges."}, remotetest.Texts(events))
				if streaming {
					require.Equal(t, "I see two charges.", streamed)
				} else {
					require.Empty(t, streamed)
				}
				require.Equal(t, event.FinishReasonStop, lastEnd(events))
				require.Equal(t, []string{"I was charged twice", "[support] One moment."}, texts(srv.messages()[0]))
				require.Empty(t, srv.messages()[0].TaskID)
				handles := remotetest.Find[*event.RemoteTask](events)
				last := handles[len(handles)-1]
				require.Equal(t, "completed", last.Status)
				require.Equal(t, srv.URL+"/rpc", last.URL)
				require.NotEmpty(t, last.ContextID)

				srv.mu.Lock()
				srv.execute = remotetest.Completes("Refunded.")
				srv.mu.Unlock()
				events = f.NoError(f.Turn("Refund the second one"))
				require.NoError(t, s.Done(), "the coordinator is not asked again")
				require.Equal(t, []string{"Refunded."}, remotetest.Texts(events))
				second := srv.messages()[1]
				require.Equal(t, []string{"Refund the second one"}, texts(second), "only the new words")
				require.Equal(t, last.ContextID, second.ContextID)
				require.NotEqual(t, last.TaskID, remotetest.Find[*event.RemoteTask](events)[0].TaskID, "a completed task gets no new words")
				require.Equal(t, 1, srv.fetches(), "the card is fetched once")
			})
		}
	}
}

// The handle of a task is stored before its end is waited for.
func TestHandleIsStoredFirst(t *testing.T) {
	release := make(chan struct{})
	srv := newServer(t, true, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
		yield(sdk.NewSubmittedTask(ec, ec.Message), nil)
		<-release
		yield(sdk.NewStatusUpdateEvent(ec, sdk.TaskStateCompleted, sdk.NewMessageForTask(sdk.MessageRoleAgent, ec, sdk.NewTextPart("Done."))), nil)
	})
	f := newRunner(t, remotetest.Billing(t, srv.cardURL()))
	var statuses []string
	for e, err := range f.Run(context.Background(), key, llm.UserText("hi")) {
		require.NoError(t, err)
		if h, ok := e.Data.(*event.RemoteTask); ok {
			if statuses = append(statuses, h.Status); len(statuses) == 1 {
				close(release)
			}
		}
	}
	require.Equal(t, []string{"working", "completed"}, statuses)
}

func TestMessageAnswer(t *testing.T) {
	for _, streams := range []bool{true, false} {
		srv := newServer(t, streams, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
			m := sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart("Just words."))
			m.ContextID = ec.ContextID
			yield(m, nil)
		})
		f := newRunner(t, remotetest.Billing(t, srv.cardURL()), runner.WithStreaming())
		events := f.NoError(f.Turn("hi"))
		require.Equal(t, []string{"Just words."}, remotetest.Texts(events))
		f.NoError(f.Turn("and?"))
		require.Equal(t, []string{"and?"}, texts(srv.messages()[1]))
		require.Equal(t, remotetest.Find[*event.RemoteTask](events)[0].ContextID, srv.messages()[1].ContextID)
		require.NotEmpty(t, srv.messages()[1].ContextID)
	}
}

// An unreachable remote keeps the conversation where it is, and its address is told neither to the model nor to the user.
func TestUnreachable(t *testing.T) {
	srv := newServer(t, true, remotetest.Completes("x"))
	url := strings.Replace(srv.cardURL(), "http://", "http://ann:hunter2@", 1) + "?key=hunter3"
	srv.Close()
	s := scripted.New().Add("support", transfer(), scripted.Reply(scripted.ExpectResult("not ready"), scripted.Text("Billing is closed.")))
	f := newRunner(t, tree(t, s, remotetest.Billing(t, url)))
	events := f.NoError(f.Turn("I was charged twice"))
	require.NoError(t, s.Done())
	transfers := remotetest.Find[*event.Transfer](events)
	require.Len(t, transfers, 1)
	require.Equal(t, event.TransferFailed, transfers[0].Outcome)
	require.Equal(t, "support", must.Get(f.Active(context.Background(), key)))
	for _, r := range remotetest.Find[*event.ToolResult](events) {
		require.Contains(t, string(r.Output), "remote_unreachable")
		require.NotContains(t, string(r.Output), strings.TrimPrefix(srv.URL, "http://"))
		require.NotContains(t, string(r.Output), "hunter")
	}
}

func TestConcurrentFirstUses(t *testing.T) {
	srv := newServer(t, true, remotetest.Completes("Here."))
	gate := make(chan struct{})
	srv.cardGate = gate
	ready := remotetest.Billing(t, srv.cardURL()).(agent.Readier)
	var wg sync.WaitGroup
	errs := make([]error, 20)
	begun := make(chan struct{}, len(errs))
	for i := range errs {
		wg.Go(func() {
			begun <- struct{}{}
			errs[i] = ready.Ready(context.Background())
		})
	}
	for range errs {
		<-begun
	}
	close(gate)
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.Equal(t, 1, srv.fetches())
}

// Whoever leads the fetch may go away; the others still get the card.
func TestLeaderOfFetchIsCanceled(t *testing.T) {
	srv := newServer(t, true, remotetest.Completes("Here."))
	gate := make(chan struct{})
	srv.cardGate = gate
	ready := remotetest.Billing(t, srv.cardURL()).(agent.Readier)
	ctx, cancel := context.WithCancel(context.Background())
	leader, follower := make(chan error, 1), make(chan error, 1)
	go func() { leader <- ready.Ready(ctx) }()
	must.Wait(t, func() bool { return srv.fetches() == 1 })
	go func() { follower <- ready.Ready(context.Background()) }()
	cancel()
	require.ErrorIs(t, <-leader, context.Canceled)
	close(gate)
	require.NoError(t, <-follower)
}

func TestFailingTasks(t *testing.T) {
	for state, code := range map[sdk.TaskState]a2a.ErrorCode{
		sdk.TaskStateFailed: a2a.CodeTaskFailed, sdk.TaskStateRejected: a2a.CodeTaskRejected, sdk.TaskStateCanceled: a2a.CodeTaskCanceled} {
		t.Run(string(state), func(t *testing.T) {
			srv := newServer(t, true, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
				yield(sdk.NewSubmittedTask(ec, ec.Message), nil)
				yield(sdk.NewArtifactEvent(ec, sdk.NewTextPart("half an ans")), nil)
				yield(sdk.NewStatusUpdateEvent(ec, state, sdk.NewMessageForTask(sdk.MessageRoleAgent, ec, sdk.NewTextPart("no funds"))), nil)
			})
			f := newRunner(t, remotetest.Billing(t, srv.cardURL()), runner.WithStreaming())
			events, streamed, err := f.Turn("pay")
			e := requireCode(t, err, code)
			require.Contains(t, e.Error(), "no funds")
			var run *agent.RunError
			require.ErrorAs(t, err, &run)
			require.Equal(t, "half an ans", streamed)
			require.Empty(t, remotetest.Texts(events))
			require.Len(t, remotetest.Find[*event.Discard](events), 1, "what was shown is void")
			require.Equal(t, string(code), remotetest.Find[*event.Failure](events)[0].Code)
			require.Equal(t, event.FinishReasonError, lastEnd(events))

			srv.mu.Lock()
			srv.execute = remotetest.Completes("Paid.")
			srv.mu.Unlock()
			events = f.NoError(f.Turn("again"))
			require.Equal(t, []string{"Paid."}, remotetest.Texts(events))
			require.Empty(t, srv.messages()[1].TaskID, "a new task")
			require.NotEmpty(t, srv.messages()[1].ContextID, "in the same context")
		})
	}
}

// A question is a normal answer; the user's next words go to the same task, and
// what the task held before is no part of the answer to them.
func TestInputRequired(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprint("streams=", streams), func(t *testing.T) {
			srv := newServer(t, streams, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
				if ec.StoredTask == nil {
					yield(sdk.NewSubmittedTask(ec, ec.Message), nil)
					yield(sdk.NewArtifactEvent(ec, sdk.NewTextPart("Two charges found.")), nil)
					yield(sdk.NewStatusUpdateEvent(ec, sdk.TaskStateInputRequired, sdk.NewMessageForTask(sdk.MessageRoleAgent, ec, sdk.NewTextPart("Which one?"))), nil)
					return
				}
				yield(sdk.NewArtifactEvent(ec, sdk.NewTextPart("Refunded.")), nil)
				yield(sdk.NewStatusUpdateEvent(ec, sdk.TaskStateCompleted, nil), nil)
			})
			f := newRunner(t, remotetest.Billing(t, srv.cardURL()), runner.WithStreaming())
			events := f.NoError(f.Turn("refund"))
			require.Equal(t, []string{"Two charges found.\n\nWhich one?"}, remotetest.Texts(events))
			require.Equal(t, event.FinishReasonStop, lastEnd(events))
			handles := remotetest.Find[*event.RemoteTask](events)
			require.Equal(t, "input_required", handles[len(handles)-1].Status)

			events, streamed, err := f.Turn("the second")
			require.NoError(t, err)
			require.Equal(t, []string{"Refunded."}, remotetest.Texts(events))
			require.Equal(t, "Refunded.", streamed)
			require.Equal(t, handles[0].TaskID, string(srv.messages()[1].TaskID))
			require.Equal(t, []string{"the second"}, texts(srv.messages()[1]))

			f.NoError(f.Turn("thanks"))
			require.NotEqual(t, handles[0].TaskID, string(srv.messages()[2].TaskID), "the task is over now")
			require.Equal(t, handles[0].ContextID, srv.messages()[2].ContextID)
		})
	}
}

// Canceling the turn, or breaking out of it, cancels the task at the peer.
func TestCancel(t *testing.T) {
	for _, breaks := range []bool{false, true} {
		t.Run(fmt.Sprint("break=", breaks), func(t *testing.T) {
			srv := newServer(t, true, func(ctx context.Context, ec *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
				yield(sdk.NewSubmittedTask(ec, ec.Message), nil)
				yield(sdk.NewArtifactEvent(ec, sdk.NewTextPart("thinking")), nil)
				<-ctx.Done()
			})
			f := newRunner(t, remotetest.Billing(t, srv.cardURL()), runner.WithStreaming())
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var last error
			for e, err := range f.Run(ctx, key, llm.UserText("hi")) {
				last = err
				if err == nil && e.Partial {
					if breaks {
						break
					}
					cancel()
				}
			}
			if !breaks {
				require.ErrorIs(t, last, context.Canceled)
			}
			srv.mu.Lock()
			require.Len(t, srv.canceled, 1)
			srv.execute = remotetest.Completes("Here again.")
			srv.mu.Unlock()
			events := f.NoError(f.Turn("are you there?"))
			require.Equal(t, []string{"Here again."}, remotetest.Texts(events))
			require.Equal(t, []string{"hi", "are you there?"}, texts(srv.messages()[1]), "it never answered the first words")
		})
	}
}

func TestConstruction(t *testing.T) {
	r := remotetest.Billing(t, "https://example.com", a2a.WithDescription("Refunds"))
	require.Equal(t, "billing", r.Name())
	require.Equal(t, "Refunds", r.Description())
	require.Equal(t, "billing", remotetest.Billing(t, "https://example.com").Description())
	require.Empty(t, r.SubAgents())
	require.Equal(t, r, r.FindAgent("billing"))
	require.Nil(t, r.FindAgent("other"))
	for _, url := range []string{"", "example.com", "ftp://example.com", "https://", "http://user:hunter2@exa mple.com"} {
		_, err := a2a.Remote("billing", url)
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := a2a.Remote("not a name", "https://example.com", a2a.WithTimeout(-1))
	require.ErrorContains(t, err, "not a name")
	require.ErrorContains(t, err, "out of range")
	_, err = a2a.Remote("billing", "https://example.com", a2a.WithTrustedOrigin("example.com"))
	require.ErrorContains(t, err, "trusted origin")
}

// pipe is a peer in memory, so that a bubble of synctest sees every goroutine.
type pipe func(*http.Request) (*http.Response, error)

func (p pipe) RoundTrip(req *http.Request) (*http.Response, error) { return p(req) }

// No goroutine outlives a turn: the bubble would not end.
func TestNoGoroutineStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := pipe(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		r := must.Get(a2a.Remote("billing", "http://peer.test", a2a.WithHTTPClient(&http.Client{Transport: hang})))
		f := newRunner(t, r)
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			synctest.Wait()
			cancel()
		}()
		for _, err := range f.Run(ctx, key, llm.UserText("hi")) {
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
		}
		_, _, err := f.Turn("again") // the time limit of the card ends this one
		requireCode(t, err, a2a.CodeTimeout)
	})
}
