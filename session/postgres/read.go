package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

const (
	// The first page comes with the session's row: most loads need no more.
	findSQL = `SELECT s.key, s.seq, coalesce(s.parent_seq, 0), e.seq, e.line
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
			coalesce(s.parent_seq, 0), coalesce(p.app, ''), coalesce(p.user_id, ''), coalesce(p.id, ''), s.key, coalesce(s.head, ''),
			coalesce(s.lease_until > coalesce($4, clock_timestamp()) AND s.lease_until <= coalesce($4, clock_timestamp()) + $5::interval, false),
			coalesce(s.lease_host, ''), coalesce(s.lease_pid, 0), coalesce(s.lease_started, 0)
		FROM arbor.session s LEFT JOIN arbor.session p ON p.key = s.parent_key
		WHERE s.id IS NOT NULL AND s.created IS NOT NULL`
	anySQL = listSQL + ` AND ($1 = '' OR s.app = $1) AND ($2 = '' OR s.user_id = $2) AND ($3 = '' OR s.id = $3)`
	// Both ask an index.
	ofUserSQL = listSQL + ` AND s.app = $1 AND s.user_id = $2 AND $3 = ''`
	infoSQL   = listSQL + ` AND s.app = $1 AND s.user_id = $2 AND s.id = $3`
	placeSQL  = ` AND s.updated <= $6 AND (s.updated < $6 OR (s.app, s.user_id, s.id) > ($7, $8, $9))`
	// Those that are held, but by this process or on another host. The planner takes the array
	// for a short one, and asks the index, whatever it knows of the tables.
	orphansSQL = listSQL + ` AND s.key = ANY (ARRAY(SELECT session FROM arbor.held)) AND s.lease_until IS NOT NULL
		AND NOT (s.lease_until > coalesce($4, clock_timestamp()) AND s.lease_until <= coalesce($4, clock_timestamp()) + $5::interval
			AND (s.lease_host <> $1 OR s.lease_pid = $2 AND s.lease_started = $3))`
	orderSQL = ` ORDER BY s.updated DESC, s.app, s.user_id, s.id LIMIT $`
)

// A page of a load begins small, since many callers break out early, and grows
// to lastPage events, or to as many as pageBytes hold if they are as large as the
// last ones.
const (
	firstPage = 64
	lastPage  = 512
	pageBytes = 1 << 20
)

// Load implements [session.Store]. It reads the events that are there when it
// begins, page by page, and holds no connection while it yields. A session that is
// deleted meanwhile ends it with an error that is [agent.ErrConflict].
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

// segment is a part of a log that is in one session's rows.
type segment struct{ row, end int64 }

// loading is a load that has read the events up to after.
type loading struct {
	*Store
	key   session.Key
	after int64
	page  []*event.Event
	bytes int   // of the page's lines
	size  int64 // of the next page, in events
	event.Decoder
}

func (s *Store) load(ctx context.Context, key session.Key, after int64, yield func(*event.Event, error) bool) error {
	l := &loading{Store: s, key: key, after: after, size: firstPage}
	var whole segment
	var shared int64
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		whole, l.page, l.bytes = segment{}, l.page[:0], 0
		rows, err := conn.Query(ctx, findSQL, binary5, key.App, key.User, key.ID, after, l.size)
		if err != nil {
			return err
		}
		return eachRaw(rows, func(format func(int) int16, row [][]byte) error {
			for i, dest := range []*int64{&whole.row, &whole.end, &shared} {
				if *dest, err = rawInt(format(i), row[i]); err != nil {
					return err
				}
			}
			if row[3] == nil {
				return nil
			}
			return l.take(format(3), row[3], row[4])
		})
	})
	if err != nil {
		return err
	}
	if goOn, err := l.yield(ctx, yield); err != nil || !goOn || l.after >= whole.end {
		return err
	}
	line := []segment{whole}
	if l.after < shared {
		if line, err = l.line(ctx, whole); err != nil {
			return err
		}
	}
	for _, part := range line {
		if goOn, err := l.segment(ctx, part, yield); err != nil || !goOn {
			return err
		}
	}
	return nil
}

// line returns the segments of the rest of a fork's log, in order.
func (l *loading) line(ctx context.Context, whole segment) (line []segment, err error) {
	err = l.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, lineSQL, whole.row, l.after)
		if err != nil {
			return err
		}
		line, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (part segment, err error) {
			err = row.Scan(&part.row, &part.end)
			part.end = min(part.end, whole.end) // what came since is not loaded
			return part, err
		})
		return err
	})
	if err == nil && len(line) == 0 {
		err = deleted(l.key)
	}
	return line, err
}

func deleted(key session.Key) error {
	return fmt.Errorf("session %s was deleted while it was loaded: %w", key, agent.ErrConflict)
}

// segment yields what is left until the end of a segment. It reports whether the
// caller wants more.
func (l *loading) segment(ctx context.Context, part segment, yield func(*event.Event, error) bool) (goOn bool, err error) {
	for l.after < part.end {
		if err := l.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error { return l.read(ctx, conn, part) }); err != nil {
			return false, err
		}
		if len(l.page) == 0 {
			return false, deleted(l.key)
		}
		if goOn, err := l.yield(ctx, yield); err != nil || !goOn {
			return false, err
		}
	}
	return true, nil
}

func (l *loading) read(ctx context.Context, conn *pgx.Conn, part segment) error {
	l.page, l.bytes = l.page[:0], 0
	rows, err := conn.Query(ctx, pageSQL, binary2, part.row, l.after, part.end, l.size)
	if err != nil {
		return err
	}
	return eachRaw(rows, func(format func(int) int16, row [][]byte) error { return l.take(format(0), row[0], row[1]) })
}

// Results in the binary format, whose texts are as they are stored. A pooler without
// prepared statements may need another protocol, which has no such format.
var (
	binary2 = pgx.QueryResultFormats{pgx.BinaryFormatCode, pgx.BinaryFormatCode}
	binary5 = pgx.QueryResultFormats{pgx.BinaryFormatCode, pgx.BinaryFormatCode, pgx.BinaryFormatCode, pgx.BinaryFormatCode, pgx.BinaryFormatCode}
)

// eachRaw calls do with the bytes of each row, which are valid for the moment only.
func eachRaw(rows pgx.Rows, do func(format func(column int) int16, row [][]byte) error) error {
	defer rows.Close()
	format := func(i int) int16 { return rows.FieldDescriptions()[i].Format }
	for rows.Next() {
		if err := do(format, rows.RawValues()); err != nil {
			return err
		}
	}
	return rows.Err()
}

func rawInt(format int16, raw []byte) (int64, error) {
	if format == pgx.BinaryFormatCode && len(raw) == 8 {
		return int64(binary.BigEndian.Uint64(raw)), nil
	}
	return strconv.ParseInt(string(raw), 10, 64)
}

// take adds an event to the page. The bytes are valid for the moment only.
func (l *loading) take(format int16, rawSeq, line []byte) error {
	seq, err := rawInt(format, rawSeq)
	if err != nil {
		return err
	}
	if want := l.after + int64(len(l.page)) + 1; seq != want {
		return fmt.Errorf("session %s: the log is damaged: event %d stands where %d should be", l.key, seq, want)
	}
	l.page = append(l.page, l.DecodeLine(seq, line))
	l.bytes += len(line)
	return nil
}

// yield gives the page to the caller. It reports whether the caller wants more.
func (l *loading) yield(ctx context.Context, yield func(*event.Event, error) bool) (goOn bool, err error) {
	for _, e := range l.page {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if !yield(e, nil) {
			return false, nil
		}
	}
	if n := int64(len(l.page)); n > 0 {
		l.after += n
		l.size = max(1, min(2*l.size, lastPage, n*pageBytes/int64(l.bytes)))
	}
	return true, nil
}

// SharedState implements [session.Store].
func (s *Store) SharedState(ctx context.Context, key session.Key) (map[string]any, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	out := make(map[string]any)
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		clear(out)
		rows, err := conn.Query(ctx, sharedSQL, key.App, key.User)
		if err != nil {
			return err
		}
		var name, stored []byte
		_, err = pgx.ForEachRow(rows, []any{&name, &stored}, func() error {
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
	query, args := list(filter, page, s.time())
	out, err := s.infos(ctx, query, args)
	if err != nil {
		return nil, s.explain("list the sessions in", err)
	}
	return out, nil
}

func (s *Store) infos(ctx context.Context, query string, args []any) (out []session.Info, err error) {
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (i session.Info, err error) {
			var created, updated time.Time
			var holder session.Owner
			var last []byte
			err = row.Scan(&i.Key.App, &i.Key.User, &i.Key.ID, &i.Seq, &created, &updated, &i.ParentSeq, &i.Parent.App, &i.Parent.User, &i.Parent.ID, &i.Incarnation,
				&last, &i.Leased, &holder.Host, &holder.PID, &holder.Started)
			i.LastID, i.Leased = string(last), i.Leased && session.Alive(holder)
			i.Created, i.Updated = created.UTC(), updated.UTC()
			return i, err
		})
		return err
	})
	return out, err
}

// Orphans implements [session.Store]. It reads the sessions whose lease is held, or was by a
// process that has gone.
func (s *Store) Orphans(ctx context.Context, page session.Page) ([]session.Info, error) {
	if err := errors.Join(checkKey(page.After.Key), page.Check()); err != nil {
		return nil, err
	}
	var out []session.Info
	for {
		query, args := orphans(page, s.time())
		held, err := s.infos(ctx, query, args)
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
		page.After = held[len(held)-1].Place() // some are held by other processes of this host
	}
}

// list returns the statement for a page.
func list(filter session.Key, page session.Page, now *time.Time) (query string, args []any) {
	query = anySQL
	if filter.App != "" && filter.User != "" {
		query = ofUserSQL
		if filter.ID != "" {
			query = infoSQL
		}
	}
	return ofPage(query, []any{filter.App, filter.User, filter.ID, now, session.LeaseTTL}, page)
}

// orphans returns the statement for a page of those that may be orphans.
func orphans(page session.Page, now *time.Time) (query string, args []any) {
	me := session.Self()
	return ofPage(orphansSQL, []any{text(me.Host), me.PID, me.Started, now, session.LeaseTTL}, page)
}

// ofPage adds to a statement which part of the list is wanted, and its order.
func ofPage(query string, args []any, page session.Page) (string, []any) {
	if page.After != (session.Place{}) {
		query += placeSQL
		args = append(args, page.After.Updated, page.After.Key.App, page.After.Key.User, page.After.Key.ID)
	}
	var limit *int // all
	if page.Limit > 0 {
		limit = &page.Limit
	}
	args = append(args, limit)
	query += orderSQL + strconv.Itoa(len(args))
	return query, args
}
