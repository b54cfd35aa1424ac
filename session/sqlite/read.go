package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/internal/rows"
)

// reader is a pool of connections that only read. In WAL mode they can read while a connection writes. No connection
// is held while a caller's code runs.
type reader struct {
	find, line, page, state, info, orphans, blob, snapshots *sql.Stmt
	all, allStatus, ofUser, ofUserStatus                    *sql.Stmt // the statements of List

	closed <-chan struct{} // closed with the store
}

const (
	info = `SELECT s.app, s.user, s.id, s.seq, s.created, s.updated,
			coalesce(s.parent_seq, 0), coalesce(p.app, ''), coalesce(p.user, ''), coalesce(p.id, ''), s.key,
			coalesce(s.head, ''), s.status, coalesce(s.lease_until, 0), coalesce(s.lease_host, ''), coalesce(s.lease_pid, 0), coalesce(s.lease_started, 0)
		FROM `
	listed = ` LEFT JOIN session p ON p.key = s.parent_key
		WHERE s.id IS NOT NULL AND s.created IS NOT NULL`
	infos = info + "session s" + listed
	// A page of this list is a part of an index.
	ofUser       = infos + ofUserPage
	ofUserStatus = infos + " AND s.status = ?8" + ofUserPage
	ofUserPage   = ` AND s.app = ?1 AND s.user = ?2
		AND s.updated <= ?3 AND (s.updated < ?3 OR (?1, ?2, s.id) > (?4, ?5, ?6))
		ORDER BY s.updated DESC, s.id LIMIT ?7`
	all       = infos + allPage
	allStatus = infos + " AND s.status = ?9" + allPage
	allPage   = ` AND (?1 = '' OR s.app = ?1) AND (?2 = '' OR s.user = ?2) AND (?3 = '' OR s.id = ?3)
		AND s.updated <= ?4 AND (s.updated < ?4 OR (s.app, s.user, s.id) > (?5, ?6, ?7))
		ORDER BY s.updated DESC, s.app, s.user, s.id LIMIT ?8`
	// The sessions with a lease, except valid leases of this process.
	orphans = info + "held h CROSS JOIN session s ON s.key = h.session" + listed + ` AND s.lease_until IS NOT NULL
		AND (s.updated < ?1 OR s.updated = ?1 AND (s.app, s.user, s.id) > (?2, ?3, ?4))
		AND NOT (s.lease_until > ?5 AND s.lease_until <= ?6 AND (s.lease_host, s.lease_pid, s.lease_started) = (?7, ?8, ?9))
		ORDER BY s.updated DESC, s.app, s.user, s.id`
)

func newReader(p *preparer, closed <-chan struct{}) *reader {
	return &reader{
		closed: closed,
		// The key of a fork that shares events is negated: one more column would make
		// every load slower.
		find: p.prepare("SELECT iif(parent_seq > 0, -key, key), seq FROM session WHERE app = ? AND user = ? AND id = ?"),
		line: p.prepare(`WITH RECURSIVE line (key, parent, after, upto) AS (
				SELECT key, parent_key, coalesce(parent_seq, 0), seq FROM session WHERE key = ?1
				UNION ALL
				SELECT s.key, s.parent_key, coalesce(s.parent_seq, 0), line.after FROM line CROSS JOIN session s ON s.key = line.parent
				WHERE line.after > ?2)
			SELECT key, upto FROM line WHERE upto > max(after, ?2) ORDER BY upto`),
		page: p.prepare("SELECT seq, line FROM log WHERE session = ? AND seq > ? AND seq <= ? ORDER BY seq"),
		state: p.prepare(`SELECT name, value FROM state WHERE app = ? AND scope = 'app' AND user = ''
			UNION ALL SELECT name, value FROM state WHERE app = ? AND scope = 'user' AND user = ?`),
		all:       p.prepare(all),
		allStatus: p.prepare(allStatus),
		ofUser:    p.prepare(ofUser), ofUserStatus: p.prepare(ofUserStatus),
		orphans: p.prepare(orphans),
		blob: p.prepare(`WITH RECURSIVE line (key, parent, shared, before) AS (
				SELECT key, parent_key, parent_seq, 9223372036854775807 FROM session WHERE app = ? AND user = ? AND id = ?
				UNION ALL
				SELECT s.key, s.parent_key, s.parent_seq, min(line.before, line.shared) FROM line CROSS JOIN session s ON s.key = line.parent)
			SELECT data FROM line CROSS JOIN blob ON blob.session = line.key WHERE blob.digest = ? AND blob.seq < before LIMIT 1`),
		// The driver copies a text once, and a blob twice.
		snapshots: p.prepare(`SELECT o.part, o.seq, CAST(o.data AS TEXT) FROM session s CROSS JOIN snapshot o ON o.session = s.key
			WHERE s.app = ? AND s.user = ? AND s.id = ? AND o.name = ? ORDER BY o.part`),
		// This statement has no range, for which SQLite would plan again at each call.
		info: p.prepare(infos + " AND s.app = ? AND s.user = ? AND s.id = ?"),
	}
}

// Load implements [session.Store]. It reads the events that exist when it starts, page by page, and holds no
// connection while it yields. If the session is deleted meanwhile, it ends with an error that is [agent.ErrConflict].
func (s *Store) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if err := s.load(ctx, key, max(after, 0), yield); err != nil {
			yield(nil, s.file.explain("load from", err))
		}
	}
}

func (s *Store) load(ctx context.Context, key session.Key, after int64, yield func(*event.Event, error) bool) error {
	var row, seq int64
	if found, err := queryOne(ctx, s.reader.find, []any{key.App, key.User, key.ID}, &row, &seq); err != nil || !found {
		return s.reader.failed(ctx, err)
	}
	line := []rows.Segment{{Row: row, End: seq}}
	if row < 0 && after < seq {
		line = line[:0]
		err := s.reader.each(ctx, s.reader.line, []any{-row, after}, func(r *sql.Rows) error {
			var part rows.Segment
			if err := r.Scan(&part.Row, &part.End); err != nil {
				return err
			}
			part.End = min(part.End, seq) // leave out events that were stored after the load started
			line = append(line, part)
			return nil
		})
		if err != nil {
			return fmt.Errorf("session %s: %w", key, err)
		}
		if len(line) == 0 {
			return rows.Deleted(key)
		}
	}
	log := rows.NewLog(key, after)
	return log.Segments(ctx, line, func(part rows.Segment) error { return s.readPage(ctx, log, part) }, yield)
}

func (s *Store) readPage(ctx context.Context, log *rows.Log, part rows.Segment) error {
	var seq int64
	var line sql.RawBytes
	dest := []any{&seq, &line}
	return s.reader.each(ctx, s.reader.page, []any{part.Row, log.After, min(log.After+log.Size, part.End)}, func(r *sql.Rows) error {
		if log.Full() {
			return errEnough
		}
		if err := r.Scan(dest...); err != nil {
			return err
		}
		return log.Take(seq, line)
	})
}

// failed returns the context's error if the context has ended, because the error of a canceled statement depends on
// where it was.
func (q *reader) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case <-q.closed:
		return errClosed
	default:
		return err
	}
}

// SharedState implements [session.Store].
func (s *Store) SharedState(ctx context.Context, key session.Key) (map[string]any, error) {
	out := make(map[string]any)
	err := s.reader.each(ctx, s.reader.state, []any{key.App, key.App, key.User}, func(r *sql.Rows) error {
		var name string
		var text sql.RawBytes
		if err := r.Scan(&name, &text); err != nil {
			return err
		}
		out[name] = event.DecodeValue(text)
		return nil
	})
	if err != nil {
		return nil, s.file.explain("read the shared state in", err)
	}
	return out, nil
}

// List implements [session.Store].
func (s *Store) List(ctx context.Context, filter session.Key, page session.Page) ([]session.Info, error) {
	if err := page.Check(); err != nil {
		return nil, err
	}
	limit := -1 // all
	if page.Limit > 0 {
		limit = page.Limit
	}
	place := append(after(page), limit)
	if page.Status != "" {
		place = append(place, string(page.Status))
	}
	stmt, with, args := s.reader.all, s.reader.allStatus, append([]any{filter.App, filter.User, filter.ID}, place...)
	switch {
	case filter.App == "" || filter.User == "":
	case filter.ID != "":
		stmt, with, args = s.reader.info, s.reader.info, args[:3]
	default:
		stmt, with, args = s.reader.ofUser, s.reader.ofUserStatus, append([]any{filter.App, filter.User}, place...)
	}
	if page.Status != "" {
		stmt = with
	}
	var out []session.Info
	err := s.reader.each(ctx, stmt, args, func(r *sql.Rows) error {
		i, err := s.scanInfo(r)
		if err != nil || !page.Has(i) { // the statement for one session ignores the page
			return err
		}
		out = append(out, i)
		return nil
	})
	if err != nil {
		return nil, s.file.explain("list the sessions in", err)
	}
	return out, nil
}

// after returns the arguments with which a page starts.
func after(page session.Page) []any {
	at := int64(math.MaxInt64) // excludes nothing
	if page.After != (session.Place{}) {
		at = page.After.Updated.UnixNano()
	}
	return []any{at, page.After.Key.App, page.After.Key.User, page.After.Key.ID}
}

func (s *Store) scanInfo(r *sql.Rows) (i session.Info, err error) {
	var created, updated, until int64
	var holder session.Owner
	err = r.Scan(&i.Key.App, &i.Key.User, &i.Key.ID, &i.Seq, &created, &updated,
		&i.ParentSeq, &i.Parent.App, &i.Parent.User, &i.Parent.ID, &i.Incarnation, &i.LastID, &i.Status, &until, &holder.Host, &holder.PID, &holder.Started)
	i.Leased = session.Leased(time.Unix(0, until), s.now()) && session.Alive(holder)
	i.Created, i.Updated = time.Unix(0, created).UTC(), time.Unix(0, updated).UTC()
	return i, err
}

// Orphans implements [session.Store]. It reads the sessions whose lease is held, or was held by a process that has
// died.
func (s *Store) Orphans(ctx context.Context, page session.Page) ([]session.Info, error) {
	if err := page.Check(); err != nil {
		return nil, err
	}
	now, me := s.now(), session.Self()
	args := append(after(page), now.UnixNano(), now.Add(session.LeaseTTL).UnixNano(), me.Host, me.PID, me.Started)
	var out []session.Info
	err := s.reader.each(ctx, s.reader.orphans, args, func(r *sql.Rows) error {
		i, err := s.scanInfo(r)
		if err != nil || i.Leased || !page.Has(i) {
			return err
		}
		if out = append(out, i); len(out) == page.Limit {
			return errEnough
		}
		return nil
	})
	if err != nil {
		return nil, s.file.explain("look for orphans in", err)
	}
	return out, nil
}

// errEnough ends the reading of rows without an error.
var errEnough = errors.New("enough")

func (q *reader) each(ctx context.Context, stmt *sql.Stmt, args []any, do func(*sql.Rows) error) error {
	r, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return q.failed(ctx, err)
	}
	for r.Next() && err == nil {
		err = do(r)
	}
	if err = errors.Join(err, r.Err(), r.Close()); errors.Is(err, errEnough) {
		return nil
	}
	return q.failed(ctx, err)
}
