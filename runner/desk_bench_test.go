package runner_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/redis"
	"github.com/agentarbor/arbor/session/sqlite"
)

// ruled is the tree of chain with one level, in which a rule decides and no model.
func ruled(t testing.TB) agent.Agent {
	t.Helper()
	a := must.Get(llmagent.New("a1", "You are a1.", scripted.Always("a1", scripted.Reply(scripted.Text("I see two charges.")))))
	billing := router.Specialist(a)
	return must.Get(router.New("a0", router.Rules(router.When(router.Keyword("charged")).To(billing)), router.Default(billing)))
}

// BenchmarkRoutedTurn measures one turn of a new session in which a specialist answers, chosen
// by a rule and chosen by a model that answers at once.
func BenchmarkRoutedTurn(b *testing.B) {
	for name, root := range map[string]agent.Agent{"rule": ruled(b), "model": chain(b, 1, "I see two charges.")} {
		b.Run(name, func(b *testing.B) {
			store := session.NewMemory()
			r := newRunner(b, root, store, runner.WithCache(1))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				turn(b, r, session.ID(fmt.Sprint("s", i)))
				if i++; i%100 == 0 {
					b.StopTimer()
					r = newRunner(b, root, session.NewMemory(), runner.WithCache(1))
					b.StartTimer()
				}
			}
		})
	}
}

// seated opens so many handoffs at a desk, one a session, and returns their legs.
func seated(t testing.TB, legs int) (*runner.Runner, *human.Room, []human.Leg) {
	t.Helper()
	room := must.Get(human.NewRoom(human.WithMaxLegs(legs)))
	r := newRunner(t, ruled(t), session.NewMemory(), runner.WithDesk(room))
	room.Serve(r.Deliver)
	for i := range legs {
		must.All(r.Run(context.Background(), session.ID(fmt.Sprint("s", i)), llm.UserText("A person"), runner.CallHuman("")))
	}
	var open []human.Leg
	for _, w := range room.Legs() {
		require.NoError(t, room.Accept(context.Background(), w.Leg, "Ann"))
		open = append(open, w.Leg)
	}
	return r, room, open
}

// BenchmarkDesk measures a word of a person to the user and one of the user to the person, with
// few and with many handoffs open.
func BenchmarkDesk(b *testing.B) {
	for _, legs := range []int{10, 1000} {
		b.Run(fmt.Sprintf("legs=%d", legs), func(b *testing.B) {
			r, room, open := seated(b, legs)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				leg := open[i%legs]
				i++
				if err := room.Say(context.Background(), leg, "One moment."); err != nil {
					b.Fatal(err)
				}
				turn(b, r, leg.Session)
			}
		})
	}
}

// TestAllocationBudgetOfADesk: a word and its answer cost the same with 10 and with 1,000 handoffs open.
func TestAllocationBudgetOfADesk(t *testing.T) {
	cost := func(legs int) float64 {
		r, room, open := seated(t, legs)
		i := 0
		return race.Allocations(t, 100, func() {
			leg := open[i%10]
			i++
			if err := room.Say(context.Background(), leg, "One moment."); err != nil {
				t.Fatal(err)
			}
			turn(t, r, leg.Session)
		})
	}
	few, many := cost(10), cost(1000)
	t.Logf("%.0f allocations with 10 handoffs open, %.0f with 1,000", few, many)
	require.LessOrEqual(t, many, few+5)
	require.LessOrEqual(t, many, 175.0)
}

// timedStore times appends. It is a tail, too, if the store in it is.
type timedStore struct {
	session.Store
	mu   sync.Mutex
	took times
}

func (s *timedStore) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) == 0 {
		return s.Store.Write(ctx, key, w)
	}
	start := time.Now()
	lease, err := s.Store.Write(ctx, key, w)
	took := time.Since(start)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, took)
	return lease, err
}

// benchmarkStores opens the stores that are compared, those whose servers can be
// started.
func benchmarkStores(b *testing.B) (names []string, stores []*timedStore) {
	add := func(name string, s session.Store, err error) {
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		names, stores = append(names, name), append(stores, &timedStore{Store: s})
	}
	file, err := sqlite.Open(filepath.Join(b.TempDir(), "s.db"))
	add("sqlite", file, err)
	pg, err := postgres.Open(b.Context(), servers.Database(b))
	add("postgres", pg, err)
	below := must.Get(postgres.Open(b.Context(), servers.Database(b)))
	live, err := redis.New(b.Context(), servers.SharedRedis(b), below)
	add("postgres+redis", live, err)
	return names, stores
}

// BenchmarkStores compares turns on the stores that last: one after the other,
// store by store in turns, so that whatever else the machine does falls on all of
// them; and in 100 sessions at once.
func BenchmarkStores(b *testing.B) {
	b.Run("one after the other", func(b *testing.B) {
		names, stores := benchmarkStores(b)
		var runners []*runner.Runner
		took := make([]times, len(stores))
		for _, s := range stores {
			r := newRunner(b, chain(b, 1, "I see two charges and refund one."), s)
			turn(b, r, s1) // the one that hands over
			s.took = nil
			runners = append(runners, r)
		}
		for b.Loop() {
			for i, r := range runners {
				start := time.Now()
				turn(b, r, s1)
				took[i] = append(took[i], time.Since(start))
			}
		}
		for i, name := range names {
			b.ReportMetric(took[i].at(.5)/1e3, name+"-turn-p50-us")
			b.ReportMetric(took[i].at(.99)/1e3, name+"-turn-p99-us")
			b.ReportMetric(stores[i].took.at(.5)/1e3, name+"-append-p50-us")
			b.ReportMetric(stores[i].took.at(.99)/1e3, name+"-append-p99-us")
		}
	})
	b.Run("100 sessions", func(b *testing.B) {
		names, stores := benchmarkStores(b)
		for i, name := range names {
			b.Run(name, func(b *testing.B) {
				const sessions = 100
				r := newRunner(b, chain(b, 1, "I see two charges and refund one."), stores[i])
				start := time.Now()
				var wg sync.WaitGroup
				for n := range sessions {
					wg.Go(func() {
						for range b.N {
							for _, err := range r.Run(context.Background(), session.ID(fmt.Sprint(b.N, " s", n)), llm.UserText(complaint)) {
								if err != nil {
									b.Error(err)
								}
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(sessions*b.N)/time.Since(start).Seconds(), "turns/s")
				b.ReportMetric(stores[i].took.at(.5)/1e3, "append-p50-us")
				b.ReportMetric(stores[i].took.at(.99)/1e3, "append-p99-us")
			})
		}
	})
}
