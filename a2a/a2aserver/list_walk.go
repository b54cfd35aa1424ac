package a2aserver

import (
	"context"
	"slices"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/session"
)

// walk finds the tasks of one page of a list. It visits the caller's sessions, the most recently updated first, and
// stops when the remaining sessions cannot have a task for the page, because no task changes after its session. So the
// cost of a page depends on what it shows, not on the number of sessions.
//
// A session whose later tasks were shown may have earlier tasks that belong to a later page. The bookmark names such
// sessions, and the walk for the next page starts after them.
type walk struct {
	*served
	req  *sdk.ListTasksRequest
	size int
	from bookmark

	marks  []mark // the first ones for the page, and one more if the list continues
	total  int    // tasks that earlier pages have not shown
	late   []sessionVisit
	visits []sessionVisit  // the visits from the bookmark on, in order
	top    sessionPosition // the first session when the list began
	seen   map[string]bool
	cut    bool // the walk stopped before the last session
}

// sessionVisit is the result of a visit to a session.
type sessionVisit struct {
	at          sessionPosition
	found       bool // it has tasks that were not shown before
	first, last mark // the first and last of them
}

const (
	// maxWalk is the largest number of sessions that the walk visits for one page.
	maxWalk = 2000
	// maxCounted is the number of sessions that the walk visits to compute the total when the page is already full.
	maxCounted = 200
	// maxChunk is the largest number of sessions that are listed at a time.
	maxChunk = 100
	// skew is the largest difference between the clocks of the writers and of the store at which a list of the tasks
	// that changed since some time is complete.
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
		at := positionOf(info)
		if w.top == (sessionPosition{}) {
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
	if err != nil || w.top == (sessionPosition{}) {
		return err
	}
	// Sessions that were updated since the list began come before the first session, or next to it if the time is the
	// same. Most often there are none.
	n := 0
	return w.through(ctx, sessionPosition{}, 2, func(info session.Info) (bool, error) {
		if n++; n > maxWalk || info.Updated.UnixNano() < w.top.Updated {
			return false, nil
		}
		_, err := w.visit(ctx, info, false)
		return true, err
	})
}

// through lists the sessions after a position, the first time at most first of them, and calls do until it returns false.
func (w *walk) through(ctx context.Context, after sessionPosition, first int, do func(session.Info) (bool, error)) error {
	filter := w.key(ctx, w.req.ContextID)
	page := session.Page{Limit: min(first, maxChunk)}
	if after != (sessionPosition{}) {
		page.After = session.Place{Updated: time.Unix(0, after.Updated), Key: w.key(ctx, after.Context)}
	}
	for {
		infos, err := w.store.List(ctx, filter, page)
		if err != nil {
			return err
		}
		for _, info := range infos {
			if proceed, err := do(info); err != nil || !proceed {
				return err
			}
		}
		if len(infos) < page.Limit {
			return nil
		}
		page.After, page.Limit = infos[len(infos)-1].Place(), maxChunk
	}
}

// visit adds the tasks of a session, without those that were shown. If the session is fresh, none was shown.
func (w *walk) visit(ctx context.Context, info session.Info, fresh bool) (v sessionVisit, err error) {
	v.at = positionOf(info)
	if w.seen[info.Key.ID] {
		return v, nil
	}
	w.seen[info.Key.ID] = true
	err = w.withLedgerForList(ctx, info, func(l *ledger) {
		for _, m := range slices.Backward(l.marks) { // newest first: these are the most likely on the page
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

// add adds a task. Tasks may come in any order.
func (w *walk) add(m mark) {
	w.total++
	if len(w.marks) > w.size && m.compare(w.marks[w.size]) >= 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(w.marks, m, mark.compare)
	w.marks = slices.Insert(w.marks, i, m)
	w.marks = w.marks[:min(len(w.marks), w.size+1)]
}
