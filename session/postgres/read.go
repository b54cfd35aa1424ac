package postgres

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/internal/rows"
)

const (
	// The first page comes with the session's row. Most loads need no other page.
	findSQL = `SELECT s.key, s.seq, coalesce(s.parent_seq, 0), coalesce(e.seq, 0), e.line
		FROM arbor.session s LEFT JOIN LATERAL (
			SELECT seq, line FROM arbor.log WHERE session = s.key AND seq > $4 AND $4 >= coalesce(s.parent_seq, 0) ORDER BY seq LIMIT $5
		) e ON true
		WHERE s.app = $1 AND s.user_id = $2 AND s.id = $3 ORDER BY e.seq`
	lineSQL = `WITH RECURSIVE line (key, parent, after, upto) AS (
			SELECT key, parent_key, coalesce(parent_seq, 0), seq FROM arbor.session WHERE key = $1 AND id IS NOT NULL
			UNION ALL
			SELECT s.key, s.parent_key, coalesce(s.parent_seq, 0), line.after FROM line JOIN arbor.session s ON s.key = line.parent
			WHERE line.after > $2)
		SELECT key, upto FROM line WHERE upto > greatest(after, $2) ORDER BY upto`
	pageSQL   = `SELECT seq, line FROM arbor.log WHERE session = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4`
	sharedSQL = `SELECT name, value::text FROM arbor.state
		WHERE app = $1 AND value IS NOT NULL AND (scope = 'app' AND user_id = '' OR scope = 'user' AND user_id = $2)`
	listSQL = `SELECT s.app, s.user_id, s.id, s.seq, s.created, s.updated,
			coalesce(s.parent_seq, 0), coalesce(p.app, ''), coalesce(p.user_id, ''), coalesce(p.id, ''), s.key, coalesce(s.head, ''), s.status,
			coalesce(s.lease_until > coalesce($1, clock_timestamp()) AND s.lease_until <= coalesce($1, clock_timestamp()) + $2::interval, false),
			coalesce(s.lease_host, ''), coalesce(s.lease_pid, 0), coalesce(s.lease_started, 0)
		FROM arbor.session s LEFT JOIN arbor.session p ON p.key = s.parent_key
		WHERE s.id IS NOT NULL AND s.updated IS NOT NULL`
	// The sessions with a lease, except valid leases of this process and of other hosts. The planner assumes
	// that the array is short, and so uses the index whatever its statistics say.
	orphansSQL = listSQL + ` AND s.key = ANY (ARRAY(SELECT session FROM arbor.held)) AND s.lease_until IS NOT NULL
		AND NOT (s.lease_until > coalesce($1, clock_timestamp()) AND s.lease_until <= coalesce($1, clock_timestamp()) + $2::interval
			AND (s.lease_host <> $3 OR s.lease_pid = $4 AND s.lease_started = $5))`
)

// Load implements [session.Store]. It reads the events that exist when it starts, page by page, and holds no
// connection while it yields. If the session is deleted meanwhile, it ends with an error that is [agent.ErrConflict].
func (s *Store) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		err := checkKey(key)
		if err == nil {
			err = s.load(ctx, key, max(after, 0), yield)
		}
		if err != nil {
			yield(nil, s.explain("load from", err))
		}
	}
}

func (s *Store) load(ctx context.Context, key session.Key, after int64, yield func(*event.Event, error) bool) error {
	log := rows.NewLog(key, after)
	var whole rows.Segment
	var shared int64
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		whole = rows.Segment{}
		log.Clear()
		result, _ := conn.Query(ctx, findSQL, key.App, key.User, key.ID, after, log.Size)
		return take(log, result, &whole.Row, &whole.End, &shared)
	})
	if err != nil {
		return err
	}
	if more, err := log.Yield(ctx, yield); err != nil || !more || log.After >= whole.End {
		return err
	}
	line := []rows.Segment{whole}
	if log.After < shared {
		if line, err = s.segments(ctx, log, whole); err != nil {
			return err
		}
	}
	return log.Segments(ctx, line, func(part rows.Segment) error { return s.page(ctx, log, part) }, yield)
}

// segments returns the segments of the rest of a fork's log, in order.
func (s *Store) segments(ctx context.Context, log *rows.Log, whole rows.Segment) (line []rows.Segment, err error) {
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		result, _ := conn.Query(ctx, lineSQL, whole.Row, log.After)
		line, err = pgx.CollectRows(result, func(row pgx.CollectableRow) (part rows.Segment, err error) {
			err = row.Scan(&part.Row, &part.End)
			part.End = min(part.End, whole.End) // leave out events that were stored after the load started
			return part, err
		})
		return err
	})
	if err == nil && len(line) == 0 {
		err = rows.Deleted(log.Key)
	}
	return line, err
}

func (s *Store) page(ctx context.Context, log *rows.Log, part rows.Segment) error {
	return s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		log.Clear()
		result, _ := conn.Query(ctx, pageSQL, part.Row, log.After, part.End, log.Size)
		return take(log, result)
	})
}

// take adds events to the page. The columns of the result are those of dest, the position, which is 0 if there is no
// event, and the line.
func take(log *rows.Log, result pgx.Rows, dest ...any) error {
	var seq int64
	var line pgtype.DriverBytes // valid until the next row
	_, err := pgx.ForEachRow(result, append(dest, &seq, &line), func() error {
		if seq == 0 {
			return nil
		}
		return log.Take(seq, line)
	})
	return err
}

// SharedState implements [session.Store].
func (s *Store) SharedState(ctx context.Context, key session.Key) (map[string]any, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	out := make(map[string]any)
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		clear(out)
		result, _ := conn.Query(ctx, sharedSQL, key.App, key.User)
		var name, stored []byte
		_, err := pgx.ForEachRow(result, []any{&name, &stored}, func() error {
			out[string(name)] = event.DecodeValue(stored)
			return nil
		})
		return err
	})
	if err != nil {
		return nil, s.explain("read the shared state in", err)
	}
	return out, nil
}

// List implements [session.Store].
func (s *Store) List(ctx context.Context, filter session.Key, page session.Page) ([]session.Info, error) {
	if err := errors.Join(checkKey(filter), checkKey(page.After.Key), page.Check()); err != nil {
		return nil, err
	}
	out, err := s.infos(ctx, list(filter, page, s.time()))
	if err != nil {
		return nil, s.explain("list the sessions in", err)
	}
	return out, nil
}

func (s *Store) infos(ctx context.Context, query *rows.Query) (out []session.Info, err error) {
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		result, _ := conn.Query(ctx, query.SQL, query.Args...)
		out, err = pgx.CollectRows(result, func(row pgx.CollectableRow) (i session.Info, err error) {
			var created, updated time.Time
			var holder session.Owner
			var last []byte
			err = row.Scan(&i.Key.App, &i.Key.User, &i.Key.ID, &i.Seq, &created, &updated, &i.ParentSeq, &i.Parent.App, &i.Parent.User, &i.Parent.ID, &i.Incarnation,
				&last, &i.Status, &i.Leased, &holder.Host, &holder.PID, &holder.Started)
			i.LastID, i.Leased = string(last), i.Leased && session.Alive(holder)
			i.Created, i.Updated = created.UTC(), updated.UTC()
			return i, err
		})
		return err
	})
	return out, err
}

// Orphans implements [session.Store]. It reads the sessions whose lease is held, or was held by a process that has
// died.
func (s *Store) Orphans(ctx context.Context, page session.Page) ([]session.Info, error) {
	if err := errors.Join(checkKey(page.After.Key), page.Check()); err != nil {
		return nil, err
	}
	var out []session.Info
	for {
		held, err := s.infos(ctx, orphans(page, s.time()))
		if err != nil {
			return nil, s.explain("look for orphans in", err)
		}
		for _, i := range held {
			if !i.Leased {
				out = append(out, i)
			}
		}
		if page.Limit > 0 && len(out) >= page.Limit {
			return out[:page.Limit], nil
		}
		if page.Limit == 0 || len(held) < page.Limit {
			return out, nil
		}
		page.After = held[len(held)-1].Place() // other processes of this host hold some of them: read the next page
	}
}

// list returns the statement for a page of the list.
func list(filter session.Key, page session.Page, now *time.Time) *rows.Query {
	q := newQuery(listSQL, now, session.LeaseTTL)
	q.Filter(filter)
	q.Page(page, page.After.Updated)
	return q
}

// orphans returns the statement for a page of the sessions that may be orphans.
func orphans(page session.Page, now *time.Time) *rows.Query {
	me := session.Self()
	q := newQuery(orphansSQL, now, session.LeaseTTL, text(me.Host), me.PID, me.Started)
	q.Page(page, page.After.Updated)
	return q
}

func newQuery(sql string, args ...any) *rows.Query {
	return &rows.Query{SQL: sql, Args: args, Mark: "$", User: "user_id"}
}
