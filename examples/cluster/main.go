// Command cluster shows what happens to conversations when their processes die. It runs three replicas of a server on
// one PostgreSQL and one Redis, behind a proxy. Some clients talk to them while the program kills one replica every few
// seconds. At the end it prints the number of turns, how often a turn was adopted, the longest wait of a client, and
// whether every conversation is complete.
//
//	go run ./examples/cluster
//
// It uses the endpoint of the OPENAI_* variables, or the offline model if none is set. It slows the model down so that
// kills interrupt answers. Without --postgres and --redis it starts its own servers from installed programs, and stops
// them at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/integrity"
	"github.com/agentarbor/arbor/session/postgres"
)

func main() {
	if isReplica() {
		replica() // does not return
	}
	var c config
	flag.DurationVar(&c.lasts, "for", 30*time.Second, "how long new turns begin")
	flag.DurationVar(&c.kills, "kill", 4*time.Second, "the time between two kills")
	flag.IntVar(&c.replicas, "replicas", 3, "how many replicas there are")
	flag.IntVar(&c.clients, "clients", 4, "how many clients talk, each in a session of its own")
	flag.StringVar(&c.postgres, "postgres", "", "the `URL` of an empty database (default: a server of its own)")
	flag.StringVar(&c.redis, "redis", "", "the `URL` of a Redis server (default: a server of its own)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if _, err := run(ctx, os.Stdout, c); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

type config struct {
	lasts, kills      time.Duration
	replicas, clients int
	postgres, redis   string
}

// outcome is the result of the run.
type outcome struct {
	turns, kills, adoptions int
	longest                 time.Duration // the longest time without an event in a turn
}

// patience is how long the last turns may take to end.
const patience = time.Minute

// run runs the cluster and prints the result. It returns an error if anything failed or a conversation is not complete.
func run(ctx context.Context, out io.Writer, c config) (sum outcome, err error) {
	if c.replicas < 1 || c.clients < 1 || c.kills <= 0 {
		return sum, errors.New("there must be a replica, a client, and some time between two kills")
	}
	closeServers, err := c.startServers()
	defer func() { err = errors.Join(err, closeServers()) }()
	if err != nil {
		return sum, err
	}
	db, err := postgres.Open(ctx, c.postgres)
	if err != nil {
		return sum, err
	}
	defer db.Close()
	f, err := newFleet(ctx, c)
	if err != nil {
		return sum, err
	}
	defer f.close()
	proxy, err := serveProxy(f)
	if err != nil {
		return sum, err
	}
	defer proxy.close()
	fmt.Fprintf(out, "%d replicas behind %s, %d clients\n", c.replicas, proxy.url, c.clients)

	ctx, cancel := context.WithTimeout(ctx, c.lasts+patience)
	defer cancel()
	over := time.Now().Add(c.lasts)
	talks := make([]*talk, c.clients)
	failed := make([]error, c.clients)
	var talking sync.WaitGroup
	for i := range talks {
		talks[i] = &talk{session: fmt.Sprintf("client-%d", i+1)}
		talking.Go(func() { failed[i] = talks[i].until(ctx, over, proxy.url, f.token) })
	}
	done := make(chan struct{})
	go func() {
		talking.Wait()
		close(done)
	}()
	sum.kills, err = f.killSome(out, over, done)
	if err != nil {
		cancel()
	}
	<-done
	if err := errors.Join(append(failed, err)...); err != nil {
		return sum, err
	}
	for _, t := range talks {
		if err := sum.add(ctx, db, t); err != nil {
			return sum, fmt.Errorf("the conversation of %s is not whole: %w", t.session, err)
		}
	}
	fmt.Fprintf(out, "%d turns, %d kills, %d adoptions; the longest wait was %s\nevery conversation is whole\n",
		sum.turns, sum.kills, sum.adoptions, sum.longest.Round(10*time.Millisecond))
	return sum, nil
}

// startServers starts the servers that the flags do not name. It always returns a function that stops them.
func (c *config) startServers() (end func() error, err error) {
	var closers []func() error
	end = func() error {
		var errs []error
		for _, f := range closers {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	if c.postgres == "" {
		p, err := servers.StartPostgres()
		if err != nil {
			return end, fmt.Errorf("without --postgres: %w", err)
		}
		closers = append(closers, p.Close)
		c.postgres = p.URL("postgres")
	}
	if c.redis == "" {
		r, err := servers.StartRedis()
		if err != nil {
			return end, fmt.Errorf("without --redis: %w", err)
		}
		closers = append(closers, r.Close)
		c.redis = r.URL()
	}
	return end, nil
}

// add checks a conversation by its log and adds it to the outcome.
func (sum *outcome) add(ctx context.Context, db session.Store, t *talk) error {
	log, err := events(ctx, db, session.ID(t.session))
	if err == nil {
		err = t.check(log)
	}
	sum.turns += len(t.turns)
	sum.longest = max(sum.longest, t.longest)
	for _, e := range log {
		if e.IsNotice(event.NoticeAdopted) {
			sum.adoptions++
		}
	}
	return err
}

// events reads a log and checks the rules that hold for every log.
func events(ctx context.Context, db session.Store, key session.Key) (log []*event.Event, err error) {
	for e, err := range db.Load(ctx, key, 0) {
		if err != nil {
			return nil, err
		}
		log = append(log, e)
	}
	broken, err := integrity.Check(func(yield func(*event.Event, error) bool) {
		for _, e := range log {
			if !yield(e, nil) {
				return
			}
		}
	})
	if err == nil && len(broken) > 0 {
		err = fmt.Errorf("its log breaks a law: %s", broken[0])
	}
	return slices.Clip(log), err
}
