package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/tail"
	"github.com/agentarbor/arbor/tools"
)

// kept is a listener that outlives the servers at it, so that nobody else takes the address.
type kept struct{ *net.TCPListener }

func (k kept) Accept() (net.Conn, error) {
	c, err := k.TCPListener.Accept()
	if err != nil {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (k kept) Close() error { return k.SetDeadline(time.Now()) }

// host is a real server, which can be restarted at the same address.
type host struct {
	t     *testing.T
	at    *net.TCPListener
	store session.Store
	model llm.Model
	turns *live.Turns
	web   *httptest.Server
}

func newHost(t *testing.T, model llm.Model) (*host, *Client) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	h := &host{t: t, at: l.(*net.TCPListener), store: sessiontest.Memory(t), model: model}
	h.start()
	t.Cleanup(func() {
		h.stop()
		require.NoError(t, l.Close())
	})
	c := must.Get(New(h.web.URL, WithToken(secret)))
	must.Get(c.Me(t.Context()))
	return h, c
}

func (h *host) start() {
	refund := must.Get(tools.Func("refund", "Refunds.", func(tools.Context, struct{}) (string, error) { return "done", nil }, tools.NeedsApproval(tools.ByUser())))
	root := must.Get(llmagent.New("desk", "You obey.", h.model, llmagent.WithTools(refund)))
	store := must.Get(tail.New(h.store))
	run := must.Get(runner.New(root, store, runner.WithStreaming()))
	h.turns = must.Get(live.New(run, store))
	users := must.Get(access.Secrets(map[string]string{secret: session.DefaultUser}))
	bearer := must.Get(access.Bearer(users))
	guard := must.Get(access.New(access.Options{Users: bearer}))
	api := must.Get(server.New(h.turns, server.WithGuard(guard)))
	h.web = httptest.NewUnstartedServer(server.Mux(api))
	require.NoError(h.t, h.web.Listener.Close())
	require.NoError(h.t, h.at.SetDeadline(time.Time{}))
	h.web.Listener = kept{h.at}
	h.web.Start()
}

// stop ends the server as a deploy does.
func (h *host) stop() {
	require.NoError(h.t, h.turns.Close(context.Background()))
	h.web.CloseClientConnections()
	h.web.Close()
}

// screen is what a person sees of a stream, who must be told everything, in order and once.
type screen struct {
	t     *testing.T
	seq   int64
	open  map[string]string // words that are not complete yet
	whole []string
	voids int
}

func (s *screen) take(e session.Entry) {
	p := must.Get(session.ParsePosition(e.ID))
	switch d := e.Event.Data.(type) {
	case *event.Discard:
		for _, id := range d.IDs {
			require.Contains(s.t, s.open, id)
			delete(s.open, id)
			s.voids++
		}
	case *event.Text:
		if e.Event.Partial {
			s.open[e.Event.ID] += d.Content
			break
		}
		shown, ok := s.open[e.Event.ID]
		require.Equal(s.t, ok, e.Event.Streamed)
		if ok {
			require.Equal(s.t, d.Content, shown)
		}
		delete(s.open, e.Event.ID)
		s.whole = append(s.whole, d.Content)
	}
	if !e.Event.Partial {
		require.Equal(s.t, s.seq+1, e.Event.Seq)
		require.Equal(s.t, session.Position{Seq: e.Event.Seq}, p)
		s.seq = e.Event.Seq
	}
}

// Connections break, and servers are restarted, in the middle of words: who watches is told
// everything, and nothing twice.
func TestNothingIsLostOrTwice(t *testing.T) {
	t.Parallel()
	var breaks, voids atomic.Int64
	t.Cleanup(func() {
		require.NotZero(t, breaks.Load())
		// Whether a server is away in the middle of words that were shown is a matter of moments.
		t.Logf("%d connections broke, and words were taken back %d times", breaks.Load(), voids.Load())
	})
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			watchBreaks(t, rand.New(rand.NewPCG(seed, 18)), &breaks, &voids)
		})
	}
}

func watchBreaks(t *testing.T, r *rand.Rand, breaks, voids *atomic.Int64) {
	var h *host
	answer := strings.Split("One moment, please: I look into what was charged to the card that ends in 42, and why.", " ")
	done := make(chan struct{})
	restarts := 2
	model := scripted.Func("model", func(*llm.Request) scripted.Answer {
		var items []scripted.Item
		for i, word := range answer {
			if i > 0 {
				word = " " + word
			}
			items = append(items, scripted.Text(word), scripted.Wait(func(ctx context.Context) error {
				switch n := r.IntN(16); {
				case n < 3:
					breaks.Add(1)
					h.web.CloseClientConnections()
				case n == 3 && restarts > 0:
					restarts--
					go func() {
						h.stop()
						h.start()
						done <- struct{}{}
					}()
					<-ctx.Done() // the turn is cut off
					return ctx.Err()
				}
				return nil
			}))
		}
		return scripted.Reply(items...)
	})
	h, c := newHost(t, model)
	go func() {
		for range done {
		}
	}()
	s := &screen{t: t, open: make(map[string]string)}
	for range 4 {
		turn := must.Get(c.Begin(t.Context(), "s", Message{Content: llm.Content{Text: "hi"}}))
		for e, err := range c.Watch(t.Context(), "s", turn.ID, fmt.Sprint(s.seq)) {
			require.NoError(t, err)
			s.take(e)
		}
		require.Empty(t, s.open)
		turn = must.Get(c.Turn(t.Context(), "s", turn.ID))
		require.Equal(t, "done", turn.State)
		require.Equal(t, s.seq, turn.Seq)
		require.Equal(t, strings.Join(answer, " "), turn.Text)
	}
	require.Equal(t, slices.Repeat([]string{strings.Join(answer, " ")}, 4), s.whole)
	voids.Add(int64(s.voids))
}

// All that can be done with a turn and a session.
func TestTurns(t *testing.T) {
	t.Parallel()
	thinks := make(chan struct{}, 10)
	model := scripted.Func("model", func(req *llm.Request) scripted.Answer {
		switch last := req.Messages[len(req.Messages)-1]; {
		case last.Role == llm.RoleTool:
			return scripted.Reply(scripted.Text("Refunded."))
		case last.Text == "refund":
			return scripted.Reply(scripted.Call("refund", `{}`))
		case last.Text == "think":
			return scripted.Reply(scripted.Text("Hm"), scripted.Wait(func(ctx context.Context) error {
				thinks <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}))
		case last.Text == "fail":
			return scripted.Reply(scripted.Status(400, 0))
		}
		return scripted.Reply(scripted.Text("Hello."))
	})
	ctx := t.Context()
	_, c := newHost(t, model)
	says := func(text string) Message { return Message{Content: llm.Content{Text: text}} }
	rests := func(turn *Turn) *Turn {
		t.Helper()
		return must.Get(c.Wait(ctx, turn.Session, turn.ID))
	}
	hello := must.Get(c.Begin(ctx, "", says("hello")))
	hello = rests(hello)
	require.Equal(t, "Hello.", hello.Text)
	require.NoError(t, hello.Err())
	id := hello.Session

	again := says("refund")
	again.Request, again.At = "once", &hello.Seq
	asked := must.Get(c.Begin(ctx, id, again))
	asked = rests(asked)
	require.Equal(t, "waiting", asked.State)
	require.Equal(t, "refund", asked.Pending[0].Tool)
	same := must.Get(c.Begin(ctx, id, again))
	require.Equal(t, asked.ID, same.ID, "it was sent twice, and is done once")
	again.Content.Text = "something else"
	require.ErrorIs(t, must.Err(c.Begin(ctx, id, again)), agent.ErrBadInput)
	again.Request = ""
	_, err := c.Begin(ctx, id, again)
	require.ErrorIs(t, err, agent.ErrConflict)
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, asked.Seq, refused.Seq)

	s := must.Get(c.Session(ctx, id))
	require.Equal(t, []string{"waiting", asked.ID, "desk", "hello"}, []string{s.State, s.Turn, s.Active, s.Title})
	_, err = c.Decide(ctx, id, hello.ID, Decision{CallID: asked.Pending[0].CallID, Approved: true})
	require.ErrorIs(t, err, agent.ErrConflict, "the turn is not the last one")
	_, err = c.Decide(ctx, id, asked.ID, Decision{CallID: "nobody", Approved: true})
	require.ErrorIs(t, err, agent.ErrBadInput)
	decided := must.Get(c.Decide(ctx, id, asked.ID, Decision{CallID: asked.Pending[0].CallID, Approved: true}))
	require.Equal(t, "Refunded.", rests(decided).Text)

	thinking := must.Get(c.Begin(ctx, id, says("think")))
	<-thinks
	require.ErrorIs(t, must.Err(c.Begin(ctx, id, says("hello"))), agent.ErrSessionBusy)
	stopped := must.Get(c.Stop(ctx, id, thinking.ID))
	require.Equal(t, "cut_off", stopped.State)
	must.Get(c.Resume(ctx, id, thinking.ID))
	<-thinks
	canceled := must.Get(c.Cancel(ctx, id, thinking.ID))
	require.Equal(t, "canceled", canceled.State)
	failed := must.Get(c.Begin(ctx, "b", says("fail")))
	var why *TurnError
	require.ErrorAs(t, rests(failed).Err(), &why)
	require.NotEmpty(t, why.Code)

	var seqs []int64
	for e, err := range c.Events(ctx, id, 3) {
		require.NoError(t, err)
		seqs = append(seqs, e.Seq)
	}
	require.Equal(t, int64(4), seqs[0])
	require.Equal(t, canceled.Seq, seqs[len(seqs)-1])
	page, next, err := c.Sessions(ctx, "")
	require.NoError(t, err)
	require.Equal(t, []string{"b", id, ""}, []string{page[0].ID, page[1].ID, next})
	require.ErrorIs(t, must.Err(c.Session(ctx, "nobody's")), agent.ErrBadInput)
	_, err = c.Session(ctx, "..")
	require.EqualError(t, err, "there is no session with this id", "the server, and not another path of it")
	require.ErrorIs(t, must.Err(c.Of("ann").Session(ctx, id)), agent.ErrBadInput)
	require.ErrorIs(t, must.Err(c.File(ctx, id, "none")), agent.ErrBadInput)
}
