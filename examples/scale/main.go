// Command scale simulates the stores of many sessions: how busy so many shards are, how long turns wait
// for them, how many shards it takes, and how many sessions move when one is added. The times that calls
// take are given, such as the benchmarks of session/postgres measure them.
//
//	go run ./examples/scale -sessions 1000000 -rate 2000 -service 1ms
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(2)
	}
}

func run(args []string, out io.Writer) error {
	var l load
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.IntVar(&l.sessions, "sessions", 1_000_000, "sessions that are stored")
	flags.IntVar(&l.perUser, "per-user", 5, "sessions of a user, which are on one shard")
	flags.Float64Var(&l.skew, "skew", 0, "exponent above 1 of Zipf's law, after which users take turns; 0: all the same")
	flags.Float64Var(&l.rate, "rate", 1000, "turns that begin a second, on average")
	flags.IntVar(&l.turns, "turns", 200_000, "turns that are simulated")
	flags.IntVar(&l.calls, "calls", 4, "calls of the store in a turn, each of which waits for a commit")
	think := flags.Duration("think", time.Second, "mean time between two calls of a turn")
	service := flags.Duration("service", time.Millisecond, "mean time that a call keeps a worker of its shard busy")
	flags.BoolVar(&l.fixed, "fixed", false, "calls take that time exactly, instead of exponential times")
	flags.IntVar(&l.workers, "workers", 4, "calls that a shard serves at once")
	flags.Uint64Var(&l.seed, "seed", 1, "seed of the random numbers")
	shards := flags.Int("shards", 0, "shards; 0: as many as it takes")
	bound := flags.Duration("bound", 10*time.Millisecond, "what 99 of 100 calls may wait")
	bytes := flags.Int64("bytes", 0, "bytes that a turn adds to the database; 0: not known")
	if err := flags.Parse(args); err != nil {
		return err
	}
	l.think, l.service = think.Seconds(), service.Seconds()
	if min(l.sessions, l.perUser, l.turns, l.calls, l.workers) < 1 || !(l.rate > 0) || math.IsInf(l.rate, 1) || l.service <= 0 || l.think < 0 || *shards < 0 || l.skew < 0 || l.skew > 0 && l.skew <= 1 {
		return fmt.Errorf("numbers and times must be above 0, and -skew 0 or above 1")
	}
	// Fewer would be busy for more than all of the time.
	n := max(1, int(math.Ceil(l.rate*float64(l.calls)*l.service/float64(l.workers))))
	if *shards > 0 {
		n = *shards
	}
	var o *outcome
	for {
		var err error
		if o, err = l.simulate(n); err != nil {
			return err
		}
		if *shards > 0 || at(o.wait, .99) <= bound.Seconds() {
			break
		}
		if n++; n > 1000 {
			return fmt.Errorf("more than 1000 shards wait for longer than %s: users who take too many turns have their sessions on one shard", *bound)
		}
	}
	moved, wrong, err := l.moved(n)
	if err != nil {
		return err
	}
	ms := func(seconds float64) string { return fmt.Sprintf("%.2f ms", 1000*seconds) }
	fmt.Fprintf(out, "%d sessions of %d users, %g turns a second of %d calls, %d turns simulated, seed %d\n", l.sessions, l.users(), l.rate, l.calls, l.turns, l.seed)
	fmt.Fprintf(out, "shards          %d, each of %d workers, calls of %s\n", n, l.workers, *service)
	fmt.Fprintf(out, "utilisation     %.1f %% to %.1f %%\n", 100*slices.Min(o.utilisation), 100*slices.Max(o.utilisation))
	fmt.Fprintf(out, "wait of a call  mean %s, p50 %s, p99 %s, longest %s\n", ms(o.meanWait), ms(at(o.wait, .5)), ms(at(o.wait, .99)), ms(at(o.wait, 1)))
	fmt.Fprintf(out, "store in a turn p50 %s, p99 %s\n", ms(at(o.inStore, .5)), ms(at(o.inStore, .99)))
	fmt.Fprintf(out, "another shard   takes %d sessions, %.1f %%; %d move between the others\n", moved, 100*float64(moved)/float64(l.sessions), wrong)
	if *bytes > 0 {
		fmt.Fprintf(out, "growth          %.1f GB a day and shard\n", l.rate*float64(*bytes)*86400/1e9/float64(n))
	}
	return nil
}
