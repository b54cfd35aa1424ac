package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// counted is the driver, and counts the statements that are run and the rows that are read.
type counted struct{ driver.Driver }

type (
	countedConn struct{ driver.Conn }
	countedStmt struct{ driver.Stmt }
	countedRows struct{ driver.Rows }
)

var statementsRun, rowsRead atomic.Int64

var registerCounted = sync.OnceFunc(func() {
	db, err := sql.Open("sqlite", "")
	if err != nil {
		panic(err)
	}
	sql.Register("sqlite-counted", counted{db.Driver()})
})

func (d counted) Open(name string) (driver.Conn, error) {
	c, err := d.Driver.Open(name)
	return countedConn{c}, err
}

func (c countedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return countedStmt{s}, nil
}

func (s countedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	statementsRun.Add(1)
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (s countedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	statementsRun.Add(1)
	r, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil {
		return nil, err
	}
	return countedRows{r}, nil
}

func (r countedRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err == nil {
		rowsRead.Add(1)
	}
	return err
}

// TestBudget holds the store to what its calls cost, in what no machine changes: statements,
// transactions and rows. Lower a number when you can; raising it needs a reason.
func TestBudget(t *testing.T) {
	registerCounted()
	path := newFile(t)
	s := open(t, path, sqlite.WithDriver("sqlite-counted"))
	key := session.ID("s")
	spend := func(what string, statements, rows, transactions int64, do func() error) {
		t.Helper()
		s0, r0, c0 := statementsRun.Load(), rowsRead.Load(), commits(t, path)
		require.NoError(t, do(), what)
		require.Equal(t, []int64{statements, rows, transactions},
			[]int64{statementsRun.Load() - s0, rowsRead.Load() - r0, int64(commits(t, path) - c0)}, "statements, rows and transactions: %s", what)
	}
	var lease session.Lease
	acquire := func() (err error) {
		lease, err = sessiontest.Acquire(t.Context(), s, key, session.Self())
		return err
	}
	release := func() error { return sessiontest.Release(t.Context(), s, key, lease) }
	seq := int64(0)
	store := func(n int) func() error {
		return func() error {
			events := storetest.Batch(seq, n)
			var err error
			lease, err = s.Write(t.Context(), key, session.Write{Lease: lease, Head: lease.Head, Events: events})
			seq += int64(n)
			return err
		}
	}
	load := func(after int64) func() error {
		return func() error {
			n := after
			for _, err := range s.Load(t.Context(), key, after) {
				if err != nil {
					return err
				}
				n++
			}
			require.Equal(t, seq, n)
			return nil
		}
	}
	spend("a first lease", 5, 1, 1, acquire)
	spend("giving it back", 4, 1, 1, release)
	spend("a lease", 4, 1, 1, acquire)
	spend("renewing it", 4, 1, 1, func() error { return sessiontest.Renew(t.Context(), s, key, lease) })
	spend("an append", 5, 1, 1, store(1))
	spend("an append of three events", 7, 1, 1, store(3))
	spend("a load of all of them", 2, 5, 0, load(0))
	spend("a load of the last", 2, 2, 0, load(3))
	spend("a load of none", 1, 1, 0, load(4))
	require.NoError(t, store(996)())
	spend("a load of 1,000 events", 6, 1001, 0, load(0))
	spend("a load of the last of 1,000", 2, 2, 0, load(999))
}

// TestBytesPerEvent holds the file to a number of bytes for an event of many short sessions that
// grow beside each other, with ids as long as the runner's.
func TestBytesPerEvent(t *testing.T) {
	const sessions, turns, most = 100, 10, 175
	path := newFile(t)
	s := must.Get(sqlite.Open(path))
	id := func(s string) string { return (s + "0123456789abcdef")[:12] }
	events := 0
	var seqs [sessions]int64
	var leases [sessions]session.Lease
	for n := range int64(turns) {
		for i := range sessions {
			key := session.ID(fmt.Sprint("s", i))
			if n == 0 {
				leases[i] = must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
			}
			seq := seqs[i]
			log := slices.Concat(oneTurn(n, seq, n == 0)...)
			for _, e := range log {
				e.ID, e.TurnID, e.RunID = id(e.ID), id(e.TurnID), id(e.RunID)
				if text, ok := e.Data.(*event.Text); ok {
					e.Data = &event.Text{Content: text.Content[:33]}
				}
				if e.Path = "support/" + e.Agent; e.Agent == "user" {
					e.Path = ""
				}
			}
			require.NoError(t, sessiontest.Append(t.Context(), s, key, seq, leases[i], log...))
			seqs[i] += int64(len(log))
			events += len(log)
		}
	}
	require.NoError(t, s.Close())
	info := must.Get(os.Stat(path))
	t.Logf("%.1f bytes an event", float64(info.Size())/float64(events))
	require.LessOrEqual(t, float64(info.Size())/float64(events), float64(most))
}
