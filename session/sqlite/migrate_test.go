package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// version1 makes a file as the program with the first schema left it.
func version1(t testing.TB, more ...string) (path string) { return fileOf(t, 1, more...) }

// fileOf makes a file as the program with a schema left it: with the file of testdata
// that that program's file was dumped to.
func fileOf(t testing.TB, version int, more ...string) (path string) {
	t.Helper()
	script, err := os.ReadFile(fmt.Sprintf("testdata/version%d.sql", version))
	require.NoError(t, err)
	path = newFile(t)
	db := raw(t, path, append([]string{string(script), fmt.Sprintf("PRAGMA application_id = %d", 0x4172626f), "PRAGMA journal_mode = WAL"}, more...)...)
	require.Equal(t, fmt.Sprint(version), scalar(t, db, "SELECT max(version) FROM schema_version"))
	require.NoError(t, db.Close())
	return path
}

// dump returns the rows of a query, a line each.
func dump(t testing.TB, path, query string) string {
	t.Helper()
	db := raw(t, path)
	defer db.Close()
	rows, err := db.Query(query)
	require.NoError(t, err, query)
	columns, err := rows.Columns()
	require.NoError(t, err)
	values, dest := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		dest[i] = &values[i]
	}
	var out bytes.Buffer
	for rows.Next() {
		require.NoError(t, rows.Scan(dest...))
		for i, v := range values {
			if i > 0 {
				out.WriteByte('|')
			}
			if v != nil {
				fmt.Fprint(&out, v)
			}
		}
		out.WriteByte('\n')
	}
	require.NoError(t, errors.Join(rows.Err(), rows.Close()))
	return out.String()
}

// sound requires that a file is whole, and holds nothing that nothing leads to.
func sound(t testing.TB, path string) {
	t.Helper()
	db := raw(t, path)
	defer db.Close()
	require.Equal(t, "ok", scalar(t, db, "PRAGMA integrity_check"))
	for what, query := range map[string]string{
		"rows that refer to none":              "SELECT count(*) FROM pragma_foreign_key_check",
		"deleted sessions without forks":       "SELECT count(*) FROM session s WHERE id IS NULL AND NOT EXISTS (SELECT 1 FROM session f WHERE f.parent_key = s.key)",
		"snapshots of deleted sessions":        "SELECT count(*) FROM snapshot o JOIN session s ON s.key = o.session WHERE s.id IS NULL",
		"forks that hang too low":              "SELECT count(*) FROM session f JOIN session p ON p.key = f.parent_key WHERE p.parent_key IS NOT NULL AND f.parent_seq <= p.parent_seq",
		"events behind the end or in the past": "SELECT count(*) FROM log e JOIN session s ON s.key = e.session WHERE s.id IS NOT NULL AND (e.seq > s.seq OR e.seq <= coalesce(s.parent_seq, 0))",
		"sessions without all of their events": "SELECT count(*) FROM session s WHERE id IS NOT NULL AND (SELECT count(*) FROM log WHERE session = key) <> seq - coalesce(parent_seq, 0)",
		"events that only deleted ones had": `SELECT count(*) FROM log e JOIN session s ON s.key = e.session
			WHERE s.id IS NULL AND e.seq > (SELECT max(f.parent_seq) FROM session f WHERE f.parent_key = s.key)`,
		"deleted ones that lack shared events": `SELECT count(*) FROM session s WHERE id IS NULL
			AND (SELECT count(*) FROM log WHERE session = key) <> (SELECT max(f.parent_seq) FROM session f WHERE f.parent_key = s.key) - coalesce(s.parent_seq, 0)`,
	} {
		require.Equal(t, "0", scalar(t, db, query), what)
	}
}

// allVersions requires that a file has had each migration once.
func allVersions(t testing.TB, path string) {
	t.Helper()
	files, err := os.ReadDir("migrations")
	require.NoError(t, err)
	var want strings.Builder
	for i, f := range files {
		fmt.Fprintf(&want, "%d|%s\n", i+1, f.Name())
	}
	require.Equal(t, want.String(), dump(t, path, "SELECT version, name FROM schema_version ORDER BY version"))
}

const schema = "SELECT type, name, tbl_name, replace(sql, '\"', '') FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%' ORDER BY name"

func TestMigrateFromVersion1(t *testing.T) {
	path := version1(t)
	const events = "SELECT * FROM event ORDER BY session, seq"
	const sessions = "SELECT key, app, user, id, seq, created, updated, lease_token, lease_host, lease_pid, lease_started, %s FROM session ORDER BY key"
	const state = "SELECT * FROM state ORDER BY app, scope, user, name"
	wantEvents, wantSessions, wantState := dump(t, path, events), dump(t, path, fmt.Sprintf(sessions, "lease_expires")), dump(t, path, state)
	require.NotEmpty(t, wantState)

	clock := sessiontest.NewClock() // as far as it had come
	clock.Advance(3 * time.Minute)
	s := open(t, path, sqlite.WithClock(clock.Now))
	require.Equal(t, wantEvents, dump(t, path, events))
	require.Equal(t, wantSessions, dump(t, path, fmt.Sprintf(sessions, "lease_until")))
	require.Equal(t, wantState, dump(t, path, state))
	sound(t, path)
	fresh := newFile(t)
	open(t, fresh)
	require.Equal(t, dump(t, fresh, schema), dump(t, path, schema))
	allVersions(t, path)

	infos, err := s.List(t.Context(), session.Key{}, session.Page{})
	require.NoError(t, err)
	require.Len(t, infos, 4, "and not the one that was only leased")
	for i, want := range []session.Info{
		{Key: session.Key{App: "shop", User: "ann", ID: "held"}, Seq: 4, Status: session.StatusOpen, Leased: true},
		{Key: session.Key{App: "shop", User: "bob", ID: "ünï/'cø\"dé\n"}, Seq: 70},
		{Key: session.Key{App: "shop", User: "ann", ID: "odd"}, Seq: 32, Status: session.StatusOpen},
		{Key: session.ID("story"), Seq: 29, Status: session.StatusDone},
	} {
		want.Created = clock.Now().Add(-time.Duration(i) * time.Minute)
		want.Updated, want.Incarnation = want.Created, infos[i].Incarnation
		require.Equal(t, want, infos[i])

		require.Len(t, loadAll(t, s, want.Key), int(want.Seq))
	}
	shared, err := s.SharedState(t.Context(), infos[1].Key)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"user:name": "Bob", "app:n": 7.0}, shared)

	// The lease that somebody held is held, and runs out.
	_, err = sessiontest.Acquire(t.Context(), s, infos[0].Key, session.Self())
	require.ErrorIs(t, err, agent.ErrSessionBusy)
	require.ErrorContains(t, err, "another.example")
	clock.Advance(session.LeaseTTL)
	lease, err := sessiontest.Acquire(t.Context(), s, infos[0].Key, session.Self())
	require.NoError(t, err)
	require.Equal(t, session.Lease{Token: clock.Now().UnixNano(), Nonce: lease.Nonce, Head: session.Head{Seq: 4}, Incarnation: 5}, lease)
	require.NoError(t, sessiontest.Append(t.Context(), s, infos[0].Key, 4, lease, batch(4, 2)...))

	// Keys continue where they were, and not after the last one that is left.
	lease, err = sessiontest.Acquire(t.Context(), s, session.ID("deleted"), session.Self())
	require.NoError(t, err)
	require.EqualValues(t, 8, lease.Incarnation)

	// And the foreign keys are back in force.
	require.NoError(t, s.Fork(t.Context(), infos[2].Key, 20, session.ID("fork")))
	require.NoError(t, s.Delete(t.Context(), infos[2].Key))
	require.Len(t, contents(t, s, session.ID("fork")), 20)
	sound(t, path)
}

// TestMigrateFromVersion3: a file with the table message loses it, and nothing else.
func TestMigrateFromVersion3(t *testing.T) {
	path := fileOf(t, 3)
	const everything = "SELECT key, app, user, id, seq, created, updated, parent_key, parent_seq, lease_token, lease_host, lease_pid, lease_started, lease_until, lease_expires FROM session ORDER BY key"
	const events = "SELECT * FROM event ORDER BY session, seq"
	const state = "SELECT * FROM state ORDER BY app, scope, user, name"
	before := []string{dump(t, path, everything), dump(t, path, events), dump(t, path, state)}
	require.NotEmpty(t, dump(t, path, "SELECT * FROM message"))

	// A program of that version, which has the file open.
	old := raw(t, path)
	begins, err := old.Prepare("INSERT INTO message (session, id, role, first_seq, completed) VALUES (1, 'new', 'user', 30, 0)")
	require.NoError(t, err)
	defer begins.Close()

	clock := sessiontest.NewClock()
	s := open(t, path, sqlite.WithClock(clock.Now))
	require.Equal(t, before, []string{dump(t, path, everything), dump(t, path, events), dump(t, path, state)})
	fresh := newFile(t)
	open(t, fresh)
	require.Equal(t, dump(t, fresh, schema), dump(t, path, schema))
	sound(t, path)
	_, err = begins.Exec()
	require.ErrorContains(t, err, "no such table", "it stores no message any more, and so none of its events")

	story, fork, orphan, held := session.ID("story"), session.ID("fork"), session.ID("orphan"), session.Key{App: "shop", User: "ann", ID: "held"}
	log := loadAll(t, s, story)
	require.Len(t, log, 29)
	require.Equal(t, log[:24], loadAll(t, s, fork)[:24])
	require.Len(t, loadAll(t, s, fork), 25)
	require.Len(t, loadAll(t, s, orphan), 4, "of a session that was deleted")
	_, err = sessiontest.Acquire(t.Context(), s, held, session.Self())
	require.ErrorIs(t, err, agent.ErrSessionBusy)
	clock.Advance(session.LeaseTTL)
	lease, err := sessiontest.Acquire(t.Context(), s, held, session.Self())
	require.NoError(t, err)
	require.NoError(t, sessiontest.Append(t.Context(), s, held, 9, lease, batch(9, 2)...))
	shared, err := s.SharedState(t.Context(), held)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"user:name": "Ann", "app:n": 7.0}, shared)
	for _, key := range []session.Key{story, fork, orphan} {
		require.NoError(t, s.Delete(t.Context(), key))
	}
	sound(t, path)
}

// TestMigrateFromVersion7: who was left behind before a program knew of orphans is none, and whoever comes after it is one.
// A program of that version that has the file open gets no lease any more. Bringing the file up to date reads no events.
func TestMigrateFromVersion7(t *testing.T) {
	path := newFile(t)
	db := raw(t, path)
	for n := 1; n <= 7; n++ {
		names, err := filepath.Glob(fmt.Sprintf("migrations/%04d_*.sql", n))
		require.NoError(t, err)
		script, err := os.ReadFile(names[0])
		require.NoError(t, err)
		_, err = db.Exec(string(script))
		require.NoError(t, err)
	}
	raw(t, path, "CREATE TABLE schema_version (version INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT", "INSERT INTO schema_version VALUES (7, '0007_lines.sql')",
		fmt.Sprintf("PRAGMA application_id = %d", 0x4172626f), "PRAGMA journal_mode = WAL",
		`INSERT INTO session (app, user, id, seq, created, updated, lease_token, lease_host, lease_pid, lease_started, lease_until)
			VALUES ('app', 'local', 'before', 1, 1, 1, 1, 'old.example', 1, 2, 3), ('app', 'local', 'after', 1, 2, 2, 0, NULL, NULL, NULL, NULL)`,
		"INSERT INTO log VALUES (1, 1, '{}'), (2, 1, '{}')", "INSERT INTO log VALUES (99, 1, 'nobody looks at it')")
	take, err := db.Prepare("UPDATE session SET lease_token = lease_token + 1, lease_host = ?, lease_pid = ?, lease_started = ?, lease_until = ? WHERE id = ? RETURNING key")
	require.NoError(t, err)
	defer take.Close()

	s := open(t, path)
	orphans := func() (ids []string) {
		t.Helper()
		infos, err := s.Orphans(t.Context(), session.Page{})
		require.NoError(t, err)
		for _, i := range infos {
			ids = append(ids, i.Key.ID)
		}
		return ids
	}
	require.Empty(t, orphans())
	var row int
	require.ErrorContains(t, take.QueryRow("old.example", 1, 2, 3, "after").Scan(&row), "end this one, and start the newer version")
	require.Empty(t, orphans())
	lease, err := sessiontest.Acquire(t.Context(), s, session.ID("before"), session.Self())
	require.NoError(t, err)
	require.NoError(t, sessiontest.Abandon(t.Context(), s, session.ID("before"), lease))
	require.Equal(t, []string{"before"}, orphans())
	_, err = db.Exec("UPDATE session SET lease_until = NULL WHERE id = 'before'")
	require.NoError(t, err)
	require.Empty(t, orphans(), "an older program has given it back")
}

// TestMigrateFromVersion10: the statuses of the sessions are those of their logs, forks and damaged events included. A program of that
// version that has the file open stores nothing any more.
func TestMigrateFromVersion10(t *testing.T) {
	old := newFile(t)
	script := []string{"CREATE TABLE schema_version (version INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT"}
	files, err := filepath.Glob("migrations/*.sql")
	require.NoError(t, err)
	for n, name := range files[:10] {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		script = append(script, string(text), fmt.Sprintf("INSERT INTO schema_version VALUES (%d, '%s')", n+1, filepath.Base(name)))
	}
	raw(t, old, append(script, fmt.Sprintf("PRAGMA application_id = %d", 0x4172626f), "PRAGMA journal_mode = WAL")...)

	// Sessions of this version, in a file that is put back to the version before.
	path := newFile(t)
	s := open(t, path)
	log := endings()
	for n := 1; n <= len(log); n++ {
		key := session.ID(fmt.Sprint("at", n))
		lease, err := sessiontest.Begin(t.Context(), s, key, 0, log[:n]...)
		require.NoError(t, err)
		if n != 5 { // whose lease is held
			require.NoError(t, sessiontest.Release(t.Context(), s, key, lease))
		}
	}
	whole := session.ID(fmt.Sprint("at", len(log)))
	for n := range len(log) {
		fork := session.ID(fmt.Sprint("fork", n))
		require.NoError(t, s.Fork(t.Context(), whole, int64(n), fork))
		require.NoError(t, s.Fork(t.Context(), fork, int64(n), session.ID(fmt.Sprint("again", n)), text(int64(n)+1, "x")))
	}
	require.NoError(t, s.Delete(t.Context(), whole))
	require.NoError(t, s.Close())
	db := raw(t, path, "DROP INDEX session_status", "DROP VIEW turning", "DROP TRIGGER session_lease_of_schema_10", "DROP TRIGGER held_taken",
		"UPDATE session SET lease = token WHERE id IS NOT NULL", "ALTER TABLE session DROP COLUMN token", "ALTER TABLE session DROP COLUMN status",
		`CREATE TRIGGER held_taken AFTER UPDATE OF lease ON session WHEN NEW.lease_until IS NOT NULL AND NEW.lease <> OLD.lease BEGIN
	INSERT OR IGNORE INTO held (session) VALUES (NEW.key);
END`,
		"DELETE FROM schema_version WHERE version = 11",
		"UPDATE log SET line = 'harness_end ? ? {' WHERE session = 4 AND seq = 4", "UPDATE log SET line = '{' WHERE session = 3 AND seq = 3")
	require.Equal(t, dump(t, old, schema), dump(t, path, schema))
	writes, err := db.Prepare("UPDATE session SET lease = ?, seq = ? WHERE id = 'at5'")
	require.NoError(t, err)
	defer writes.Close()
	reads, err := db.Prepare("SELECT seq, lease FROM session WHERE id = 'at5'")
	require.NoError(t, err)
	defer reads.Close()
	tokens := dump(t, path, "SELECT key, lease, lease_nonce, lease_until FROM session ORDER BY key")

	s = open(t, path)
	fresh := newFile(t)
	open(t, fresh)
	require.Equal(t, dump(t, fresh, schema), dump(t, path, schema))
	allVersions(t, path)
	sound(t, path)
	require.Equal(t, tokens, dump(t, path, "SELECT key, token, lease_nonce, lease_until FROM session ORDER BY key"))
	infos, err := s.List(t.Context(), session.Key{}, session.Page{})
	require.NoError(t, err)
	require.Len(t, infos, 3*len(log)-1)
	seen := map[session.Status]int{}
	for _, i := range infos {
		var fold session.Fold
		for _, e := range loadAll(t, s, i.Key) {
			fold.Apply(e)
		}
		require.Equal(t, fold.Status(), i.Status, i.Key.String())
		seen[i.Status]++
	}
	require.Len(t, seen, 6)
	_, err = writes.Exec(1, 100)
	require.ErrorContains(t, err, "end this one, and start the newer version")
	var seq, token int64
	require.NoError(t, reads.QueryRow().Scan(&seq, &token))
	require.EqualValues(t, 5, seq)

	// And the sessions continue.
	next := session.ID("at6")
	lease, err := sessiontest.Begin(t.Context(), s, next, 6, log[6])
	require.NoError(t, err)
	require.EqualValues(t, 7, lease.Head.Seq)
	info, _, err := session.Find(t.Context(), s, next)
	require.NoError(t, err)
	require.Equal(t, session.Status("").After(log[:7]...), info.Status)
}

// endings is a log of turns that end in each way.
func endings() (log []*event.Event) {
	add := func(turn, scope string, data event.Data) {
		n := int64(len(log)) + 1
		e := text(n, "x")
		e.TurnID, e.Scope, e.Data = turn, scope, data
		if n%3 == 0 {
			e.ID = fmt.Sprint("a word ", n) // it is stored as whole JSON
		}
		log = append(log, e)
	}
	for i, reason := range []event.FinishReason{event.FinishReasonStop, event.FinishReasonInputRequired, event.FinishReasonTransfer, event.FinishReasonError,
		event.FinishReasonLimit, event.FinishReasonCanceled, event.FinishReasonLength} {
		turn := fmt.Sprint("t", i)
		add(turn, "", &event.User{Content: llm.Content{Text: `{"type":"harness_end"}`}})
		add(turn, "", &event.HarnessStart{})
		add(turn, "inner", &event.HarnessEnd{FinishReason: event.FinishReasonError})
		add(turn, "", &event.State{Delta: map[string]any{"type": "user"}})
		add(turn, "", &event.HarnessEnd{FinishReason: reason})
		add(turn, "", &event.Text{Content: "harness_end"})
	}
	return log
}

// TestMigrationIsWholeOrNot: a file that cannot be brought up to date stays as it
// is, so that the program that wrote it still works.
func TestMigrationIsWholeOrNot(t *testing.T) {
	path := version1(t, "PRAGMA foreign_keys = OFF", `INSERT INTO event VALUES (99, 1, '{}')`)
	everything := func() string {
		return dump(t, path, schema) + dump(t, path, "SELECT * FROM event") + dump(t, path, "SELECT * FROM session") + dump(t, path, "SELECT * FROM sqlite_sequence")
	}
	before := everything()
	for range 2 {
		_, err := sqlite.Open(path)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "1 rows belong to sessions that do not exist")
	}
	require.Equal(t, before, everything())
	raw(t, path, "DELETE FROM event WHERE session = 99")
	require.Len(t, contents(t, open(t, path), session.ID("story")), 29)
}

// TestMigrateDamagedEvent: what cannot be read is the loss of one event.
func TestMigrateDamagedEvent(t *testing.T) {
	path := version1(t, "UPDATE event SET json = '{' WHERE session = 2 AND seq = 1")
	s := open(t, path)
	for e, err := range s.Load(t.Context(), session.ID("story"), 0) {
		require.NoError(t, err)
		require.Equal(t, e.Seq == 1, e.Type() == event.TypeUnreadable)
	}
	require.Len(t, contents(t, s, session.Key{App: "shop", User: "ann", ID: "odd"}), 32)
	require.NoError(t, s.Delete(t.Context(), session.ID("story")))
	sound(t, path)
}

// TestManyMigrateAtOnce: programs that start together all find the file ready.
func TestManyMigrateAtOnce(t *testing.T) {
	path := version1(t)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = playOpen(path, fmt.Sprint(i)) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	s := open(t, path)
	for i := range errs {
		require.Len(t, contents(t, s, session.ID(fmt.Sprint(i))), 2)
	}
	require.Len(t, contents(t, s, session.ID("story")), 29)
	allVersions(t, path)
	sound(t, path)
}

// program1 is what a program that knows only the first schema has prepared while
// it opened the file.
type program1 struct {
	t *testing.T
	*sql.DB
	stmts map[string]*sql.Stmt
}

func openProgram1(t *testing.T, path string) *program1 {
	p := &program1{t: t, DB: raw(t, path, "PRAGMA foreign_keys = ON"), stmts: map[string]*sql.Stmt{}}
	const take = "UPDATE session SET lease_token = lease_token + 1, lease_host = ?, lease_pid = ?, lease_started = ?, lease_expires = ? "
	for name, query := range map[string]string{
		"advance": `UPDATE session SET seq = ?, updated = ?, created = coalesce(created, ?)
			WHERE key = ? AND lease_token = ? AND lease_expires IS NOT NULL AND seq = ? AND app = ? AND user = ? AND id = ?`,
		"holder": `SELECT seq FROM session WHERE key = ? AND lease_token = ? AND lease_expires IS NOT NULL AND app = ? AND user = ? AND id = ?`,
		"delete": "DELETE FROM session WHERE app = ? AND user = ? AND id = ?",
		"take": take + `WHERE app = ? AND user = ? AND id = ? AND (lease_expires IS NULL OR lease_expires <= ?)
			RETURNING key, lease_token, seq`,
		"create": `INSERT INTO session (app, user, id, lease_token, lease_host, lease_pid, lease_started, lease_expires)
			VALUES (?, ?, ?, 1, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING key, lease_token, seq`,
		"renew": `UPDATE session SET lease_expires = ?
			WHERE key = ? AND lease_token = ? AND lease_expires IS NOT NULL AND app = ? AND user = ? AND id = ?`,
		"release": `UPDATE session SET lease_expires = NULL
			WHERE key = ? AND lease_token = ? AND lease_expires IS NOT NULL AND app = ? AND user = ? AND id = ?`,
		"find": "SELECT key, seq FROM session WHERE app = ? AND user = ? AND id = ?",
		"page": "SELECT seq, json FROM event WHERE session = ? AND seq > ? AND seq <= ? ORDER BY seq",
		"list": `SELECT app, user, id, seq, created, updated FROM session
			WHERE seq > 0 AND (?1 = '' OR app = ?1) AND (?2 = '' OR user = ?2) AND (?3 = '' OR id = ?3)
			ORDER BY updated DESC, app, user, id`,
	} {
		stmt, err := p.Prepare(query)
		require.NoError(t, err, name)
		t.Cleanup(func() { require.NoError(t, stmt.Close()) })
		p.stmts[name] = stmt
	}
	return p
}

// rows runs a statement and returns the number of rows that it yields.
func (p *program1) rows(name string, args ...any) (n int, err error) {
	rows, err := p.stmts[name].Query(args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}

func (p *program1) changes(name string, args ...any) int64 {
	result, err := p.stmts[name].Exec(args...)
	require.NoError(p.t, err, name)
	n, err := result.RowsAffected()
	require.NoError(p.t, err)
	return n
}

// TestProgramOfVersion1GoesOn: a program that opened the file before it was
// brought up to date loses its leases, gets an error that says why it gets no
// others, and can damage nothing. It can read the sessions that are no forks.
func TestProgramOfVersion1GoesOn(t *testing.T) {
	path := version1(t)
	old := openProgram1(t, path)
	clock := sessiontest.NewClock()
	now := clock.Now().UnixNano()
	n, err := old.rows("take", "old.example", 1, 2, now+int64(session.LeaseTTL), "app", "local", "story", now)
	require.NoError(t, err)
	require.Equal(t, 1, n, "before, it gets a lease")

	s := open(t, path, sqlite.WithClock(clock.Now))
	story := session.ID("story")
	_, err = sessiontest.Acquire(t.Context(), s, story, session.Self())
	require.ErrorIs(t, err, agent.ErrSessionBusy, "the old program's lease is respected")

	ofStory := []any{2, 3, "app", "local", "story"}
	require.Zero(t, old.changes("renew", append([]any{now}, ofStory...)...), "a lease that was lost")
	require.Zero(t, old.changes("advance", 30, now, now, 2, 3, 29, "app", "local", "story"), "so nothing is appended")
	n, err = old.rows("holder", ofStory...)
	require.NoError(t, err)
	require.Zero(t, n, "and the error is a conflict")
	require.Zero(t, old.changes("release", ofStory...))
	const says = "a newer version of this program has brought the file up to date"
	_, err = old.rows("take", "old.example", 1, 2, now, "app", "local", "story", now)
	require.ErrorContains(t, err, says)
	_, err = old.rows("create", "app", "local", "new", "old.example", 1, 2, now)
	require.ErrorContains(t, err, says)
	_, err = old.stmts["delete"].Exec("app", "local", "story")
	require.ErrorContains(t, err, says)

	clock.Advance(session.LeaseTTL) // which it could not renew
	lease, err := sessiontest.Acquire(t.Context(), s, story, session.Self())
	require.NoError(t, err)
	require.NoError(t, sessiontest.Append(t.Context(), s, story, 29, lease, batch(29, 3)...))
	require.NoError(t, s.Fork(t.Context(), story, 31, session.ID("fork")))
	require.NoError(t, s.Delete(t.Context(), session.Key{App: "shop", User: "bob", ID: "ünï/'cø\"dé\n"}))
	n, err = old.rows("page", 2, 0, 100)
	require.NoError(t, err)
	require.Equal(t, 32, n, "it reads what is new")
	require.NoError(t, s.Delete(t.Context(), story))
	n, err = old.rows("find", "app", "local", "story")
	require.NoError(t, err)
	require.Zero(t, n, "and misses what was deleted")
	n, err = old.rows("list", "", "", "")
	require.NoError(t, err)
	require.Equal(t, 3, n, "two are left, and the fork")
	require.Len(t, contents(t, s, session.ID("fork")), 31)
	sound(t, path)
}
