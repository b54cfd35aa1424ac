package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/postgres"
	"github.com/agentarbor/arbor/session/sessiontest"
)

var kills = flag.Int("kills", 0, "how many processes TestKilledProcesses kills; 0 is 40 if CI=true, else 10")

// playOpen opens the database, which may be new, and writes one session.
func playOpen(url, name string, _ *bufio.Reader) error {
	ctx := context.Background()
	s, err := postgres.Open(ctx, url, patient)
	if err != nil {
		return err
	}
	key := session.ID(name)
	lease, err := sessiontest.Acquire(ctx, s, key, session.Self())
	if err != nil {
		return err
	}
	return errors.Join(sessiontest.Append(ctx, s, key, 0, lease, storetest.Text(1, name)), sessiontest.Release(ctx, s, key, lease), s.Close())
}

// TestManyProcessesOpenANewDatabase: the making of the schema is a race that every
// process must survive.
func TestManyProcessesOpenANewDatabase(t *testing.T) {
	for range 2 {
		url := servers.Database(t)
		var all []*storetest.Process
		for i := range 6 {
			all = append(all, storetest.Start(t, "open", url, strconv.Itoa(i)))
		}
		for _, p := range all {
			p.Continue(t)
		}
		for _, p := range all {
			p.Finish(t)
		}
		s := open(t, url)
		for i := range all {
			require.Equal(t, []string{strconv.Itoa(i)}, storetest.Contents(t, s, session.ID(strconv.Itoa(i))))
		}
		require.Equal(t, run(t, url, "SELECT count(DISTINCT version_id) FROM arbor.goose_db_version"),
			run(t, url, "SELECT count(*) FROM arbor.goose_db_version"), "one row a step")
		require.Equal(t, fmt.Sprint(postgres.SchemaVersion), run(t, url, "SELECT max(version_id) FROM arbor.goose_db_version"))
	}
}

// TestManyStoresOpenANewDatabase is the same within one process.
func TestManyStoresOpenANewDatabase(t *testing.T) {
	url := servers.Database(t)
	errs := make([]error, 12)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = playOpen(url, strconv.Itoa(i), nil) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

const killedSessions = 3

func killedSession(name string, i int) session.Key { return session.ID(fmt.Sprint(name, i)) }

// playTurns continues its sessions until it is killed. It prints each event that
// it was given.
func playTurns(url, name string, _ *bufio.Reader) error {
	s, err := postgres.Open(context.Background(), url, patient)
	if err != nil {
		return err
	}
	root, err := story()
	if err != nil {
		return err
	}
	r, err := runner.New(root, s)
	if err != nil {
		return err
	}
	errs := make(chan error, killedSessions)
	for i := range killedSessions {
		go func() {
			key := killedSession(name, i)
			events := r.Resume(context.Background(), key)
			for {
				for e, err := range events {
					if err != nil {
						errs <- err
						return
					}
					_, _ = fmt.Printf("%d %d\n", i, e.Seq)
				}
				events = r.Run(context.Background(), key, llm.UserText("I was charged twice"))
			}
		}()
	}
	return <-errs
}

// TestKilledProcesses kills processes at random moments of their turns. Whatever
// the moment, what a consumer was given is stored, what was stored stays as it was,
// and the next process continues it at once.
func TestKilledProcesses(t *testing.T) {
	n := *kills
	switch {
	case n > 0:
	case os.Getenv("CI") == "true":
		n = 40
	case testing.Short():
		n = 4
	default:
		n = 10
	}
	url := servers.Database(t)
	s := open(t, url)
	logs := make([][]string, killedSessions)
	given, resumed, left := 0, 0, 0
	for k := range n {
		name := string(rune('a' + k/10)) // logs that grow for ever would only slow the test down
		if k%10 == 0 {
			for i := range logs {
				logs[i] = []string{}
			}
		}
		p := storetest.Start(t, "turns", url+"&application_name=killed", name)
		p.Continue(t)
		told := make([]int, killedSessions)
		after := rand.IntN(80)
		if k%5 == 0 { // while it opens the database, or soon after
			after = 0
		}
		kill := func() {
			time.AfterFunc(time.Duration(rand.Int64N(int64(5*time.Millisecond))), func() { _ = p.Process.Kill() })
		}
		if after == 0 {
			kill()
		}
		for count := 1; ; count++ {
			line, err := p.Out.ReadString('\n')
			if err != nil { // the last line may be cut off by the kill
				break
			}
			var i, seq int
			_, err = fmt.Sscanf(line, "%d %d\n", &i, &seq)
			require.NoError(t, err, line)
			told[i] = seq
			if given++; count == after {
				kill()
			}
		}
		require.Error(t, p.Wait())
		require.Empty(t, p.Errors.String())
		// The server may still be at work on what it was sent.
		waitFor(t, url, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'killed'")
		orphans := must.Get(s.Orphans(t.Context(), session.Page{}))
		require.Equal(t, run(t, url, "SELECT count(*) FROM arbor.session WHERE lease_until IS NOT NULL AND created IS NOT NULL"), fmt.Sprint(len(orphans)))
		left = max(left, len(orphans))
		for i := range killedSessions {
			key := killedSession(name, i)
			events := storetest.Load(t, s, key)
			log := make([]string, 0, len(events))
			for _, e := range events {
				b := must.Get(e.MarshalJSON())
				log = append(log, string(b))
			}
			require.GreaterOrEqual(t, len(log), told[i], "an event that was delivered is lost")
			require.GreaterOrEqual(t, len(log), len(logs[i]))
			require.Equal(t, logs[i], log[:len(logs[i])])
			if len(log) > len(logs[i]) {
				resumed++
			}
			logs[i] = log
			requireSound(t, events)
			requireBlocks(t, url, key, events, 0)
		}
	}
	t.Logf("%d processes were killed; they were given %d events, and went on with sessions %d times", n, given, resumed)
	require.Greater(t, given, n, "the processes were killed before they did anything")
	require.Positive(t, left, "nobody who was killed left a session behind")
	infos, err := s.List(t.Context(), session.Key{}, session.Page{})
	require.NoError(t, err)
	r := newRunner(t, s)
	for _, info := range infos { // each can be continued
		for _, err := range r.Resume(t.Context(), info.Key) {
			require.NoError(t, err)
		}
		_, err := turn(t.Context(), r, info.Key, "Thanks")
		require.NoError(t, err)
	}
	require.Empty(t, must.Get(s.Orphans(t.Context(), session.Page{})))
}

// onHost is a store whose process seems to run on a host of its own.
type onHost struct {
	session.Store
	host string
}

func (s onHost) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if !w.Acquires() {
		return s.Store.Write(ctx, key, w)
	}
	w.Acquire.Host = s.host
	return s.Store.Write(ctx, key, w)
}

// playMachine runs one turn on a machine of its own, whose clock is off. It stops
// at an event until the next line of its input.
func playMachine(url, name string, in *bufio.Reader) error {
	ctx := context.Background()
	s, err := postgres.Open(ctx, url, patient)
	if err != nil {
		return err
	}
	root, err := story()
	if err != nil {
		return err
	}
	skew, err := time.ParseDuration(os.Getenv("ARBOR_TEST_SKEW"))
	if err != nil {
		return err
	}
	pause, _ := strconv.Atoi(os.Getenv("ARBOR_TEST_PAUSE"))
	r, err := runner.New(root, onHost{s, name}, runner.WithClock(func() time.Time { return time.Now().Add(skew) }))
	if err != nil {
		return err
	}
	n := 0
	for _, err := range r.Run(ctx, session.ID("s"), llm.UserText("from "+name)) {
		if err != nil {
			fmt.Println(map[bool]string{true: "conflict", false: "busy"}[errors.Is(err, agent.ErrConflict)], err)
			return nil
		}
		if n++; n == pause {
			fmt.Println("paused")
			if _, err := in.ReadString('\n'); err != nil {
				return err
			}
		}
	}
	fmt.Println("done")
	return s.Close()
}

// TestTwoMachines: the lease of a machine that died or is slow holds until the
// database's clock says otherwise, however wrong the machines' clocks are. Then the
// session moves, and what the first one still wants to write is refused.
func TestTwoMachines(t *testing.T) {
	url := servers.Database(t)
	s := open(t, url)
	machine := func(name, skew string, pause int) *storetest.Process {
		p := storetest.Start(t, "machine", url, name, "ARBOR_TEST_SKEW="+skew, fmt.Sprint("ARBOR_TEST_PAUSE=", pause))
		p.Continue(t)
		return p
	}
	expire := func() { run(t, url, "UPDATE arbor.session SET lease_until = clock_timestamp()") }
	users := []string{}
	check := func(length int) {
		t.Helper()
		log := storetest.Load(t, s, session.ID("s"))
		require.Greater(t, len(log), length)
		requireSound(t, log)
		requireBlocks(t, url, session.ID("s"), log, 0)
		var said []string
		for i, e := range log {
			if u, ok := e.Data.(*event.User); ok {
				said = append(said, u.Content.PlainText())
			}
			if i > 0 {
				require.False(t, e.Time.Before(log[i-1].Time), "event %d is older than the one before", e.Seq)
			}
		}
		require.Equal(t, users, said)
	}
	for _, skews := range [][2]string{{"1h", "-1h"}, {"-1h", "1h"}} {
		// The holder is killed.
		a := machine("a", skews[0], 6)
		users = append(users, "from a")
		require.Equal(t, "paused", a.Line(t))
		a.Kill(t)
		length := len(storetest.Load(t, s, session.ID("s")))
		b := machine("b", skews[1], 0)
		require.Regexp(t, "^busy .* on a is answering", b.Line(t))
		b.Finish(t)
		require.Len(t, storetest.Load(t, s, session.ID("s")), length)
		expire()
		b = machine("b", skews[1], 0)
		users = append(users, "from b")
		require.Equal(t, "done", b.Line(t))
		b.Finish(t)
		check(length)

		// The holder is slow.
		length = len(storetest.Load(t, s, session.ID("s")))
		a = machine("a", skews[0], 2)
		users = append(users, "from a")
		require.Equal(t, "paused", a.Line(t))
		expire()
		b = machine("b", skews[1], 0)
		users = append(users, "from b")
		require.Equal(t, "done", b.Line(t))
		b.Finish(t)
		check(length)
		length = len(storetest.Load(t, s, session.ID("s")))
		a.Continue(t)
		require.Regexp(t, "^conflict .*lease was lost", a.Line(t))
		a.Finish(t)
		require.Len(t, storetest.Load(t, s, session.ID("s")), length, "a stale writer stored something")
	}
}
