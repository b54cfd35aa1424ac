package live

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

func TestBeginOnce(t *testing.T) {
	_, a := newDesk(t)
	turns := newTurns(t, a, sessiontest.Memory(t))
	ctx, key := t.Context(), session.ID("s")
	first, err := turns.BeginOnce(ctx, key, llm.UserText("hello"), Request{ID: "r1"})
	require.NoError(t, err)
	require.False(t, first.Repeated)
	require.NoError(t, first.Wait(ctx))

	again, err := turns.BeginOnce(ctx, key, llm.UserText("hello"), Request{ID: "r1"})
	require.NoError(t, err)
	require.Equal(t, Begun{ID: first.ID, First: first.First, From: first.First - 1, Repeated: true}, *again)

	_, err = turns.BeginOnce(ctx, key, llm.UserText("other words"), Request{ID: "r1"})
	require.ErrorIs(t, err, ErrMismatch)

	report, err := turns.Report(ctx, key, "")
	require.NoError(t, err)
	require.Equal(t, Done, report.State)
	require.Equal(t, first.ID, report.ID)
	var seen Report
	for entry, err := range turns.Watch(ctx, key, first.First, "") {
		require.NoError(t, err)
		seen.Apply(entry.Event)
	}
	require.Equal(t, report, &seen)
	for range turns.Watch(ctx, key, first.First, session.Position{Seq: report.Seq}.String()) {
		t.Fatal("all was seen")
	}
	_, err = turns.Report(ctx, key, "nobody's")
	require.ErrorIs(t, err, ErrNoTurn)
}

// Requests are remembered, so that the log is not read for each; what other processes have begun
// is known all the same, and so is all if nothing is remembered.
func TestRequestsAreRemembered(t *testing.T) {
	ctx, key := t.Context(), session.ID("s")
	_, a := newDesk(t)
	store := &readCount{Store: sessiontest.Memory(t)}
	one, two := newTurns(t, a, store), newTurns(t, a, store)
	begin := func(turns *Turns, i int) *Begun {
		b, err := turns.BeginOnce(ctx, key, llm.UserText("hello"), Request{ID: fmt.Sprint("r", i)})
		require.NoError(t, err)
		if !b.Repeated {
			require.NoError(t, b.Wait(ctx))
		}
		return b
	}
	const all = 3 * lookBack
	var begun []*Begun
	for i := range all {
		begun = append(begun, begin([]*Turns{one, two}[i%2], i))
		require.False(t, begun[i].Repeated)
	}
	for _, turns := range []*Turns{one, two, newTurns(t, a, store)} {
		for i := all - lookBack; i < all; i++ {
			b := begin(turns, i)
			require.Equal(t, Begun{ID: begun[i].ID, First: begun[i].First, From: begun[i].First - 1, Repeated: true}, *b)
		}
		store.events.Store(0)
		require.True(t, begin(turns, all-1).Repeated)
		require.LessOrEqual(t, store.events.Load(), int64(1), "but for the last event, which a glance looks at")
	}
	require.False(t, begin(one, 0).Repeated, "it was too long ago")
	require.True(t, begin(two, 0).Repeated)

	require.NoError(t, store.Delete(ctx, key))
	require.False(t, begin(two, 0).Repeated, "it is another session")
	for i := range maxCached + 10 {
		_, err := one.requestCache.requests(ctx, session.ID(fmt.Sprint(i)), session.Info{})
		require.NoError(t, err)
	}
	require.Len(t, one.requestCache.asked, maxCached)
}

// Of processes and clients that send one request at once, one begins the turn.
// TestRequestsOfADatabaseThatGoesBack: a request that the database has lost is no repetition when the client sends it again.
func TestRequestsOfADatabaseThatGoesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	store := must.Get(sqlite.Open(path))
	_, a := newDesk(t)
	turns := newTurns(t, a, store)
	begin := func(id string) *Begun {
		t.Helper()
		b, err := turns.BeginOnce(t.Context(), session.ID("s"), llm.UserText("hello"), Request{ID: id})
		require.NoError(t, err)
		if !b.Repeated {
			require.NoError(t, b.Wait(t.Context()))
		}
		return b
	}
	begin("kept")
	restore := servers.SaveFile(t, path)
	lost := begin("lost")
	restore()
	require.False(t, begin("lost").Repeated)
	require.True(t, begin("kept").Repeated)
	restore()
	again := begin("other") // where the lost one was
	require.Equal(t, lost.First, again.First)
	require.False(t, begin("lost").Repeated)
	require.True(t, begin("other").Repeated)
}

func TestBeginOnceAtOnce(t *testing.T) {
	ctx, key := t.Context(), session.ID("s")
	_, a := newDesk(t)
	store := sessiontest.Memory(t)
	processes := []*Turns{newTurns(t, a, store), newTurns(t, a, store)}
	for round := range 20 {
		var all sync.WaitGroup
		begun, ids := make([]*Begun, 6), map[string]bool{}
		for i := range begun {
			all.Go(func() {
				b, err := processes[i%2].BeginOnce(ctx, key, llm.UserText("hello"), Request{ID: fmt.Sprint("r", round), Wait: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				begun[i] = b
				if !b.Repeated {
					_ = b.Wait(ctx)
				}
			})
		}
		all.Wait()
		first := 0
		for _, b := range begun {
			require.NotNil(t, b)
			if ids[b.ID] = true; !b.Repeated {
				first++
			}
		}
		require.Equal(t, 1, first)
		require.Len(t, ids, 1)
	}
	moved := int64(3)
	_, err := processes[0].BeginOnce(ctx, key, llm.UserText("hello"), Request{At: &moved})
	require.ErrorIs(t, err, agent.ErrConflict)
	b, err := processes[0].BeginOnce(ctx, key, llm.UserText("hello"), Request{ID: "r0", At: &moved})
	require.NoError(t, err, "it was begun where it was to")
	require.True(t, b.Repeated)
	require.True(t, Reserved(requestKey))
	require.False(t, Reserved("arbor"))
}

// heard is what an observer was told.
type heard struct {
	access.Observer
	mu      sync.Mutex
	running int
	ends    []string
}

func (h *heard) Running(_ context.Context, _ string, more int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running += more
}

func (h *heard) Turn(_ context.Context, door, outcome string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends = append(h.ends, door+" "+outcome)
}

func TestObserver(t *testing.T) {
	d, a := newDesk(t)
	h := &heard{}
	turns := newTurns(t, a, sessiontest.Memory(t), WithObserver(h))
	ctx, key := access.WithAPI(t.Context(), "api"), session.ID("s")
	for _, words := range []string{"hello", "ask", "fail"} {
		x := must.Get(turns.Begin(ctx, key, llm.UserText(words)))
		_ = x.Wait(ctx)
	}
	must.Get(turns.Begin(ctx, key, llm.UserText("think")))
	<-d.thinks
	require.Equal(t, 1, h.running)
	require.NoError(t, turns.Stop(ctx, key))
	_, err := turns.Resume(ctx, key)
	require.NoError(t, err)
	<-d.thinks
	_, err = turns.Cancel(ctx, key)
	require.NoError(t, err)
	require.Zero(t, h.running)
	require.Equal(t, []string{"api done", "api waiting", "api failed", "api cut_off", "api canceled"}, h.ends)
}

// Decisions of a request are stored once, and a report of the turn knows it.
func TestDecideOnce(t *testing.T) {
	_, a := newDesk(t)
	turns := newTurns(t, a, sessiontest.Memory(t))
	ctx, key := t.Context(), session.ID("s")
	x := must.Get(turns.Begin(ctx, key, llm.UserText("ask")))
	require.NoError(t, x.Wait(ctx))
	r, err := turns.Report(ctx, key, "")
	require.NoError(t, err)
	require.False(t, r.Decided("r1"))
	call := r.Pending[0].ToolCallID
	_, err = turns.DecideOnce(ctx, key, r.ID, Request{ID: "r1"}, runner.Approve("another"))
	require.ErrorIs(t, err, runner.ErrNoApproval)

	b, err := turns.DecideOnce(ctx, key, r.ID, Request{ID: "r1"}, runner.Approve(call))
	require.NoError(t, err)
	require.Equal(t, r.Seq, b.From)
	require.NoError(t, b.Wait(ctx))
	again, err := turns.DecideOnce(ctx, key, r.ID, Request{ID: "r1"}, runner.Approve(call))
	require.NoError(t, err)
	require.Equal(t, Begun{ID: r.ID, First: r.First, From: r.Seq, Repeated: true}, *again)
	_, err = turns.DecideOnce(ctx, key, r.ID, Request{ID: "r1"}, runner.Deny(call, ""))
	require.ErrorIs(t, err, ErrMismatch)
	r, err = turns.Report(ctx, key, "")
	require.NoError(t, err)
	require.True(t, r.Decided("r1"))
	require.False(t, r.Decided("r2"))

	x = must.Get(turns.Begin(ctx, key, llm.UserText("hello")))
	require.NoError(t, x.Wait(ctx))
	_, err = turns.DecideOnce(ctx, key, r.ID, Request{}, runner.Approve(call))
	require.ErrorIs(t, err, runner.ErrTurnOver)
}

// TestCheckNamed: only an approval that may be about an earlier permission is refused. What an approved call asks while it
// runs is not permitted, but answered.
func TestCheckNamed(t *testing.T) {
	asked := func(kinds ...string) *session.Reader {
		log := &session.Reader{}
		for i, kind := range kinds {
			log.Asked = append(log.Asked, &event.Event{Data: &event.Relay{ToolCallID: "c", Kind: kind, Digest: fmt.Sprint(i)}})
		}
		return log
	}
	const may, input = event.RelayPermission, event.RelayInput
	for _, log := range []*session.Reader{asked(), asked(may), asked(input, input), asked(may, input), asked(may, may, input)} {
		require.NoError(t, CheckNamed(log, runner.Approve("c")))
	}
	err := CheckNamed(asked(may, input, may), runner.Approve("c"))
	require.ErrorIs(t, err, runner.ErrNoApproval)
	require.EqualError(t, err, `call "c" asks again, because its tool or its arguments have changed: approve its last question by that one's digest or id; `+
		`an approval without them is about an earlier question: no such question is open`)
	for _, d := range []runner.Decision{runner.Approve("d"), runner.Deny("c", ""), runner.Answer("c", 1), {CallID: "c", Approved: true, Digest: "2"}, {CallID: "c", Approved: true, RelayID: "x"}} {
		require.NoError(t, CheckNamed(asked(may, may), d))
	}
}
