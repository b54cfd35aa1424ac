package runner_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/agentarbor/arbor/internal/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/redis"
	"github.com/agentarbor/arbor/session/sqlite"
)

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
	below, err := postgres.Open(b.Context(), servers.Database(b))
	if err != nil {
		b.Fatal(err)
	}
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
