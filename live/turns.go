package live

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Store is a store whose sessions can be followed. Packages session/tail and session/redis make one of any
// store.
type Store interface {
	session.Store
	session.Tail
}

// Turns runs the turns of one tree in the sessions of one store. It is safe for concurrent use.
// The zero value is not usable.
//
// Its state is in layers that call only what is below them: Turns begins, resumes, follows and ends turns; logs reads
// what the logs say of them; registry knows what this process runs. The exported methods of all of them are those of Turns.
type Turns struct {
	logs
	locks
	book   book
	resume func(*event.User) bool
	every  time.Duration // between looks for turns whose process has gone; 0 is never
	logger *slog.Logger
}

// Option configures Turns.
type Option func(*Turns)

// WithLimit bounds the turns that one user runs at the same time, and all users; the user is that of the session's key.
// Several Turns may share a limit. Defaults to 32, and 256 for all users.
func WithLimit(l *access.Limit) Option { return func(t *Turns) { t.limit = l } }

// WithApp sets the app of the sessions of the whole tree, and of those of its parts; see [Turns.RunnerOf].
// Defaults to session.DefaultApp.
func WithApp(app string) Option { return func(t *Turns) { t.app = app } }

// WithTakeUp decides, by the message that started a turn, whether a turn that was cut off resumes by itself
// when a client follows it. Defaults to all turns.
func WithTakeUp(which func(*event.User) bool) Option { return func(t *Turns) { t.resume = which } }

// WithTakeOver adopts turns whose process died: once at the start, and then at each interval. The interval
// varies by up to a fifth, so that many processes do not look at the same time. Of several processes that
// find the same turn, the one that gets the session's lease adopts it. Turns adopts only turns of the app
// of [WithApp] and its parts, of agents of the tree, that [WithTakeUp] accepts, and as many at the same
// time as [WithLimit] allows; the rest wait for the next look. By default, and with 0,
// turns resume only when a client follows them.
func WithTakeOver(interval time.Duration) Option { return func(t *Turns) { t.every = interval } }

// WithLogger sets the logger for turns that failed, were adopted or were left alone. By default nothing is
// logged.
func WithLogger(l *slog.Logger) Option { return func(t *Turns) { t.logger = l } }

// WithObserver sets an observer of how many turns run and how they end. The API is that of the context that
// started a turn; see access.WithDoor.
func WithObserver(o access.Observer) Option { return func(t *Turns) { t.observer = o } }

// New makes Turns of a runner and its store, which both remain the caller's to close. Partial events need a
// runner with runner.WithStreaming. New prepares the runner's agents in the background until Close; see
// [runner.Runner.Prepare].
func New(run *runner.Runner, store Store, opts ...Option) (*Turns, error) {
	if run == nil || store == nil {
		return nil, errors.New("live: the runner or the store is nil")
	}
	t := &Turns{logs: logs{store: store}, locks: locks{held: make(map[session.Key]chan struct{})}, book: book{store: store, asked: make(map[session.Key]*requests)},
		resume: func(*event.User) bool { return true }, logger: slog.New(slog.DiscardHandler)}
	t.registry.init()
	if err := option.Apply(t, opts); err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	if t.limit == nil || t.resume == nil || t.logger == nil {
		return nil, errors.New("live: a limit, a logger or a function is nil")
	}
	if err := t.deciders.Standard.Check(); err != nil {
		return nil, fmt.Errorf("live: the approver: %w", err)
	}
	if t.every < 0 || t.app == "" {
		return nil, errors.New("live: the interval to take turns over is negative, or the app has no name")
	}
	seat, err := t.seat(run)
	if err != nil {
		return nil, err
	}
	t.tenure = &tenure{seat: seat}
	if _, ok := seat.backend.(taker); !ok && t.every > 0 {
		return nil, errors.New("live: turns of this backend cannot be taken over: leave WithTakeOver out")
	}
	t.background, t.stop = context.WithCancelCause(context.Background())
	t.prepare(run)
	if t.every > 0 {
		t.ended.Go((&look{turns: t}).run)
	}
	return t, nil
}

// Store returns the store.
func (t *Turns) Store() Store { return t.store }

var (
	// ErrClosed is what Turns answer that are closed. It is a session.ErrAbandoned: a turn that
	// ends with it is an orphan of the store, which another process takes over.
	ErrClosed = fmt.Errorf("the server is being stopped: %w", session.ErrAbandoned)

	// ErrCanceled ends a turn that was canceled, or whose client went before it began.
	ErrCanceled = errors.New("the client canceled the turn")
)

// Turn is a turn, or the rest of one, that runs in the background.
type Turn struct {
	// First is the first event: what the user said, a decision, or that with which a turn
	// went on, which may be a partial one. Its TurnID names the turn. It is nil if there was
	// nothing to go on with.
	First *event.Event

	key     session.Key
	door    string // through which it was begun
	tenure  *tenure
	backend Backend // of the tenure, or of a part of its tree
	cancel  context.CancelCauseFunc
	counts  bool          // among those that its user has at work
	takesUp bool          // nobody asked for it
	done    chan struct{} // closed when the turn has ended
	err     error         // to be read after done
	report  Report        // of a turn that began here; the same
}

// Done is closed when the turn has ended.
func (x *Turn) Done() <-chan struct{} { return x.done }

// Report returns what the turn has come to that began here, without reading the log: nil
// before it has ended, and for one that does not rest or was resumed. It is shared.
func (x *Turn) Report() *Report {
	select {
	case <-x.done:
		if x.report.ID != "" && x.report.Rests() {
			return &x.report
		}
	default:
	}
	return nil
}

// Wait waits until the turn has ended and returns its error, that of [runner.Runner.Run], or why
// the context ended before.
func (x *Turn) Wait(ctx context.Context) error {
	select {
	case <-x.done:
		return x.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Begin sends a message to the session's active agent, as [runner.Runner.Run] does, and returns when the
// message is stored. The turn continues when the context ends later. If the context ends before, Begin
// cancels the turn, because no client knows of it. It returns the error of a turn that stored nothing, such
// as agent.ErrSessionBusy, an *access.LimitError, or [ErrClosed].
func (t *Turns) Begin(ctx context.Context, key session.Key, msg llm.Message, opts ...runner.TurnOption) (*Turn, error) {
	return t.start(ctx, key, func(ctx context.Context, b Backend) iter.Seq2[*event.Event, error] {
		return sinceWords(b.Run(ctx, key, msg, opts...))
	})
}

// sinceWords leaves out what a turn stores before the user's words: the end of what was cut off.
func sinceWords(events iter.Seq2[*event.Event, error]) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		begun := false
		for e, err := range events {
			if err == nil && !begun {
				if _, begun = e.Data.(*event.User); !begun {
					continue
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Resume continues a turn that was cut off or that waits, with decisions about its calls, as
// [runner.Runner.Resume] does. It returns when the decisions are stored; without decisions it returns at
// the first event, which may wait for a model. The caller of ctx must be allowed to decide, and replaces By
// and Rights of the decisions; see [Deciders.May]. It returns the errors of [Turns.Begin],
// runner.ErrNoApproval, or a *[DeciderError].
func (t *Turns) Resume(ctx context.Context, key session.Key, decisions ...runner.Decision) (*Turn, error) {
	decisions, err := t.sign(ctx, key, decisions)
	if err != nil {
		return nil, err
	}
	return t.start(ctx, key, func(ctx context.Context, b Backend) iter.Seq2[*event.Event, error] {
		return b.Resume(ctx, key, decisions...)
	})
}

// turnFunc is a turn of a backend.
type turnFunc func(context.Context, Backend) iter.Seq2[*event.Event, error]

// letGo is how long somebody whose turn has come to rest may take to let go of the session.
const letGo = 250 * time.Millisecond

// start runs a turn in the background and returns it with its first event. Who has seen that the
// turn before rests may be quicker than the process that lets go of the session.
func (t *Turns) start(ctx context.Context, key session.Key, events turnFunc) (*Turn, error) {
	for deadline := time.Now().Add(letGo); ; {
		x, err := t.startNow(ctx, key, events)
		if !errors.Is(err, agent.ErrSessionBusy) || !time.Now().Before(deadline) || !t.rests(ctx, key) {
			return x, err
		}
		if err := t.WaitFree(ctx, key, time.Now().Add(10*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}

// rests reports whether the session's last turn needs nobody to work on it.
func (l *logs) rests(ctx context.Context, key session.Key) (rests bool) {
	err := l.reader(key).Glance(ctx, key, func(f *session.Fold) error {
		rests = !f.Unfinished()
		return nil
	})
	return err == nil && rests
}

func (t *Turns) startNow(ctx context.Context, key session.Key, events turnFunc) (*Turn, error) {
	t.forgetStopped(key)
	x, first, err := t.launch(ctx, &Turn{key: key, door: access.DoorOf(ctx)}, events)
	if err != nil {
		return nil, err
	}
	select {
	case x.First = <-first:
	case <-ctx.Done():
		select {
		case x.First = <-first: // it has begun, and goes on without its client
		default:
			x.cancel(ErrCanceled)
			return nil, context.Cause(ctx)
		}
	}
	if x.First == nil {
		<-x.done
		if x.err != nil {
			return nil, x.err
		}
	}
	return x, nil
}

// launch runs a turn in the background. The first event comes out of first, which is closed when
// the turn has ended. Below ctx it may wait for a place among the turns at work.
func (t *Turns) launch(ctx context.Context, x *Turn, events turnFunc) (_ *Turn, first <-chan *event.Event, err error) {
	run, cancel := context.WithCancelCause(t.background)
	x.cancel, x.done, x.counts = cancel, make(chan struct{}), true
	if err := t.enter(ctx, x); err != nil {
		cancel(err)
		return nil, nil, err
	}
	begun := make(chan *event.Event, 1)
	go func() {
		defer close(x.done)
		defer t.exit(x) // before: who was waiting for the end finds nobody at work
		defer cancel(nil)
		defer close(begun)
		told, stored, reason := false, false, event.FinishReason("")
		defer func() { t.ends(x, stored, reason) }()
		for e, err := range events(run, x.backend) {
			if err != nil {
				if x.err = err; errors.Is(err, context.Canceled) && run.Err() != nil {
					x.err = context.Cause(run)
				}
				break
			}
			if !told {
				told = true
				begun <- e
			}
			if !e.Partial && !stored {
				stored = true
				t.changes.changed(x.key)
			}
			if _, begins := e.Data.(*event.User); begins || x.report.ID != "" {
				x.report.Apply(e)
			}
			logTakeOver(t.logger, x, e)
			if end, ok := e.Data.(*event.HarnessEnd); ok && e.Scope == "" {
				reason = end.FinishReason
			}
		}
		refused := errors.Is(x.err, runner.ErrLeft) || !stored && (errors.Is(x.err, agent.ErrSessionBusy) || errors.Is(x.err, agent.ErrBadInput) || errors.Is(x.err, agent.ErrConflict))
		if x.err != nil && !refused && run.Err() == nil {
			t.logger.Warn("a turn failed", "session", x.key.String(), "error", x.err)
		}
	}()
	return x, begun, nil
}

// ends reports to the observer how a turn that stored something has ended. CancelIf reports canceled turns.
func (r *registry) ends(x *Turn, stored bool, reason event.FinishReason) {
	if r.observer == nil || !stored || errors.Is(x.err, ErrCanceled) {
		return
	}
	ctx, outcome := context.Background(), State(session.StatusAt(reason))
	switch {
	case errors.Is(x.err, agent.ErrSuspended):
		outcome = CutOff
	case x.err != nil:
		outcome = Failed
	}
	r.observer.Turn(ctx, x.door, string(outcome))
}
