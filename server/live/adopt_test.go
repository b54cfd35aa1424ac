package live

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/tail"
)

// soon is how long a turn that nobody holds may stand still, if it is looked for each second.
const soon = 2 * time.Second

// notices returns the codes of what the log notes.
func notices(t testing.TB, store session.Store, key session.Key) (codes []string) {
	for e, err := range store.Load(t.Context(), key, 0) {
		require.NoError(t, err)
		if n, ok := e.Data.(*event.Notice); ok {
			codes = append(codes, n.Code)
		}
	}
	return codes
}

func orphans(t testing.TB, store session.Store) []session.Info {
	return must.Get(store.Orphans(t.Context(), session.Page{}))
}

// kill leaves a turn as a process does that is killed while its model thinks.
func kill(t testing.TB, d *desk, a agent.Agent, store session.Store, key session.Key, words string) {
	dying := &crashes{Store: store}
	x, err := newTurns(t, a, dying).Begin(context.Background(), key, llm.UserText(words))
	require.NoError(t, err)
	<-d.thinks
	dying.dead.Store(true)
	d.free <- struct{}{}
	require.ErrorIs(t, x.Wait(context.Background()), errDead)
}

// A turn whose process was killed goes on by itself in one that runs, when its lease has ended, and in one that starts
// then, at once. Nobody follows it.
func TestAdopt(t *testing.T) {
	for _, starts := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d, a := newDesk(t)
			store, h := clocked(t), &heard{}
			if !starts {
				newTurns(t, a, store, WithAdoption(time.Second), WithObserver(h))
			}
			kill(t, d, a, store, key, "think")
			gone := time.Now()
			if starts {
				time.Sleep(session.LeaseTTL)
				gone = time.Now()
				newTurns(t, a, store, WithAdoption(time.Hour), WithObserver(h))
			}
			<-d.thinks
			late := time.Since(gone)
			if starts {
				require.Zero(t, late)
			} else {
				require.LessOrEqual(t, late, session.LeaseTTL+soon)
			}
			d.free <- struct{}{}
			synctest.Wait()
			turns := newTurns(t, a, store)
			require.Equal(t, "thinking done", must.Get(turns.Report(t.Context(), key, "")).Text)
			require.Equal(t, []string{event.NoticeAdopted}, notices(t, store, key))
			require.Empty(t, orphans(t, store))
			require.Equal(t, []string{"adoption done"}, h.ends)
		})
	}
}

// A server that is stopped leaves its turns to others, who need not wait for its lease to end.
func TestAdoptAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		d, a := newDesk(t)
		store := clocked(t)
		newTurns(t, a, store, WithAdoption(time.Second))
		one := newTurns(t, a, store)
		must.Get(one.Begin(ctx, key, llm.UserText("think")))
		<-d.thinks
		gone := time.Now()
		require.NoError(t, one.Close(ctx))
		<-d.thinks
		require.LessOrEqual(t, time.Since(gone), soon)
		d.free <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{event.NoticeGivenBack, event.NoticeAdopted}, notices(t, store, key))
	})
}

// A turn that was stopped or canceled, that waits, or that has ended is not adopted. An orphan of
// these is given back.
func TestNotAdopted(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, d *desk, turns *Turns){
		"stopped": func(t *testing.T, d *desk, turns *Turns) {
			must.Get(turns.Begin(t.Context(), key, llm.UserText("think")))
			<-d.thinks
			require.NoError(t, turns.Stop(t.Context(), key))
		},
		"canceled": func(t *testing.T, d *desk, turns *Turns) {
			must.Get(turns.Begin(t.Context(), key, llm.UserText("think")))
			<-d.thinks
			must.Get(turns.Cancel(t.Context(), key))
		},
		"failed": func(t *testing.T, _ *desk, turns *Turns) {
			require.Error(t, must.Get(turns.Begin(t.Context(), key, llm.UserText("fail"))).Wait(t.Context()))
		},
		"waits": func(t *testing.T, _ *desk, turns *Turns) {
			require.NoError(t, must.Get(turns.Begin(t.Context(), key, llm.UserText("ask"))).Wait(t.Context()))
			abandon(t, turns.Store())
		},
		"over": func(t *testing.T, _ *desk, turns *Turns) {
			require.NoError(t, must.Get(turns.Begin(t.Context(), key, llm.UserText("hello"))).Wait(t.Context()))
			abandon(t, turns.Store())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, a := newDesk(t)
				store := clocked(t)
				one := newTurns(t, a, store)
				end(t, d, one)
				require.NoError(t, one.Close(context.Background()))
				info, _, err := session.Find(t.Context(), store, key)
				require.NoError(t, err)
				h := &heard{}
				newTurns(t, a, store, WithAdoption(time.Second), WithObserver(h))
				time.Sleep(3 * session.LeaseTTL)
				synctest.Wait()
				after, _, err := session.Find(t.Context(), store, key)
				require.NoError(t, err)
				require.Equal(t, info.Seq, after.Seq, "something was done")
				require.Empty(t, orphans(t, store))
				require.Empty(t, h.ends)
			})
		})
	}
}

// abandon makes the session an orphan.
func abandon(t *testing.T, store session.Store) {
	lease := must.Get(sessiontest.Acquire(t.Context(), store, key, session.Self()))
	must.Get(store.Write(t.Context(), key, session.Write{Lease: lease, Abandon: true}))
	require.Len(t, orphans(t, store), 1)
}

// Of many that look at once, one goes on with a turn, and the others have nothing to say about it.
func TestManyTakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDesk(t)
		store := clocked(t)
		kill(t, d, a, store, key, "think")
		time.Sleep(session.LeaseTTL)
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		for range 8 {
			newTurns(t, a, store, WithAdoption(time.Second), WithLogger(logger))
		}
		<-d.thinks
		time.Sleep(2 * session.LeaseTTL)
		d.free <- struct{}{}
		synctest.Wait()
		time.Sleep(2 * session.LeaseTTL)
		require.Empty(t, d.thinks, "two have gone on with it")
		require.Equal(t, []string{event.NoticeAdopted}, notices(t, store, key))
		require.Empty(t, log.String())
	})
}

// However many turns stand still, no more are at work at once than may be, and all come to an end.
func TestAdoptWithinLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDesk(t)
		store := clocked(t)
		const all = 2*orphanPage + 1
		keys := make([]session.Key, all)
		for i := range keys {
			keys[i] = session.Key{App: session.DefaultApp, User: fmt.Sprint("user ", i%4), ID: fmt.Sprint(i)}
			kill(t, d, a, store, keys[i], "think")
		}
		time.Sleep(session.LeaseTTL)
		turns := newTurns(t, a, store, WithAdoption(time.Second), WithLimit(access.NewLimit(3, 7)))
		for n := 0; n < all; {
			synctest.Wait()
			at, by := 0, make(map[string]int)
			turns.mu.Lock()
			for key := range turns.running {
				at++
				by[key.User]++
			}
			turns.mu.Unlock()
			require.LessOrEqual(t, at, 7)
			for user, n := range by {
				require.LessOrEqual(t, n, 3, user)
			}
			for range at {
				<-d.thinks
				d.free <- struct{}{}
				n++
			}
			time.Sleep(soon)
		}
		require.Empty(t, orphans(t, store))
		for _, key := range keys {
			require.Equal(t, []string{event.NoticeAdopted}, notices(t, store, key))
		}
	})
}

// A turn that ends each process that goes on with it is left alone after three, which is said once, whoever looks
// and follows then. To resume it is still possible.
func TestLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDesk(t)
		store := clocked(t)
		kill(t, d, a, store, key, "think")
		for range 3 {
			time.Sleep(session.LeaseTTL)
			dying := &crashes{Store: store}
			newTurns(t, a, dying, WithAdoption(time.Second))
			<-d.thinks
			dying.dead.Store(true)
			d.free <- struct{}{}
			synctest.Wait()
		}
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		turns := newTurns(t, a, store, WithAdoption(time.Second), WithLogger(logger))
		newTurns(t, a, store, WithAdoption(time.Second), WithLogger(logger))
		ctx, leave := context.WithCancel(t.Context())
		var followed shared[string]
		go func() {
			for e, err := range turns.Follow(ctx, key, "") {
				if err == nil {
					followed.add(e.Event.Type())
				}
			}
		}()
		time.Sleep(5 * session.LeaseTTL)
		synctest.Wait()
		leave()
		require.Equal(t, []string{"taken_over", "taken_over", "taken_over", "left"}, notices(t, store, key))
		require.Equal(t, []string{"user", "harness_start", "notice", "notice", "notice", "notice"}, followed.all())
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
		require.Contains(t, log.String(), "position=6")
		require.Empty(t, orphans(t, store))
		stateIs(t, turns, key, CutOff)

		// A client that repeats its request is not left waiting.
		require.NoError(t, turns.ResumeInterrupted(t.Context(), key))
		var err error
		for _, err = range turns.Watch(t.Context(), key, 1, "") {
		}
		require.ErrorIs(t, err, session.ErrStopped)

		x, err := turns.Resume(t.Context(), key)
		require.NoError(t, err)
		d.free <- struct{}{}
		require.NoError(t, x.Wait(t.Context()))
		stateIs(t, turns, key, Done)
	})
}

// above is a tree with an agent below its root.
func above(t testing.TB, a agent.Agent) agent.Agent {
	return must.Get(llmagent.New("root", "", scripted.Always("root", scripted.Reply(scripted.Text("Hello."))), llmagent.WithSubAgents(a)))
}

// Other trees may have the same store: their sessions are not touched, however often they are looked at.
func TestAdoptLeavesOtherTrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDesk(t)
		store := clocked(t)
		other := session.Key{App: "other", User: "ann", ID: "1"}
		part := session.Key{App: "app:desk", User: "ann", ID: "2"}
		gone := session.Key{App: "app:gone", User: "ann", ID: "3"}
		root := above(t, a)
		kill(t, d, a, store, other, "think")
		kill(t, d, a, store, key, "think")
		kill(t, d, root, store, part, "think")
		// A tree with the same app, and without the desk.
		a2 := must.Get(llmagent.New("front", "", scripted.Always("front", scripted.Reply(scripted.Text("Hello.")))))
		lease := must.Get(sessiontest.Acquire(t.Context(), store, gone, session.Self()))
		require.NoError(t, sessiontest.Append(t.Context(), store, gone, 0, lease, &event.Event{ID: "u", Seq: 1, TurnID: "t", RunID: "u", Agent: "user", Time: time.Now(), Data: &event.User{Content: llm.Content{Text: "think"}}}))
		time.Sleep(session.LeaseTTL)
		strangers := newTurns(t, a2, store, WithAdoption(time.Second))
		picky := newTurns(t, a, store, WithAdoption(time.Second), WithAutoResume(func(*event.User) bool { return false }))
		time.Sleep(session.LeaseTTL)
		synctest.Wait()
		require.Len(t, orphans(t, store), 4)
		require.Empty(t, d.thinks)
		require.NoError(t, picky.Close(context.Background()))

		// A tree that has the desk as well comes in place of the one that has not.
		run := must.Get(runner.New(root, strangers.Store()))
		require.NoError(t, strangers.Swap(run, nil))
		for range 2 {
			<-d.thinks
			d.free <- struct{}{}
		}
		time.Sleep(session.LeaseTTL)
		synctest.Wait()
		require.Empty(t, d.thinks)
		require.Len(t, orphans(t, store), 2, "that of the other app, and that of an agent that is not there")
	})
}

// A server that is about to stop takes nothing over any more, and a store that is away is told of once.
func TestAdoptStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDesk(t)
		store := clocked(t)
		away := &looks{Store: store}
		var log bytes.Buffer
		turns := newTurns(t, a, away, WithAdoption(time.Second), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		time.Sleep(20*time.Second + time.Millisecond)
		require.InDelta(t, 21, away.n.Load(), 5)
		away.sick.Store(true)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
		away.sick.Store(false)
		require.NoError(t, turns.Drain(t.Context()))
		time.Sleep(2 * time.Second)
		n := away.n.Load()
		kill(t, d, a, store, key, "think")
		time.Sleep(2 * session.LeaseTTL)
		require.Equal(t, n, away.n.Load())
		require.Len(t, orphans(t, store), 1)
	})
}

// looks counts how often orphans are looked for, and can be away.
type looks struct {
	session.Store
	n    atomic.Int32
	sick atomic.Bool
}

func (l *looks) Orphans(ctx context.Context, page session.Page) ([]session.Info, error) {
	l.n.Add(1)
	if l.sick.Load() {
		return nil, errDead
	}
	return l.Store.Orphans(ctx, page)
}

// engine is a backend of its own kind.
type engine struct {
	run  *runner.Runner
	does *shared[string]
}

func (e *engine) Run(ctx context.Context, key session.Key, msg llm.Message, opts ...runner.TurnOption) iter.Seq2[*event.Event, error] {
	e.does.add("run")
	return e.run.Run(ctx, key, msg, opts...)
}

func (e *engine) Resume(ctx context.Context, key session.Key, decisions ...runner.Decision) iter.Seq2[*event.Event, error] {
	e.does.add("resume")
	return e.run.Resume(ctx, key, decisions...)
}

func (e *engine) Cancel(ctx context.Context, key session.Key, opts ...runner.TurnOption) ([]*event.Event, error) {
	e.does.add("cancel")
	return e.run.Cancel(ctx, key, opts...)
}

// Whatever is done with turns is done by the backend, one for each runner.
func TestBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, a := newDesk(t)
		var does shared[string]
		made := 0
		of := WithBackend(func(r *runner.Runner) Backend {
			made++
			return &engine{r, &does}
		})
		store := clocked(t)
		turns := newTurns(t, above(t, a), store, of)
		x := must.Get(turns.Begin(t.Context(), key, llm.UserText("hello")))
		require.NoError(t, x.Wait(t.Context()))
		must.Get(turns.Cancel(t.Context(), key))
		part := session.Key{App: "app:desk", User: "ann", ID: "2"}
		must.Get(turns.Begin(t.Context(), part, llm.UserText("think")))
		<-d.thinks
		require.NoError(t, turns.Stop(t.Context(), part))
		x = must.Get(turns.Resume(t.Context(), part))
		<-d.thinks
		d.free <- struct{}{}
		require.NoError(t, x.Wait(t.Context()))
		require.Equal(t, []string{"run", "cancel", "run", "resume"}, does.all())
		require.Equal(t, 2, made, "for the tree, and for its part")
		require.NoError(t, turns.Swap(must.Get(runner.New(a, turns.Store())), nil))
		require.Equal(t, 3, made)

		// Who follows a turn that was cut off has the backend go on with it, which is no taker.
		kill(t, d, a, store, key, "think")
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		go func() {
			for range turns.Follow(ctx, key, "") {
			}
		}()
		<-d.thinks
		d.free <- struct{}{}
		synctest.Wait()
		stateIs(t, turns, key, Done)
		require.Equal(t, "resume", does.all()[4])

		followed := must.Get(tail.New(store))
		run := must.Get(runner.New(a, followed))
		_, err := New(run, followed, of, WithAdoption(time.Second))
		require.ErrorContains(t, err, "remove WithAdoption")
		_, err = New(run, followed, WithBackend(func(*runner.Runner) Backend { return nil }))
		require.ErrorContains(t, err, "WithBackend")
		_, err = New(run, followed, WithAdoption(-1))
		require.ErrorContains(t, err, "negative")
	})
}

// shared is a list that goroutines share.
type shared[T any] struct {
	mu   sync.Mutex
	list []T
}

func (s *shared[T]) add(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, v)
}

func (s *shared[T]) all() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}
