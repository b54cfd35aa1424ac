package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// turn appends n texts in a turn of its own, as soon as nobody else has one.
func turn(ctx context.Context, s session.Store, key session.Key, n int, content func(i int) string) error {
	for {
		lease, err := sessiontest.Acquire(ctx, s, key, session.Self())
		if errors.Is(err, agent.ErrSessionBusy) {
			continue
		}
		if err != nil {
			return err
		}
		var events []*event.Event
		for i := range n {
			events = append(events, storetest.Text(lease.Head.Seq+int64(i)+1, content(i)))
		}
		if err := sessiontest.Append(ctx, s, key, lease.Head.Seq, lease, events...); err != nil {
			return err
		}
		return sessiontest.Release(ctx, s, key, lease)
	}
}

const (
	turnSessions = 30
	turnCount    = 4
	turnEvents   = 3
)

// playTurns runs turns on all sessions at once.
func playTurns(path, name string) error {
	s, err := sqlite.Open(path, patient)
	if err != nil {
		return err
	}
	errs := make([]error, turnSessions)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for k := range turnCount {
				errs[i] = errors.Join(errs[i], turn(context.Background(), s, session.ID(strconv.Itoa(i)), turnEvents,
					func(n int) string { return fmt.Sprintf("%s %d", name, k*turnEvents+n) }))
			}
		})
	}
	wg.Wait()
	return errors.Join(errors.Join(errs...), s.Close())
}

// TestTwoProcesses: two processes write to the same thirty sessions at once.
func TestTwoProcesses(t *testing.T) {
	path := newFile(t)
	a, b := storetest.Start(t, "turns", path, "a"), storetest.Start(t, "turns", path, "b")
	a.Continue(t)
	b.Continue(t)
	a.Finish(t)
	b.Finish(t)

	s := open(t, path)
	infos, err := s.List(t.Context(), session.Key{}, session.Page{})
	require.NoError(t, err)
	require.Len(t, infos, turnSessions)
	for _, info := range infos {
		log := storetest.Contents(t, s, info.Key) // Load refuses gaps
		require.Len(t, log, 2*turnCount*turnEvents)
		next := map[string]int{}
		for i, content := range log {
			name, n, _ := strings.Cut(content, " ")
			require.Equal(t, strconv.Itoa(next[name]), n, "each process's events are all there, in order")
			next[name]++
			if i%turnEvents != 0 {
				require.Equal(t, log[i-1][:2], content[:2], "a batch was torn apart")
			}
		}
	}
}

// playOpen opens the file, which may not exist, and writes one session.
func playOpen(path, name string) error {
	s, err := sqlite.Open(path, patient)
	if err != nil {
		return err
	}
	return errors.Join(turn(context.Background(), s, session.ID(name), 2, func(int) string { return name }), s.Close())
}

// playRead opens a file read-only, and prints its events and the error of a write.
func playRead(path, name string) error {
	s, err := sqlite.Open(path, sqlite.ReadOnly())
	if err != nil {
		return err
	}
	ctx := context.Background()
	for e, err := range s.Load(ctx, session.ID(name), 0) {
		if err != nil {
			return err
		}
		fmt.Println(e.Seq)
	}
	_, err = sessiontest.Acquire(ctx, s, session.ID(name), session.Self())
	return errors.Join(fmt.Errorf("acquire: %w", err), s.Delete(ctx, session.ID(name)), s.Close())
}

// TestManyProcessesOpenANewFile: the switch to a write-ahead log and the schema
// are a race that every process must survive.
func TestManyProcessesOpenANewFile(t *testing.T) {
	for range 2 {
		path := newFile(t)
		var all []*storetest.Process
		for i := range 6 {
			all = append(all, storetest.Start(t, "open", path, strconv.Itoa(i)))
		}
		for _, p := range all {
			p.Continue(t)
		}
		for _, p := range all {
			p.Finish(t)
		}
		s := open(t, path)
		for i := range all {
			require.Len(t, storetest.Contents(t, s, session.ID(strconv.Itoa(i))), 2)
		}
		oneSchema(t, path)
		entries := must.Get(os.ReadDir(filepath.Dir(path)))
		require.LessOrEqual(t, len(entries), 3, "the database, -wal and -shm: %v", entries)
	}
}

// TestManyStoresOpenANewFile is the same within one process.
func TestManyStoresOpenANewFile(t *testing.T) {
	path := newFile(t)
	var wg sync.WaitGroup
	errs := make([]error, 12)
	for i := range errs {
		wg.Go(func() { errs[i] = playOpen(path, strconv.Itoa(i)) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	s := open(t, path)
	for i := range errs {
		require.Len(t, storetest.Contents(t, s, session.ID(strconv.Itoa(i))), 2)
	}
}

const crashSessions = 3

func crashContent(session int, seq int64) string {
	return fmt.Sprintf("session %d event %d", session, seq)
}

// playAppend appends to its sessions until it is killed. It says "+ SESSION SEQ"
// before it asks for an append up to SEQ, and "= SESSION SEQ" after.
func playAppend(path, _ string) error {
	s, err := sqlite.Open(path, patient)
	if err != nil {
		return err
	}
	errs := make(chan error, crashSessions)
	for i := range crashSessions {
		go func() {
			key := session.ID(strconv.Itoa(i))
			lease, err := sessiontest.Acquire(context.Background(), s, key, session.Self())
			for seq := lease.Head.Seq; err == nil; {
				var events []*event.Event
				for n := range 1 + seq%4 {
					events = append(events, storetest.Text(seq+n+1, crashContent(i, seq+n+1)))
				}
				end := seq + int64(len(events))
				_, _ = fmt.Printf("+ %d %d\n", i, end)
				if err = sessiontest.Append(context.Background(), s, key, seq, lease, events...); err == nil {
					_, err = fmt.Printf("= %d %d\n", i, end)
				}
				seq = end
			}
			errs <- err
		}()
	}
	return <-errs
}

// TestKilledWriters kills writers at random moments. Whatever the moment, the
// file is sound, what was acknowledged is there, nothing else is but the batch
// in flight, and the next process adopts the turn at once.
func TestKilledWriters(t *testing.T) {
	kills := 16
	if testing.Short() {
		kills = 5
	}
	path := newFile(t)
	asked, acknowledged := make([]int64, crashSessions), make([]int64, crashSessions)
	total, left := 0, 0
	for n := range kills {
		p := storetest.Start(t, "append", path, "")
		// Every fourth dies while it opens the file, or soon after; the others after
		// a number of appends that is drawn, and a bit.
		after, bit := rand.IntN(60), time.Duration(rand.Int64N(int64(time.Millisecond)))
		if n%4 == 0 {
			after, bit = 0, time.Duration(rand.Int64N(int64(15*time.Millisecond)))
		}
		kill := func() { time.AfterFunc(bit, func() { _ = p.Process.Kill() }) }
		p.Continue(t)
		if after == 0 {
			kill()
		}
		total += readAcknowledged(t, p.Out, asked, acknowledged, func(count int) {
			if count == after {
				kill()
			}
		})
		require.Error(t, p.Wait(), p.Errors)
		require.Empty(t, p.Errors.String())

		s := open(t, path)
		db := raw(t, path)
		orphans := must.Get(s.Orphans(t.Context(), session.Page{}))
		require.Equal(t, scalar(t, db, "SELECT count(*) FROM session WHERE lease_until IS NOT NULL AND created IS NOT NULL"), fmt.Sprint(len(orphans)))
		left += len(orphans)
		for i := range crashSessions {
			key := session.ID(strconv.Itoa(i))
			log := storetest.Contents(t, s, key)
			for n, content := range log {
				require.Equal(t, crashContent(i, int64(n+1)), content)
			}
			stored := int64(len(log))
			require.Contains(t, []int64{acknowledged[i], asked[i]}, stored, "session %d, killed %s after %d appends", i, bit, after)
			asked[i], acknowledged[i] = stored, stored

			lease, err := sessiontest.Acquire(t.Context(), s, key, session.Self()) // the dead owner's
			require.NoError(t, err)
			require.Equal(t, stored, lease.Head.Seq)
			require.NoError(t, sessiontest.Release(t.Context(), s, key, lease))
		}
		require.Empty(t, must.Get(s.Orphans(t.Context(), session.Page{})))
		require.Equal(t, "ok", scalar(t, db, "PRAGMA integrity_check"))
		require.Equal(t, "0", scalar(t, db, "SELECT count(*) FROM pragma_foreign_key_check"))
		require.NoError(t, db.Close())
		require.NoError(t, s.Close())
	}
	require.Greater(t, total, kills, "the writers were killed before they wrote anything")
	require.Positive(t, left, "no writer that was killed left a session behind")
	t.Logf("%d appends in %d lives", total, kills)
}

func readAcknowledged(t *testing.T, out *bufio.Reader, asked, acknowledged []int64, each func(count int)) (count int) {
	t.Helper()
	for {
		line, err := out.ReadString('\n')
		if err != nil { // the last line may be cut off by the kill
			return count
		}
		var what string
		var i int
		var seq int64
		_, err = fmt.Sscanf(line, "%1s %d %d", &what, &i, &seq)
		require.NoError(t, err, line)
		if what == "+" {
			asked[i] = seq
		} else {
			require.Equal(t, asked[i], seq)
			acknowledged[i] = seq
			count++
			each(count)
		}
	}
}
