package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// reader is a pool of connections that only read. WAL lets them read beside a
// writer; nobody holds one while a caller's code runs.
type reader struct{ find, page, state, list *sql.Stmt }

func newReader(p *preparer) *reader {
	return &reader{
		find: p.prepare("SELECT key, seq FROM session WHERE app = ? AND user = ? AND id = ?"),
		page: p.prepare("SELECT seq, json FROM event WHERE session = ? AND seq > ? AND seq <= ? ORDER BY seq"),
		state: p.prepare(`SELECT name, value FROM state WHERE app = ? AND scope = 'app' AND user = ''
			UNION ALL SELECT name, value FROM state WHERE app = ? AND scope = 'user' AND user = ?`),
		list: p.prepare(`SELECT app, user, id, seq, created, updated FROM session
			WHERE seq > 0 AND (?1 = '' OR app = ?1) AND (?2 = '' OR user = ?2) AND (?3 = '' OR id = ?3)
			ORDER BY updated DESC, app, user, id`),
	}
}

// A page of a load begins small, since many callers break out early, and grows
// to lastPage events or pageBytes, whichever comes first.
const (
	firstPage = 64
	lastPage  = 512
	pageBytes = 1 << 20
)

// Load implements [session.Store]. It reads the events that are there when it
// begins, page by page, and yields nothing while it holds a connection. A session
// that is deleted meanwhile ends it with an error that is [agent.ErrConflict].
func (s *Store) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*agent.Event, error] {
	return func(yield func(*agent.Event, error) bool) {
		if err := s.load(ctx, key, max(after, 0), yield); err != nil {
			yield(nil, s.explain("load from", err))
		}
	}
}

func (s *Store) load(ctx context.Context, key session.Key, after int64, yield func(*agent.Event, error) bool) error {
	var row, end int64
	if found, err := queryOne(ctx, s.reader.find, []any{key.App, key.User, key.ID}, &row, &end); err != nil || !found {
		return s.readError(ctx, err)
	}
	var page []*agent.Event
	for size := int64(firstPage); after < end; size = min(2*size, lastPage) {
		var err error
		if page, err = s.readPage(ctx, page[:0], row, after, min(after+size, end)); err != nil {
			return fmt.Errorf("session %s: %w", key, s.readError(ctx, err))
		}
		if len(page) == 0 {
			return fmt.Errorf("session %s was deleted while it was loaded: %w", key, agent.ErrConflict)
		}
		for _, e := range page {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !yield(e, nil) {
				return nil
			}
		}
		after += int64(len(page))
	}
	return nil
}

func (s *Store) readPage(ctx context.Context, page []*agent.Event, row, after, end int64) ([]*agent.Event, error) {
	rows, err := s.reader.page.QueryContext(ctx, row, after, end)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for size := 0; size < pageBytes && rows.Next(); {
		var seq int64
		var text sql.RawBytes
		if err := rows.Scan(&seq, &text); err != nil {
			return nil, err
		}
		e := new(agent.Event)
		if err := e.UnmarshalJSON(text); err != nil {
			return nil, fmt.Errorf("event %d is damaged: %w", seq, err)
		}
		if want := after + int64(len(page)) + 1; seq != want || e.Seq != want {
			return nil, fmt.Errorf("the log is damaged: event %d, which says %d, stands where %d should be", seq, e.Seq, want)
		}
		size += len(text)
		page = append(page, e)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return page, rows.Close()
}

// readError prefers the context's error: what a canceled statement fails with
// depends on where it was.
func (s *Store) readError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case <-s.closed:
		return errClosed
	default:
		return err
	}
}

// SharedState implements [session.Store].
func (s *Store) SharedState(ctx context.Context, key session.Key) (map[string]any, error) {
	out := make(map[string]any)
	err := s.each(ctx, s.reader.state, []any{key.App, key.App, key.User}, func(rows *sql.Rows) error {
		var name string
		var text sql.RawBytes
		if err := rows.Scan(&name, &text); err != nil {
			return err
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			return fmt.Errorf("the shared state %q is damaged: %w", name, err)
		}
		out[name] = value
		return nil
	})
	if err != nil {
		return nil, s.explain("read the shared state in", err)
	}
	return out, nil
}

// List implements [session.Store].
func (s *Store) List(ctx context.Context, filter session.Key) ([]session.Info, error) {
	var out []session.Info
	err := s.each(ctx, s.reader.list, []any{filter.App, filter.User, filter.ID}, func(rows *sql.Rows) error {
		var i session.Info
		var created, updated int64
		if err := rows.Scan(&i.Key.App, &i.Key.User, &i.Key.ID, &i.Seq, &created, &updated); err != nil {
			return err
		}
		i.Created, i.Updated = time.Unix(0, created).UTC(), time.Unix(0, updated).UTC()
		out = append(out, i)
		return nil
	})
	if err != nil {
		return nil, s.explain("list the sessions in", err)
	}
	return out, nil
}

func (s *Store) each(ctx context.Context, stmt *sql.Stmt, args []any, do func(*sql.Rows) error) error {
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return s.readError(ctx, err)
	}
	for rows.Next() && err == nil {
		err = do(rows)
	}
	return s.readError(ctx, errors.Join(err, rows.Err(), rows.Close()))
}
