package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sqlite"
)

// The benchmarks in this file run turns on a SQLite file, each of whose appends
// waits for the disk. docs/durable.md has their results, and says how the share
// of the disk is found.

// memoryDisk is where Linux keeps files in memory: what a turn costs there is
// what it costs without a disk.
const memoryDisk = "/dev/shm"

// durable is a runner on a file.
type durable struct {
	*runner.Runner
	path    string
	file    *sqlite.Store
	appends atomic.Int64 // each is one fsync, if the file is on a disk
	events  atomic.Int64
}

// countedStore counts what is appended.
type countedStore struct {
	session.Store
	d *durable
}

func (s countedStore) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if n := len(w.Events); n > 0 {
		s.d.appends.Add(1)
		s.d.events.Add(int64(n))
	}
	return s.Store.Write(ctx, key, w)
}

func newDurable(b *testing.B, dir string, opts ...runner.Option) *durable {
	d := &durable{path: filepath.Join(dir, "sessions.db")}
	var err error
	if d.file, err = sqlite.Open(d.path); err != nil {
		b.Fatal(err)
	}
	d.Runner = newRunner(b, chain(b, 1, "I see two charges and refund one."), countedStore{d.file, d}, opts...)
	return d
}

// close closes the file and returns how many bytes of it there are for an event.
func (d *durable) close(b *testing.B) (perEvent float64) {
	if err := d.file.Close(); err != nil {
		b.Fatal(err)
	}
	info := must.Get(os.Stat(d.path))
	return float64(info.Size()) / float64(d.events.Load())
}

// withoutDisk returns a folder in memory, "" where there is none.
func withoutDisk(b *testing.B) string {
	dir, err := os.MkdirTemp(memoryDisk, "arbor-*")
	if err != nil {
		b.Log("no folder in memory: the share of the disk is only estimated from its fsync")
		return ""
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// times are durations that are asked for their order.
type times []time.Duration

func (t times) at(share float64) float64 {
	slices.Sort(t)
	return float64(t[min(int(share*float64(len(t))), len(t)-1)].Nanoseconds())
}

// BenchmarkDurableTurn measures turns one after the other. Each is run on a file
// on the disk, on a file in memory, and in the store in memory, in turns; and
// between them one write and fsync of the size of a commit is timed. So whatever
// else the machine does falls on all of them alike.
func BenchmarkDurableTurn(b *testing.B) {
	const sessions = 50
	for _, kind := range []string{"plain", "transfer"} {
		b.Run(kind, func(b *testing.B) {
			onDisk := newDurable(b, b.TempDir())
			all := []*runner.Runner{onDisk.Runner, newRunner(b, onDisk.Tree().Root().Agent, session.NewMemory())}
			if dir := withoutDisk(b); dir != "" {
				d := newDurable(b, dir)
				defer d.close(b)
				all = append(all, d.Runner)
			}
			key := func(i int) session.Key { return session.ID(fmt.Sprint("s", i)) }
			if kind == "plain" { // the specialist answers again in one of some sessions
				for i := range sessions {
					for _, r := range all {
						turn(b, r, key(i))
					}
				}
				key = func(i int) session.Key { return session.ID(fmt.Sprint("s", i%sessions)) }
			}
			probe := must.Get(os.Create(filepath.Join(b.TempDir(), "probe")))
			defer probe.Close()
			took := make([]times, len(all))
			var fsync times
			commit := make([]byte, 16<<10) // four pages of the write-ahead log
			appends := onDisk.appends.Load()
			b.ResetTimer()
			for i := range b.N {
				for j, r := range all {
					start := time.Now()
					turn(b, r, key(i))
					took[j] = append(took[j], time.Since(start))
				}
				start := time.Now()
				if _, err := probe.WriteAt(commit, int64(i%250)*int64(len(commit))); err != nil {
					b.Fatal(err)
				}
				if err := probe.Sync(); err != nil {
					b.Fatal(err)
				}
				fsync = append(fsync, time.Since(start))
			}
			b.StopTimer()
			whole := time.Duration(0)
			for _, d := range took[0] {
				whole += d
			}
			syncs := float64(onDisk.appends.Load()-appends) / float64(b.N)
			b.ReportMetric(float64(whole.Nanoseconds())/float64(b.N), "ns/op")
			b.ReportMetric(float64(b.N)/whole.Seconds(), "turns/s")
			b.ReportMetric(took[0].at(.5), "p50-ns")
			b.ReportMetric(took[0].at(.99), "p99-ns")
			b.ReportMetric(syncs, "fsyncs/turn")
			b.ReportMetric(fsync.at(.5), "fsync-ns")
			b.ReportMetric(100*syncs*fsync.at(.5)/took[0].at(.5), "fsync-%")
			b.ReportMetric(took[1].at(.5), "memory-store-ns")
			if len(took) > 2 {
				b.ReportMetric(took[2].at(.5), "no-disk-ns")
				b.ReportMetric(100*(1-took[2].at(.5)/took[0].at(.5)), "disk-%")
			}
			b.ReportMetric(onDisk.close(b), "file-B/event")
		})
	}
}

// BenchmarkDurableSessions runs b.N turns in each of 1,000 sessions, all sessions
// at once: the first turn of each hands over. One operation is one turn in every
// session, so that -benchtime 10x is 1,000 sessions of 10 turns.
func BenchmarkDurableSessions(b *testing.B) {
	const sessions = 1000
	for _, where := range []string{"disk", "memory"} {
		b.Run("file="+where, func(b *testing.B) {
			dir := b.TempDir()
			if where == "memory" {
				if dir = withoutDisk(b); dir == "" {
					b.Skip("no folder in memory")
				}
			}
			d := newDurable(b, dir)
			took := make([]times, sessions)
			var mu sync.Mutex
			var failed []error
			var wg sync.WaitGroup
			b.ResetTimer()
			start := time.Now()
			for i := range sessions {
				wg.Go(func() {
					key := session.ID(fmt.Sprint("s", i))
					for range b.N {
						began := time.Now()
						for _, err := range d.Run(context.Background(), key, llm.UserText(complaint)) {
							if err != nil {
								mu.Lock()
								failed = append(failed, err)
								mu.Unlock()
							}
						}
						took[i] = append(took[i], time.Since(began))
					}
				})
			}
			wg.Wait()
			wall := time.Since(start)
			b.StopTimer()
			if err := errors.Join(failed...); err != nil {
				b.Fatal(err)
			}
			written := checkDurable(b, d, sessions, b.N)
			all := times(slices.Concat(took...))
			b.ReportMetric(wall.Seconds(), "wall-s")
			b.ReportMetric(float64(len(all))/wall.Seconds(), "turns/s")
			b.ReportMetric(float64(len(failed)), "errors")
			b.ReportMetric(all.at(.5)/1e6, "p50-ms")
			b.ReportMetric(all.at(.99)/1e6, "p99-ms")
			b.ReportMetric(float64(d.appends.Load())/float64(len(all)), "appends/turn")
			b.ReportMetric(written/float64(d.events.Load()), "json-B/event")
			b.ReportMetric(d.close(b), "file-B/event")
		})
	}
}

// checkDurable looks into the file: every turn of every session is there, and
// ended well. It returns how many bytes of JSON that is.
func checkDurable(b *testing.B, d *durable, sessions, turns int) (written float64) {
	for i := range sessions {
		said, ended := 0, 0
		for _, e := range must.All(d.file.Load(context.Background(), session.ID(fmt.Sprint("s", i)), 0)) {
			text := must.Get(e.MarshalJSON())
			written += float64(len(text))
			switch data := e.Data.(type) {
			case *event.User:
				said++
			case *event.HarnessEnd:
				if data.FinishReason == event.FinishReasonStop {
					ended++
				}
			}
		}
		if said != turns || ended != turns {
			b.Fatalf("session %d has %d turns, of which %d ended: there should be %d", i, said, ended, turns)
		}
	}
	return written
}

// BenchmarkDurableMemory measures what stays in memory of a session of 10 turns
// in a file: while the runner keeps it warm, and when it does not. What SQLite
// keeps of the file for itself does not grow with the sessions, and is not
// counted. It measures once, whatever b.N.
func BenchmarkDurableMemory(b *testing.B) {
	const sessions, turns = 100, 10
	measure := func(cached int) float64 {
		d := newDurable(b, b.TempDir(), runner.WithCache(cached))
		turn(b, d.Runner, session.ID("first")) // what is made once
		before := heap()
		for i := range sessions {
			for range turns {
				turn(b, d.Runner, session.ID(fmt.Sprint("s", i)))
			}
		}
		after := heap()
		runtime.KeepAlive(d)
		d.close(b)
		return float64(after-before) / sessions
	}
	b.ReportMetric(measure(sessions), "warm-B/session")
	b.ReportMetric(measure(0), "cold-B/session")
}
