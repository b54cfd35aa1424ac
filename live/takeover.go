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

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// TakeUp resumes a turn in the background that no process runs, because it was cut off, or that waits for
// something done elsewhere, such as an authorization, which may be done by now. It does not wait: if this
// process still runs a turn of the session, that turn first gets the time to end. TakeUp does nothing if
// there is nothing to resume, if another process runs the turn, or if the turn was stopped here. Unless
// begun is nil, it is called when the first event is stored.
func (t *Turns) TakeUp(key session.Key, begun func()) {
	t.goesOn(&Turn{key: key}, begun, func(ctx context.Context, b Backend) iter.Seq2[*event.Event, error] { return b.Resume(ctx, key) })
}

// TakeOver is [Turns.TakeUp] for a turn that was cut off because its process died. The log records that the
// turn was adopted. TakeOver does nothing if earlier attempts failed again and again because the turn ends
// each process that adopts it; see [runner.Runner.TakeOver].
//
// [runner.Runner.TakeOver]: https://pkg.go.dev/github.com/agentarbor/arbor/runner#Runner.TakeOver
func (t *Turns) TakeOver(key session.Key) {
	t.goesOn(&Turn{key: key, door: takeOverDoor}, nil, takesOver(key))
}

// takeOverDoor is what observers hear of turns that are taken over.
const takeOverDoor = "take_over"

func takesOver(key session.Key) turnFunc {
	return func(ctx context.Context, b Backend) iter.Seq2[*event.Event, error] {
		if b, ok := b.(taker); ok {
			return b.TakeOver(ctx, key)
		}
		return b.Resume(ctx, key)
	}
}

// goesOn launches the rest of a turn, unless it was stopped or somebody is about to.
func (t *Turns) goesOn(rest *Turn, begun func(), events turnFunc) {
	before, stopped := t.state(rest.key)
	if stopped || slices.ContainsFunc(before, func(x *Turn) bool { return x.takesUp }) {
		return
	}
	rest.takesUp = true
	// Whether it could be begun does not matter: who looks again tries again.
	_, _, _ = t.launch(t.background, rest, func(ctx context.Context, b Backend) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			for _, x := range before { // one that rests already has yet to let go of the session
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

// orphanPage is how many orphans are read at a time.
const orphanPage = 50

// run looks for turns whose process has gone, until the Turns are closed or drained.
func (l *look) run() {
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
		l.look(t.background)
		timer.Reset(time.Duration(float64(t.every) * (0.8 + 0.4*rand.Float64())))
	}
}

// look looks for orphans of the store.
type look struct {
	turns   *Turns
	failing bool // the last one has
	// Sessions that are not for the tree, as they were at the last look.
	foreign map[session.LogState]bool
	tree    *runner.Runner
}

func (l *look) look(ctx context.Context) {
	foreign := make(map[session.LogState]bool)
	if tree := l.turns.Runner(); l.tree != tree {
		l.tree, l.foreign = tree, nil
	}
	for page := (session.Page{Limit: orphanPage}); ; {
		infos, err := l.turns.store.Orphans(ctx, page)
		if err != nil {
			if !l.failing && ctx.Err() == nil {
				l.turns.logger.Warn("turns whose process has gone cannot be looked for", "error", err)
			}
			l.failing = true
			return
		}
		for _, info := range infos {
			if l.foreign[info.State()] || !l.ours(ctx, info.Key) {
				foreign[info.State()] = true
				continue
			}
			err := l.take(info.Key)
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

// ours reports whether a session is one of the tree's, whose turns are taken up by themselves. Other trees may have the
// same store.
func (l *look) ours(ctx context.Context, key session.Key) (ours bool) {
	t := l.turns
	if key.App != t.app && !strings.HasPrefix(key.App, t.app+":") {
		return false
	}
	run, err := t.RunnerOf(key)
	if err != nil {
		return false
	}
	err = run.Glance(ctx, key, func(f *session.Fold) error {
		if ours = !f.Unfinished(); ours { // and is given back
			return nil
		}
		last := &f.Scope("").Run
		next := last.Agent
		if !last.Open {
			next = last.Target
		}
		known := next == "" || last.TurnID != f.Turn.ID || run.Tree().Node(next) != nil
		ours = known && t.resume(f.Turn.User)
		return nil
	})
	return ours || err != nil // what cannot be read now is not known to be another's
}

// take takes over the turn of an orphan, or gives the session back if there is nothing to resume. The error says why
// it is left to the next look.
func (l *look) take(key session.Key) error {
	t := l.turns
	if here, stopped := t.state(key); stopped || len(here) > 0 {
		return nil
	}
	_, _, err := t.launch(t.background, &Turn{key: key, door: takeOverDoor, takesUp: true}, takesOver(key))
	return err
}

// logTakeOver logs what people should know of a turn that was taken over.
func logTakeOver(logger *slog.Logger, x *Turn, e *event.Event) {
	n, ok := e.Data.(*event.Notice)
	if !ok || e.Partial {
		return
	}
	switch n.Code {
	case event.NoticeTakenOver:
		logger.Info("a turn is taken over, because its process has gone", "session", x.key.String(), "position", e.Seq)
	case event.NoticeLeft:
		logger.Warn("a turn is left alone, because its process has gone each time", "session", x.key.String(), "position", e.Seq)
	}
}
