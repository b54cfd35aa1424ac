package live

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
)

// Store is a store whose sessions can be followed. Packages session/tail and session/redis turn any store into one.
type Store interface {
	session.Store
	session.Tail
}

// Turns runs the turns of one tree in the sessions of one store. It is safe for concurrent use. The zero value is not
// usable; see [New].
//
// The implementation has three layers, each of which calls only those below it: Turns starts, resumes, follows and
// ends turns; logs reads the state of turns from the logs; registry knows what this process runs. The exported
// methods of all layers are methods of Turns.
type Turns struct {
	logs
	locks
	requestCache requestCache
	every        time.Duration // the interval of searches for turns whose process died; 0: never
	logger       *slog.Logger
}

// Option configures Turns.
type Option func(*Turns)

// WithLimit sets the limit of the turns that one user, and all users together, may run at the same time. The user is
// that of the session's key. Several Turns may share a limit. Defaults to 32 for a user and 256 for all users.
func WithLimit(l *access.Limit) Option { return func(t *Turns) { t.limit = l } }

// WithApp sets the app of the sessions of the whole tree, and the prefix of the apps of its parts; see
// [Turns.RunnerOf]. Defaults to session.DefaultApp.
func WithApp(app string) Option { return func(t *Turns) { t.app = app } }

// WithAutoResume sets a function that decides, by the message that started a turn, whether an interrupted turn resumes
// automatically when a client follows it. Defaults to all turns.
func WithAutoResume(which func(*event.User) bool) Option { return func(t *Turns) { t.resume = which } }

// WithAdoption adopts turns whose process died: once at the start, and then at each interval. The interval varies by
// up to a fifth, so that many processes do not search at the same time. If several processes find the same turn, the
// one that acquires the session's lease adopts it. Turns adopts only turns of the app of [WithApp] and its parts that
// the tree can resume (see [runner.CanResume]), and only those that [WithAutoResume] accepts. It runs as many at the
// same time as [WithLimit] allows; the others wait for the next search. By default, and with 0, turns resume only when a
// client follows them.
func WithAdoption(interval time.Duration) Option { return func(t *Turns) { t.every = interval } }

// WithLogger sets the logger for turns that failed, were adopted or were given up. By default nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(t *Turns) { t.logger = l } }

// WithObserver sets an observer that receives the number of running turns and how turns end. The observer gets the
// API that the context of the start names; see access.WithAPI.
func WithObserver(o access.Observer) Option { return func(t *Turns) { t.observer = o } }

// New returns Turns for a runner and its store. The caller closes both after [Turns.Close]. Partial events need a
// runner with runner.WithStreaming. New prepares the runner's agents in the background until Close; see
// [runner.Runner.Prepare].
func New(run *runner.Runner, store Store, opts ...Option) (*Turns, error) {
	if run == nil || store == nil {
		return nil, errors.New("live: the runner or the store is nil")
	}
	t := &Turns{logs: logs{store: store, resume: func(*event.User) bool { return true }}, locks: locks{held: make(map[session.Key]chan struct{})}, requestCache: requestCache{store: store, asked: make(map[session.Key]*requests)},
		logger: slog.New(slog.DiscardHandler)}
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
		return nil, errors.New("live: the interval of WithAdoption is negative, or the app of WithApp is empty")
	}
	with, err := t.withBackend(run)
	if err != nil {
		return nil, err
	}
	t.current = &runnerUse{runnerBackend: with}
	if _, ok := with.backend.(adopter); !ok && t.every > 0 {
		return nil, errors.New("live: this backend cannot adopt turns: remove WithAdoption")
	}
	t.background, t.stop = context.WithCancelCause(context.Background())
	t.prepare(run)
	if t.every > 0 {
		t.ended.Go((&orphanSearch{turns: t}).run)
	}
	return t, nil
}

// Store returns the store.
func (t *Turns) Store() Store { return t.store }

var (
	// ErrClosed is the error of calls after Drain or Close, and of turns that Close ends. It is a
	// session.ErrAbandoned: such a turn is an orphan of the store, which another process can adopt.
	ErrClosed = fmt.Errorf("the server is being stopped: %w", session.ErrAbandoned)

	// ErrCanceled ends a turn that was canceled, or whose client disconnected before it started.
	ErrCanceled = errors.New("the client canceled the turn")
)

// Turn is a turn, or the rest of a turn, that runs in the background. It is safe for concurrent use.
type Turn struct {
	// First is the first event: the user's message, a decision, or, for a resumed turn, its first event, which may be
	// partial. Its TurnID is the id of the turn. It is nil if there was nothing to resume.
	First *event.Event

	key       session.Key
	api       string // the API that started the turn
	use       *runnerUse
	backend   Backend // the backend of the runner, or of a part of its tree
	cancel    context.CancelCauseFunc
	counts    bool          // the turn counts in the limits
	automatic bool          // no client requested the turn
	done      chan struct{} // closed when the turn has ended
	err       error         // valid after done
	report    Report        // the report of a turn that started here; valid after done
}

// Done returns a channel that is closed when the turn has ended.
func (x *Turn) Done() <-chan struct{} { return x.done }

// Report returns the outcome of a turn that started here, without reading the log. It returns nil while the turn
// runs, and for a turn that was interrupted or resumed. The report is shared and must not be changed.
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

// Wait waits until the turn has ended and returns its error, as [runner.Runner.Run] yields it. If the context ends
// first, it returns the context's cause.
func (x *Turn) Wait(ctx context.Context) error {
	select {
	case <-x.done:
		return x.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Begin sends a message to the session's active agent, as [runner.Runner.Run] does, and returns when the message is
// stored. The turn continues if the context ends later. If the context ends before the message is stored, Begin
// cancels the turn, because no client knows of it. Begin returns the error of a turn that stored nothing, such as
// agent.ErrSessionBusy, an *access.LimitError, or [ErrClosed].
func (t *Turns) Begin(ctx context.Context, key session.Key, msg llm.Message, opts ...runner.TurnOption) (*Turn, error) {
	return t.start(ctx, key, func(ctx context.Context, b Backend) iter.Seq2[*event.Event, error] {
		return sinceMessage(b.Run(ctx, key, msg, opts...))
	})
}

// sinceMessage omits the events that a turn stores before the user's message: the end of an interrupted turn.
func sinceMessage(events iter.Seq2[*event.Event, error]) iter.Seq2[*event.Event, error] {
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

// Resume continues a turn that was interrupted or that waits, with decisions about its calls, as
// [runner.Runner.Resume] does. It returns when the decisions are stored. Without decisions it returns at the first
// event, which may wait for a model. The caller in ctx must be allowed to decide, and replaces By and Rights of the
// decisions; see [Deciders.May]. It returns the errors of [Turns.Begin], runner.ErrNoApproval, or a *[DeciderError].
func (t *Turns) Resume(ctx context.Context, key session.Key, decisions ...runner.Decision) (*Turn, error) {
	decisions, err := t.sign(ctx, key, decisions)
	if err != nil {
		return nil, err
	}
	return t.start(ctx, key, func(ctx context.Context, b Backend) iter.Seq2[*event.Event, error] {
		return b.Resume(ctx, key, decisions...)
	})
}

// turnFunc runs a turn with a backend.
type turnFunc func(context.Context, Backend) iter.Seq2[*event.Event, error]

// releaseTime is how long a process may take to release the session after its turn has ended or paused. Where snapshots
// are stored, it stores one in that time.
const releaseTime = 10 * time.Second

// start runs a turn in the background and returns it with its first event. If the session is busy although its last
// turn has ended, waits or was stopped, start waits for the process that is releasing the session.
func (t *Turns) start(ctx context.Context, key session.Key, events turnFunc) (*Turn, error) {
	for deadline, tries := time.Now().Add(releaseTime), 1; ; tries++ {
		x, err := t.startNow(ctx, key, events)
		if !errors.Is(err, agent.ErrSessionBusy) || !time.Now().Before(deadline) || !t.rests(ctx, key) {
			return x, err
		}
		if err := t.WaitFree(ctx, key, time.Now().Add(time.Duration(tries)*10*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}

// rests reports whether the session's last turn has ended, waits or was stopped.
func (l *logs) rests(ctx context.Context, key session.Key) (rests bool) {
	err := l.reader(key).ReadFold(ctx, key, func(f *session.Fold) error {
		rests = !f.Unfinished() || f.Stopped()
		return nil
	})
	return err == nil && rests
}

func (t *Turns) startNow(ctx context.Context, key session.Key, events turnFunc) (*Turn, error) {
	x, first, err := t.launch(ctx, &Turn{key: key, api: access.APIOf(ctx)}, events)
	if err != nil {
		return nil, err
	}
	select {
	case x.First = <-first:
	case <-ctx.Done():
		select {
		case x.First = <-first: // the turn has started, and continues without its client
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

// launch runs a turn in the background. first receives the first event, and is closed when the turn has ended. Until
// ctx ends, launch may wait for the limits to allow the turn.
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
		defer func() {
			t.exit(x) // before done is closed, so that waiting callers find no running turn, as do the watchers
			if x.left() && len(t.runningTurns(x.key)) == 0 {
				t.notifyWatchers(x.key)
			}
		}()
		defer cancel(nil)
		defer close(begun)
		sent, stored, reason := false, false, event.FinishReason("")
		defer func() { t.ends(x, stored, reason) }()
		for e, err := range events(run, x.backend) {
			if err != nil {
				if x.err = err; errors.Is(err, context.Canceled) && run.Err() != nil {
					x.err = context.Cause(run)
				}
				break
			}
			if !sent {
				sent = true
				begun <- e
			}
			if !e.Partial && !stored {
				stored = true
				t.changes.changed(x.key)
			}
			if _, begins := e.Data.(*event.User); begins || x.report.ID != "" {
				x.report.Apply(e)
			}
			logAdoption(t.logger, x, e)
			if end, ok := e.Data.(*event.HarnessEnd); ok && e.Scope == "" {
				reason = end.FinishReason
			}
		}
		refused := x.left() || !stored && (errors.Is(x.err, agent.ErrSessionBusy) || errors.Is(x.err, agent.ErrBadInput) || errors.Is(x.err, agent.ErrConflict))
		if x.err != nil && !refused && run.Err() == nil {
			t.logger.Warn("a turn failed", "session", x.key.String(), "error", x.err)
		}
	}()
	return x, begun, nil
}

// left reports whether the turn ended here because no process may resume it. It is valid when the turn has no more
// events.
func (x *Turn) left() bool {
	return errors.Is(x.err, runner.ErrLeft) || errors.Is(x.err, session.ErrStopped)
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
	r.observer.Turn(ctx, x.api, string(outcome))
}
