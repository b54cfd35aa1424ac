package live

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
)

// ResumeInBackground resumes a turn in the background that no process runs: it was interrupted or stopped, or it waits
// for something external, such as an authorization, which may be available by now. It does not wait. If this process
// still runs a turn of the session, that turn ends first. It does nothing if there is nothing to resume or another
// process runs the turn. If begun is not nil, it is called when the first event is stored.
func (t *Turns) ResumeInBackground(key session.Key, begun func()) {
	t.launchRest(&Turn{key: key}, begun, func(ctx context.Context, b Backend) iter.Seq2[*event.Event, error] { return b.Resume(ctx, key) })
}

// Adopt is [Turns.ResumeInBackground] for a turn whose process died. The log records that this process adopts the turn.
// Adopt does nothing if the turn was adopted several times without progress, because it ends each process that
// runs it; see [runner.Runner.Adopt]. It does nothing either if the turn was stopped.
//
// [runner.Runner.Adopt]: https://pkg.go.dev/github.com/agentarbor/arbor/runner#Runner.Adopt
func (t *Turns) Adopt(key session.Key) {
	if _, stopped, _, err := t.interrupted(t.background, key); err == nil && stopped {
		return // while an adoption found that out, the turn would seem to run
	}
	t.launchRest(&Turn{key: key, api: adoptedAPI}, nil, adopts(key))
}

// adoptedAPI is the API that observers receive for adopted turns.
const adoptedAPI = "adoption"

func adopts(key session.Key) turnFunc {
	return func(ctx context.Context, b Backend) iter.Seq2[*event.Event, error] {
		if b, ok := b.(adopter); ok {
			return b.Adopt(ctx, key)
		}
		return b.Resume(ctx, key)
	}
}

// launchRest starts the rest of a turn, unless another call is already starting it.
func (t *Turns) launchRest(rest *Turn, begun func(), events turnFunc) {
	before := t.runningTurns(rest.key)
	if slices.ContainsFunc(before, func(x *Turn) bool { return x.automatic }) {
		return
	}
	rest.automatic = true
	// An error does not matter: the next check tries again.
	_, _, _ = t.launch(t.background, rest, func(ctx context.Context, b Backend) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			for _, x := range before { // a turn that waits may still hold the session for a moment
				select {
				case <-x.done:
				case <-ctx.Done():
					return
				}
			}
			for e, err := range events(ctx, b) {
				if begun != nil && err == nil && !e.Partial {
					begun()
					begun = nil
				}
				if !yield(e, err) {
					return
				}
			}
		}
	})
}

// orphanPage is the number of orphans that are read at a time.
const orphanPage = 50

// run adopts turns whose process died, until the Turns are closed or drained.
func (l *orphanSearch) run() {
	t := l.turns
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-t.background.Done():
			return
		}
		if t.Stopping() {
			return
		}
		l.search(t.background)
		timer.Reset(time.Duration(float64(t.every) * (0.8 + 0.4*rand.Float64())))
	}
}

// orphanSearch finds orphans of the store and adopts their turns.
type orphanSearch struct {
	turns   *Turns
	failing bool // the last search failed
	// The sessions that do not belong to the tree, as of the last search.
	foreign map[session.LogState]bool
	tree    *runner.Runner
}

func (l *orphanSearch) search(ctx context.Context) {
	foreign := make(map[session.LogState]bool)
	if tree := l.turns.Runner(); l.tree != tree {
		l.tree, l.foreign = tree, nil
	}
	for page := (session.Page{Limit: orphanPage}); ; {
		infos, err := l.turns.store.Orphans(ctx, page)
		if err != nil {
			if !l.failing && ctx.Err() == nil {
				l.turns.logger.Warn("cannot search for turns whose process died", "error", err)
			}
			l.failing = true
			return
		}
		for _, info := range infos {
			if l.foreign[info.State()] || !l.ours(ctx, info.Key) {
				foreign[info.State()] = true
				continue
			}
			err := l.adopt(info.Key)
			var limit *access.LimitError
			if errors.Is(err, ErrClosed) || errors.As(err, &limit) && limit.All {
				return
			}
		}
		if len(infos) < orphanPage {
			break
		}
		page.After = infos[len(infos)-1].Place()
	}
	l.foreign, l.failing = foreign, false
}

// ours reports whether the search adopts the turn of a session, or releases the session. Other trees may use the same
// store.
func (l *orphanSearch) ours(ctx context.Context, key session.Key) bool {
	t := l.turns
	if key.App != t.app && !strings.HasPrefix(key.App, t.app+":") {
		return false
	}
	cut, _, ours, err := t.interrupted(ctx, key)
	return !cut || ours || err != nil // after an error, the session may belong to the tree
}

// interrupted reports whether the last turn of a session was interrupted, or runs, whether it was stopped, and whether
// these Turns may adopt it if not: the tree has what it needs, and WithAutoResume accepts it.
func (l *logs) interrupted(ctx context.Context, key session.Key) (cut, stopped, ours bool, err error) {
	run, gone := l.RunnerOf(key)
	if gone != nil {
		return true, false, false, nil
	}
	err = run.ReadFold(ctx, key, func(f *session.Fold) error {
		cut, stopped, ours = f.Unfinished(), f.Stopped(), runner.CanResume(run.Tree(), f) && l.resume(f.Turn.User)
		return nil
	})
	return cut, stopped, ours, err
}

// adopt adopts the turn of an orphan, or releases the session if there is nothing to resume. The error says why the
// next search must try again.
func (l *orphanSearch) adopt(key session.Key) error {
	t := l.turns
	if len(t.runningTurns(key)) > 0 {
		return nil
	}
	_, _, err := t.launch(t.background, &Turn{key: key, api: adoptedAPI, automatic: true}, adopts(key))
	return err
}

// logAdoption logs that a turn was adopted or given up.
func logAdoption(logger *slog.Logger, x *Turn, e *event.Event) {
	switch {
	case e.Partial:
	case e.IsNotice(event.NoticeAdopted):
		logger.Info("a turn is adopted, because its process died or was stopped", "session", x.key.String(), "position", e.Seq)
	case e.IsNotice(event.NoticeLeft):
		logger.Warn("a turn is not adopted again, because each process that ran it died or was stopped: resume it by hand", "session", x.key.String(), "position", e.Seq)
	}
}
