package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/internal/rows"
)

const (
	infoSQL = `SELECT s.app, s.user, s.id, s.seq, s.created, s.updated,
			coalesce(s.parent_seq, 0), coalesce(p.app, ''), coalesce(p.user, ''), coalesce(p.id, ''), s.key,
			coalesce(s.head, ''), s.status, coalesce(s.lease_until, 0), coalesce(s.lease_host, ''), coalesce(s.lease_pid, 0), coalesce(s.lease_started, 0)
		FROM `
	listedSQL = ` LEFT JOIN session p ON p.key = s.parent_key
		WHERE s.id IS NOT NULL AND s.updated IS NOT NULL`
	listSQL = infoSQL + "session s" + listedSQL
	// The sessions with a lease, except valid leases of this process.
	orphansSQL = infoSQL + "held h CROSS JOIN session s ON s.key = h.session" + listedSQL + ` AND s.lease_until IS NOT NULL
		AND NOT (s.lease_until > ?1 AND s.lease_until <= ?2 AND (s.lease_host, s.lease_pid, s.lease_started) = (?3, ?4, ?5))`

	// The key of a fork that shares events is negated: one more column would make every load slower.
	findSQL = "SELECT iif(parent_seq > 0, -key, key), seq FROM session WHERE app = ? AND user = ? AND id = ?"
	lineSQL = `WITH RECURSIVE line (key, parent, after, upto) AS (
			SELECT key, parent_key, coalesce(parent_seq, 0), seq FROM session WHERE key = ?1
			UNION ALL
			SELECT s.key, s.parent_key, coalesce(s.parent_seq, 0), line.after FROM line CROSS JOIN session s ON s.key = line.parent
			WHERE line.after > ?2)
		SELECT key, upto FROM line WHERE upto > max(after, ?2) ORDER BY upto`
	pageSQL  = "SELECT seq, line FROM log WHERE session = ? AND seq > ? AND seq <= ? ORDER BY seq"
	stateSQL = `SELECT name, value FROM state WHERE app = ? AND scope = 'app' AND user = ''
		UNION ALL SELECT name, value FROM state WHERE app = ? AND scope = 'user' AND user = ?`
)

// Load implements [session.Store]. It reads the events that exist when it starts, page by page, and holds no
// connection while it yields. If the session is deleted meanwhile, it ends with an error that is [agent.ErrConflict].
func (s *Store) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if err := s.load(ctx, key, max(after, 0), yield); err != nil {
			yield(nil, s.failed(ctx, "load from", err))
		}
	}
}

func (s *Store) load(ctx context.Context, key session.Key, after int64, yield func(*event.Event, error) bool) error {
	var row, seq int64
	if found, err := s.reader.one(ctx, findSQL, []any{key.App, key.User, key.ID}, &row, &seq); err != nil || !found {
		return err
	}
	line := []rows.Segment{{Row: row, End: seq}}
	if row < 0 && after < seq {
		line = line[:0]
		err := s.reader.each(ctx, lineSQL, []any{-row, after}, func(r *sql.Rows) error {
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
	return s.reader.each(ctx, pageSQL, []any{part.Row, log.After, min(log.After+log.Size, part.End)}, func(r *sql.Rows) error {
		if log.Full() {
			return errEnough
		}
		if err := r.Scan(dest...); err != nil {
			return err
		}
		return log.Take(seq, line)
	})
}

// failed returns the error of a read that failed. It is the context's error if the context has ended, because the
// error of a canceled statement depends on where it was.
func (s *Store) failed(ctx context.Context, doing string, err error) error {
	select {
	case <-s.closed:
		err = errClosed
	default:
		err = cmp.Or(ctx.Err(), err)
	}
	return s.file.explain(doing, err)
}

// SharedState implements [session.Store].
func (s *Store) SharedState(ctx context.Context, key session.Key) (map[string]any, error) {
	out := make(map[string]any)
	err := s.reader.each(ctx, stateSQL, []any{key.App, key.App, key.User}, func(r *sql.Rows) error {
		var name string
		var text sql.RawBytes
		if err := r.Scan(&name, &text); err != nil {
			return err
		}
		out[name] = event.DecodeValue(text)
		return nil
	})
	if err != nil {
		return nil, s.failed(ctx, "read the shared state in", err)
	}
	return out, nil
}

// List implements [session.Store].
func (s *Store) List(ctx context.Context, filter session.Key, page session.Page) ([]session.Info, error) {
	if err := page.Check(); err != nil {
		return nil, err
	}
	return s.infos(ctx, "list the sessions in", list(filter, page), page.Limit, func(session.Info) bool { return true })
}

// list returns the statement for a page of the list.
func list(filter session.Key, page session.Page) *rows.Query {
	q := newQuery(listSQL)
	q.Filter(filter)
	q.Page(page, page.After.Updated.UnixNano())
	return q
}

// orphans returns the statement for the sessions of a page that may be orphans. It ignores the page's limit.
func orphans(page session.Page, now time.Time) *rows.Query {
	me := session.Self()
	q := newQuery(orphansSQL, now.UnixNano(), now.Add(session.LeaseTTL).UnixNano(), me.Host, me.PID, me.Started)
	page.Limit = 0
	q.Page(page, page.After.Updated.UnixNano())
	return q
}

func newQuery(sql string, args ...any) *rows.Query {
	return &rows.Query{SQL: sql, Args: args, Mark: "?", User: "user"}
}

// infos reads sessions up to a limit, if it is not 0, and returns those for which has returns true.
func (s *Store) infos(ctx context.Context, doing string, query *rows.Query, limit int, has func(session.Info) bool) (out []session.Info, err error) {
	err = s.reader.each(ctx, query.SQL, query.Args, func(r *sql.Rows) error {
		var i session.Info
		var created, updated, until int64
		var holder session.Owner
		err := r.Scan(&i.Key.App, &i.Key.User, &i.Key.ID, &i.Seq, &created, &updated,
			&i.ParentSeq, &i.Parent.App, &i.Parent.User, &i.Parent.ID, &i.Incarnation, &i.LastID, &i.Status, &until, &holder.Host, &holder.PID, &holder.Started)
		i.Leased = session.Leased(time.Unix(0, until), s.now()) && session.Alive(holder)
		i.Created, i.Updated = time.Unix(0, created).UTC(), time.Unix(0, updated).UTC()
		if err != nil || !has(i) {
			return err
		}
		if out = append(out, i); len(out) == limit {
			return errEnough
		}
		return nil
	})
	if err != nil {
		return nil, s.failed(ctx, doing, err)
	}
	return out, nil
}

// Orphans implements [session.Store]. It reads the sessions whose lease is held, or was held by a process that has
// died.
func (s *Store) Orphans(ctx context.Context, page session.Page) ([]session.Info, error) {
	if err := page.Check(); err != nil {
		return nil, err
	}
	return s.infos(ctx, "look for orphans in", orphans(page, s.now()), page.Limit, func(i session.Info) bool { return !i.Leased })
}
