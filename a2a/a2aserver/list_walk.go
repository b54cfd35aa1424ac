package a2aserver

import (
	"context"
	"slices"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/session"
)

// walk finds the tasks of one page of a list. It goes through the caller's sessions as
// they were updated, the last one first, and stops where those that are left can have
// none for the page: no task changed after its session. So a page costs what it shows,
// however many sessions there are.
//
// A session whose later tasks were shown may have earlier ones that come pages later.
// The bookmark names such sessions, and the walk of the next page begins behind them.
type walk struct {
	*served
	req  *sdk.ListTasksRequest
	size int
	from bookmark

	marks  []mark // the best so far, and one more if there are others behind them
	total  int    // of the tasks that were not shown before
	late   []visit
	visits []visit // from the bookmark on, in order
	top    spot    // the first session when the list was begun
	seen   map[string]bool
	cut    bool // there are sessions that were not looked at
}

// visit is a look at a session.
type visit struct {
	at          spot
	found       bool // tasks that were not shown before
	first, last mark // of these
}

const (
	// maxWalk is how many sessions are looked at for one page that few tasks are found for.
	maxWalk = 2000
	// maxCounted is how many are looked at to know the total.
	maxCounted = 200
	// maxChunk is how many are listed at a time.
	maxChunk = 100
	// skew is how far the clocks of writers and of the store may be apart before a list
	// of what changed since some time misses something.
	skew = time.Minute
)

func (w *walk) all(ctx context.Context) error {
	w.seen = make(map[string]bool)
	w.top = w.from.Top
	for _, id := range w.from.Late {
		v, err := w.visit(ctx, session.Info{Key: w.key(ctx, id)}, false)
		if err != nil {
			return err
		}
		v.at.Context = id
		w.late = append(w.late, v)
	}
	err := w.through(ctx, w.from.From, w.size+1, func(info session.Info) (bool, error) {
		at := spotOf(info)
		if w.top == (spot{}) {
			w.top = at
		}
		fresh := w.from.Read.compare(at) < 0
		switch after := w.req.StatusTimestampAfter; {
		case after != nil && info.Updated.Before(after.Add(-skew)):
			return false, nil
		case fresh && len(w.marks) > w.size && !w.marks[w.size].at.Before(info.Updated):
			w.cut = len(w.visits) >= maxCounted
		default:
			w.cut = fresh && len(w.visits) >= maxWalk
		}
		if w.cut {
			return false, nil
		}
		v, err := w.visit(ctx, info, fresh)
		w.visits = append(w.visits, v)
		return true, err
	})
	if err != nil || w.top == (spot{}) {
		return err
	}
	// What was updated since the list was begun stands before all that, or in the same
	// moment beside it; most often nothing was.
	n := 0
	return w.through(ctx, spot{}, 2, func(info session.Info) (bool, error) {
		if n++; n > maxWalk || info.Updated.UnixNano() < w.top.Updated {
			return false, nil
		}
		_, err := w.visit(ctx, info, false)
		return true, err
	})
}

// through lists the sessions behind a spot, first so many, until do returns false.
func (w *walk) through(ctx context.Context, after spot, first int, do func(session.Info) (bool, error)) error {
	filter := w.key(ctx, w.req.ContextID)
	page := session.Page{Limit: min(first, maxChunk)}
	if after != (spot{}) {
		page.After = session.Place{Updated: time.Unix(0, after.Updated), Key: w.key(ctx, after.Context)}
	}
	for {
		infos, err := w.store.List(ctx, filter, page)
		if err != nil {
			return err
		}
		for _, info := range infos {
			if goOn, err := do(info); err != nil || !goOn {
				return err
			}
		}
		if len(infos) < page.Limit {
			return nil
		}
		page.After, page.Limit = infos[len(infos)-1].Place(), maxChunk
	}
}

// visit takes in the tasks of a session, but for those that were shown; nothing was of a
// session that is fresh.
func (w *walk) visit(ctx context.Context, info session.Info, fresh bool) (v visit, err error) {
	v.at = spotOf(info)
	if w.seen[info.Key.ID] {
		return v, nil
	}
	w.seen[info.Key.ID] = true
	err = w.glance(ctx, info, func(l *ledger) {
		for _, m := range slices.Backward(l.marks) { // the newest, which are most likely on the page
			if w.req.Status != "" && m.state != w.req.Status || w.req.StatusTimestampAfter != nil && m.at.Before(*w.req.StatusTimestampAfter) ||
				!fresh && w.from.shown(m) {
				continue
			}
			if !v.found || m.compare(v.first) < 0 {
				v.first = m
			}
			if !v.found || m.compare(v.last) > 0 {
				v.last = m
			}
			v.found = true
			w.add(m)
		}
	})
	return v, err
}

// add takes in a task, in any order.
func (w *walk) add(m mark) {
	w.total++
	if len(w.marks) > w.size && m.compare(w.marks[w.size]) >= 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(w.marks, m, mark.compare)
	w.marks = slices.Insert(w.marks, i, m)
	w.marks = w.marks[:min(len(w.marks), w.size+1)]
}
