package runner_test

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/folder"
	"github.com/agentarbor/arbor/session/redis"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/session/tail"
)

// leases counts what is done with the leases of a store, and what is loaded.
type leases struct {
	session.Store
	acquired, released, abandoned, together, loads int
	begun                                          int   // leases that were taken with events
	fails                                          error // of the next write that stores events and gives the lease back
	refuses                                        error // of the next write that takes a lease with events
}

func (s *leases) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	var fails *error
	switch stores := len(w.Events) > 0; {
	case w.Acquires() && stores:
		fails = &s.refuses
	case w.Acquires():
		s.acquired++
	case w.Release && stores:
		s.together++
		fails = &s.fails
	case w.Release:
		s.released++
	case w.Abandon:
		s.abandoned++
	}
	if fails != nil && *fails != nil {
		err := *fails
		*fails = nil
		return session.Lease{}, err
	}
	lease, err := s.Store.Write(ctx, key, w)
	if fails == &s.refuses && err == nil {
		s.begun++
	}
	return lease, err
}

func (s *leases) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	s.loads++
	return s.Store.Load(ctx, key, after)
}

// TestTheLastWriteGivesTheLeaseBack: a client that sees the end of a turn, even of one that failed, can begin the next one at
// once, and finds the session warm.
func TestTheLastWriteGivesTheLeaseBack(t *testing.T) {
	broken := errors.New("broken")
	for fails, root := range map[error]agent.Agent{
		nil:    says(t, "a", "A."),
		broken: must.Get(llmagent.New("a", "", scripted.Always("a", scripted.Reply(scripted.Fail(broken))))),
	} {
		store := &leases{Store: sessiontest.Memory(t)}
		r := newRunner(t, root, store)
		_, err := collect(r.Run(t.Context(), s1, llm.UserText("One")))
		require.ErrorIs(t, err, fails)
		require.Equal(t, leases{Store: store.Store, acquired: 1, together: 1, loads: store.loads}, *store)
		loads := store.loads
		for e, err := range r.Run(t.Context(), s1, llm.UserText("Two")) {
			if err != nil {
				require.ErrorIs(t, err, fails)
				break
			}
			_, early := collect(r.Run(t.Context(), s1, llm.UserText("Three")))
			switch e.Type() {
			case event.TypeUser, event.TypeHarnessStart:
				require.ErrorIs(t, early, agent.ErrSessionBusy)
			default: // of the last write
				require.ErrorIs(t, early, fails)
			}
		}
		require.Equal(t, loads, store.loads)
		require.Zero(t, store.released)
	}
}

// renewals counts how often leases are renewed.
type renewals struct {
	session.Store
	n atomic.Int64
}

func (s *renewals) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if !w.Acquires() && !w.Ends() && !w.Stores() {
		s.n.Add(1)
	}
	return s.Store.Write(ctx, key, w)
}

// TestALeaseThatIsBackIsNotRenewed, however long the consumer looks at the last events of the turn.
func TestALeaseThatIsBackIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &renewals{Store: sessiontest.Memory(t)}
		r := newRunner(t, says(t, "a", "A."), store)
		for e, err := range r.Run(t.Context(), s1, llm.UserText("Hi")) {
			require.NoError(t, err)
			if e.Type() == event.TypeUser {
				time.Sleep(session.LeaseTTL)
				synctest.Wait()
				require.NotZero(t, store.n.Load())
				continue
			}
			if e.Type() == event.TypeHarnessStart {
				store.n.Store(0)
				continue
			}
			time.Sleep(session.LeaseTTL)
			synctest.Wait()
			require.Zero(t, store.n.Load())
		}
	})
}

// TestTheFirstWriteTakesTheLease: a turn of a session that is known begins with one write, and if the
// session is not as it was known, as if nothing had been tried.
func TestTheFirstWriteTakesTheLease(t *testing.T) {
	shared := sessiontest.Memory(t)
	store := &leases{Store: shared}
	r := newRunner(t, says(t, "a", "A."), store)
	elsewhere := newRunner(t, says(t, "a", "B."), shared)
	say := func(r *runner.Runner, key session.Key, opts ...runner.TurnOption) []*event.Event {
		t.Helper()
		return finish(t, r.Run(t.Context(), key, llm.UserText("Hi"), opts...))
	}
	counts := func(acquired, begun int) {
		t.Helper()
		require.Equal(t, []int{acquired, begun}, []int{store.acquired, store.begun})
	}
	say(r, s1)
	counts(1, 0)
	last := say(r, s1)
	counts(1, 1)
	at := last[len(last)-1].Seq

	require.NotEmpty(t, say(r, s1, runner.At(at), runner.WithTurnID("t3", 1), runner.WithState(map[string]any{"user:tone": "warm"})))
	counts(1, 2)
	require.Empty(t, say(r, s1, runner.WithTurnID("t3", 2)), "it is over")
	counts(2, 2)
	_, err := collect(r.Run(t.Context(), s1, llm.UserText("Hi"), runner.At(at)))
	require.ErrorIs(t, err, agent.ErrConflict)
	require.Equal(t, "t3", load(t, r, s1)[len(load(t, r, s1))-1].TurnID)
	_, err = collect(r.Run(t.Context(), s1, llm.UserText("Hi"), runner.CallHuman("")))
	require.ErrorIs(t, err, agent.ErrBadInput, "there is no desk")
	counts(4, 2)
	require.Equal(t, 0, store.abandoned)

	last = say(elsewhere, s1)
	say(r, s1, runner.At(last[len(last)-1].Seq))
	counts(5, 2)
	say(r, s1)
	counts(5, 3)
	require.NoError(t, shared.Delete(t.Context(), s1))
	for range 6 { // as long as before
		say(elsewhere, s1)
	}
	require.Len(t, say(r, s1), 5)
	counts(6, 3)

	store.refuses = errors.New("the disk is full")
	_, err = collect(r.Run(t.Context(), s1, llm.UserText("Hi")))
	require.EqualError(t, err, "nothing was stored: the disk is full")
	counts(6, 3)
	say(r, s1)
	counts(6, 4)

	lease := must.Get(sessiontest.Acquire(t.Context(), shared, s1, session.Self()))
	_, err = collect(r.Run(t.Context(), s1, llm.UserText("Hi")))
	require.ErrorIs(t, err, agent.ErrSessionBusy)
	require.NoError(t, sessiontest.Release(t.Context(), shared, s1, lease))
	say(r, s1)
	counts(7, 5)

	fork := session.ID("fork")
	require.NoError(t, shared.Fork(t.Context(), s1, 4, fork))
	say(r, fork)
	say(r, fork)
	counts(9, 5)
}

// TestTheLastWriteFails: nothing is stored, and the lease ends by itself, for whoever can store more.
func TestTheLastWriteFails(t *testing.T) {
	store := &leases{Store: sessiontest.Memory(t), fails: errors.New("the disk is full")}
	r := newRunner(t, says(t, "a", "A."), store)
	events, err := collect(r.Run(t.Context(), s1, llm.UserText("One")))
	require.ErrorContains(t, err, "nothing was stored: the disk is full")
	require.Len(t, events, 2)
	require.Zero(t, store.released)
	require.Equal(t, 1, store.abandoned)
	events = finish(t, r.Resume(t.Context(), s1))
	require.Len(t, events, 3)
}

// noted notes the writes to a store, each of which is a transaction.
type noted struct {
	session.Store
	made []string
}

func (n *noted) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	var parts []string
	for _, part := range []struct {
		is   bool
		name string
	}{{w.Acquires(), "acquire"}, {len(w.Events) > 0, "append"}, {w.Release, "release"}, {w.Abandon, "abandon"}} {
		if part.is {
			parts = append(parts, part.name)
		}
	}
	n.made = append(n.made, strings.Join(parts, " and "))
	return n.Store.Write(ctx, key, w)
}

// TestWritesOfATurn: whatever stands between the runner and a store, a turn makes no write more than on the store itself.
func TestWritesOfATurn(t *testing.T) {
	type wrapper func(t *testing.T, store session.Store) session.Store
	live := func(t *testing.T, store session.Store) session.Store {
		return must.Get(tail.New(store))
	}
	files := func(t *testing.T, store session.Store) session.Store {
		return must.Get(folder.New(t.TempDir(), store))
	}
	published := func(t *testing.T, store session.Store) session.Store {
		return must.Get(redis.New(t.Context(), "redis://"+miniredis.RunT(t).Addr(), store))
	}
	for name, wrap := range map[string]wrapper{
		"store":           func(_ *testing.T, store session.Store) session.Store { return store },
		"tail":            live,
		"redis":           published,
		"folder":          files,
		"checked":         func(t *testing.T, store session.Store) session.Store { return sessiontest.Checked(t, store) },
		"tail of folder":  func(t *testing.T, store session.Store) session.Store { return live(t, files(t, store)) },
		"redis of folder": func(t *testing.T, store session.Store) session.Store { return published(t, files(t, store)) },
	} {
		for kind, options := range map[string][]runner.Option{"plain": nil, "transfer": {runner.ResumeRoot()}} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				file := must.Get(sqlite.Open(filepath.Join(t.TempDir(), "sessions.db")))
				disk := &noted{Store: file}
				store := wrap(t, disk)
				t.Cleanup(func() { require.NoError(t, store.Close()) })
				r := must.Get(runner.New(chain(t, 1, "I see two charges."), store, append(options, runner.WithStreaming(), runner.WithSnapshots(0))...))
				turn(t, r, s1)
				require.Equal(t, []string{"acquire", "append", "append", "append and release"}, disk.made)
				want := []string{"acquire and append", "append and release"}
				if kind == "transfer" {
					want = []string{"acquire and append", "append", "append and release"}
				}
				for range 3 {
					disk.made = nil
					turn(t, r, s1)
					require.Equal(t, want, disk.made)
				}
			})
		}
	}
}

// ready can start at once, and says so only when it is asked.
type ready struct{ agent.Agent }

func (ready) Ready(context.Context) error { return nil }

// TestATransferIsPartOfTheAnswer: a transfer that nobody has to be asked about is one write
// with the answer that asks for it; else the answer is stored first.
func TestATransferIsPartOfTheAnswer(t *testing.T) {
	const (
		begun    = "user harness_start"
		handed   = "tool_result transfer harness_end harness_start"
		finished = "text usage harness_end"
	)
	atOnce := []string{begun, "tool_call usage " + handed, finished}
	before := []string{begun, "tool_call usage", handed, finished}
	call := scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`)
	for name, c := range map[string]struct {
		answer []scripted.Item
		target func(agent.Agent) agent.Agent
		agent  []llmagent.Option
		runner []runner.Option
		wrote  []string
	}{
		"a call alone":    {wrote: atOnce},
		"words beside it": {answer: []scripted.Item{scripted.Text("One moment."), call}, wrote: []string{begun, "text tool_call usage " + handed, finished}},
		"an interceptor":  {runner: []runner.Option{runner.WithInterceptors(agent.Passthrough{})}, wrote: before},
		"a guard":         {agent: []llmagent.Option{llmagent.WithGuards(agent.Guard{Name: "none"})}, wrote: before},
		"another's guard": {target: func(agent.Agent) agent.Agent {
			return says(t, "billing", "Hi.", llmagent.WithGuards(agent.Guard{Name: "none"}))
		}, wrote: atOnce},
		"it must be ready": {target: func(a agent.Agent) agent.Agent { return ready{a} }, wrote: before},
		"two calls": {answer: []scripted.Item{call, call},
			wrote: []string{begun, "tool_call tool_call usage", "tool_result tool_result transfer harness_end harness_start", finished}},
		"one call is left": {runner: []runner.Option{runner.WithLimits(runner.Limits{ToolCalls: 1})}, wrote: atOnce},
	} {
		t.Run(name, func(t *testing.T) {
			if c.answer == nil {
				c.answer = []scripted.Item{call}
			}
			var billing agent.Agent = says(t, "billing", "Hi.")
			if c.target != nil {
				billing = c.target(billing)
			}
			s := scripted.New().Add("support", scripted.Reply(c.answer...))
			support := must.Get(llmagent.New("support", "", s.Model("support"), append(c.agent, llmagent.WithSubAgents(billing))...))
			store := &batches{Store: sessiontest.Memory(t)}
			run(t, newRunner(t, support, store, c.runner...), s1, "Go")
			require.Equal(t, c.wrote, store.wrote)
		})
	}
}

// TestATransferBeyondTheLimitOfCalls: a transfer counts as a call of a tool also where it
// would be stored with its answer.
func TestATransferBeyondTheLimitOfCalls(t *testing.T) {
	s := scripted.New().Add("support", handsOver("billing"), handsOver("billing"))
	s.Add("billing", handsOver("support", "Not mine."))
	policy := llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true})
	billing := must.Get(llmagent.New("billing", "", s.Model("billing"), policy))
	support := must.Get(llmagent.New("support", "", s.Model("support"), policy, llmagent.WithSubAgents(billing)))
	r := newRun(t, support, runner.WithLimits(runner.Limits{ToolCalls: 2}))
	events, err := collect(r.Run(t.Context(), s1, llm.UserText("Go")))
	require.ErrorIs(t, err, agent.ErrLimit)
	require.Len(t, find[*event.Transfer](events), 2)
}

// TestWordsBesideATransferAreNoBounce: what is said in the answer that asks for a transfer counts,
// whether the answer is stored by then or not.
func TestWordsBesideATransferAreNoBounce(t *testing.T) {
	answer := scripted.Reply(scripted.Text("Done."))
	for name, c := range map[string]struct {
		back   scripted.Answer
		bounce bool
	}{
		"nothing was said": {handsOver("support"), true},
		"words beside it":  {handsOver("support", "Just a moment."), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted.New().Add("support", handsOver("billing"), handsOver("billing")).Add("billing", c.back)
			s.Add(map[bool]string{true: "support", false: "billing"}[c.bounce], answer)
			policy := llmagent.WithTransferPolicy(agent.TransferPolicy{AllowTransferToParent: true})
			billing := must.Get(llmagent.New("billing", "", s.Model("billing"), policy))
			support := must.Get(llmagent.New("support", "", s.Model("support"), policy, llmagent.WithSubAgents(billing)))
			r := newRun(t, support)
			events := run(t, r, s1, "Go")
			refused := false
			for _, e := range events {
				d, ok := e.Data.(*event.Transfer)
				refused = refused || ok && d.Outcome == event.TransferRejected
			}
			require.Equal(t, c.bounce, refused)
			require.NoError(t, s.Done())
		})
	}
}
