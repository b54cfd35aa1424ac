package live

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
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
type Turns struct {
	store  Store
	limit  *access.Limit
	app    string // of the sessions of the whole tree
	resume func(*event.User) bool
	every  time.Duration // between looks for turns whose process has gone; 0 is never
	logger *slog.Logger
	hears  access.Observer // nil without one

	deciders Deciders

	backend func(*runner.Runner) Backend // nil for the runner itself

	background context.Context // of all turns
	stop       context.CancelCauseFunc
	ended      sync.WaitGroup

	mu      sync.Mutex // guards what follows
	tenure  *tenure    // of the runner that new turns get
	closed  bool
	drains  bool // no turn is begun any more
	running map[session.Key][]*Turn
	locked  map[session.Key]chan struct{} // closed by who unlocks
	stopped map[session.Key]struct{}      // not to be taken up
	// Who watches a turn, and is told when it is stopped.
	watchers map[session.Key]map[*context.CancelCauseFunc]bool
	asked    map[session.Key]*requests            // what clients have asked for lately
	changes  map[owner]map[chan struct{}]struct{} // who waits for changes
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
func WithObserver(o access.Observer) Option { return func(t *Turns) { t.hears = o } }

// New makes Turns of a runner and its store, which both remain the caller's to close. Partial events need a
// runner with runner.WithStreaming. New prepares the runner's agents in the background until Close; see
// [runner.Runner.Prepare].
func New(run *runner.Runner, store Store, opts ...Option) (*Turns, error) {
	if run == nil || store == nil {
		return nil, errors.New("live: the runner or the store is nil")
	}
	t := &Turns{store: store, limit: access.NewLimit(32, 256), app: session.DefaultApp, resume: func(*event.User) bool { return true }, logger: slog.New(slog.DiscardHandler),
		running: make(map[session.Key][]*Turn), locked: make(map[session.Key]chan struct{}), stopped: make(map[session.Key]struct{}),
		watchers: make(map[session.Key]map[*context.CancelCauseFunc]bool), asked: make(map[session.Key]*requests), changes: make(map[owner]map[chan struct{}]struct{})}
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
		t.ended.Go(t.takeOver)
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
func (t *Turns) rests(ctx context.Context, key session.Key) (rests bool) {
	err := t.reader(key).Glance(ctx, key, func(f *session.Fold) error {
		rests = !f.Unfinished()
		return nil
	})
	return err == nil && rests
}

func (t *Turns) startNow(ctx context.Context, key session.Key, events turnFunc) (*Turn, error) {
	t.mu.Lock()
	delete(t.stopped, key)
	t.mu.Unlock()
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
		defer func() { t.observe(x, stored, reason) }()
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
				t.changed(x.key)
			}
			if _, begins := e.Data.(*event.User); begins || x.report.ID != "" {
				x.report.Apply(e)
			}
			t.tell(x, e)
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

// observe tells how a turn has ended that has stored something. One that is canceled is told
// by who cancels it.
func (t *Turns) observe(x *Turn, stored bool, reason event.FinishReason) {
	if t.hears == nil || !stored || errors.Is(x.err, ErrCanceled) {
		return
	}
	ctx, outcome := context.Background(), State(session.StatusAt(reason))
	switch {
	case errors.Is(x.err, agent.ErrSuspended):
		outcome = CutOff
	case x.err != nil:
		outcome = Failed
	}
	t.hears.Turn(ctx, x.door, string(outcome))
}

// enter registers a turn, unless its user has too many at work, or all users have: a client that does
// not wait for answers could begin any number of them.
func (t *Turns) enter(ctx context.Context, x *Turn) error {
	if t.Stopping() {
		return ErrClosed
	}
	if err := t.count(ctx, x); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s, err := t.of(x.key)
	if t.closed || t.drains {
		err = ErrClosed
	}
	if err != nil {
		t.limit.Leave(x.key.User)
		return err
	}
	x.backend = s.backend
	t.add(x)
	return nil
}

// count takes a place for a turn, until it is left. A turn that no client asked for does not wait.
func (t *Turns) count(ctx context.Context, x *Turn) error {
	if x.takesUp {
		return t.limit.Enter(x.key.User)
	}
	return t.limit.Await(ctx, x.key.User)
}

// add registers a turn. It is called with the mutex.
func (t *Turns) add(x *Turn) {
	t.ended.Add(1)
	x.tenure = t.tenure
	x.tenure.turns++
	if t.hears != nil {
		t.hears.Running(context.Background(), x.door, 1)
	}
	t.running[x.key] = append(t.running[x.key], x)
}

func (t *Turns) exit(x *Turn) {
	t.mu.Lock()
	rest := slices.DeleteFunc(t.running[x.key], func(o *Turn) bool { return o == x })
	if t.running[x.key] = rest; len(rest) == 0 {
		delete(t.running, x.key)
	}
	x.tenure.turns--
	if t.hears != nil {
		t.hears.Running(context.Background(), x.door, -1)
	}
	t.release(x.tenure)
	t.mu.Unlock()
	if x.counts {
		t.limit.Leave(x.key.User)
	}
	t.changed(x.key)
	t.ended.Done()
}

// here returns the turns of a session that this process runs, or tries to.
func (t *Turns) here(key session.Key) []*Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.running[key])
}
