package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Runner runs turns of one tree on the sessions of one store. It is safe for
// concurrent use; two turns on one session at once exclude each other.
type Runner struct {
	config
	tree  *agent.Tree
	cache *cache
	fixed map[*agent.Node]fixed // of the runner's own tree; read-only

	bounding map[string][]string // the names in budgets that an agent falls under, by what the log calls it
	budgeted budgeted

	innerMu sync.Mutex
	inner   map[agent.Agent]*agent.Tree // of agents that run in scopes of their own
}

// config is what a runner of a part of the tree has in common with that of the whole.
type config struct {
	store session.Store
	tail  session.Tail // the store, if others can follow sessions through it

	snapshots bool // the store keeps them
	every     int  // how many events come between two snapshots

	limits     Limits
	streaming  bool
	resumeRoot bool
	outer      bool // retries are somebody else's
	wait       time.Duration
	logger     *slog.Logger
	now        func() time.Time
	newID      func() string // nil: random ids
	owner      session.Owner

	person       *human.Agent // of the desk, nil without one
	interceptors []agent.Interceptor
	budgets      Budgets
	prices       llm.Prices
	fileLimit    int64
	tokens       llm.TokenCounter
}

// fixed is what all runs of an agent share: the payloads that are the same in each, and
// whether all of its targets can start without being asked.
type fixed struct {
	start  *event.HarnessStart
	stop   *event.HarnessEnd
	atOnce bool
}

func newFixed(name string) fixed {
	return fixed{start: &event.HarnessStart{AgentID: name}, stop: &event.HarnessEnd{AgentID: name, FinishReason: event.FinishReasonStop}}
}

// asked reports whether one of a node's targets has to be asked whether it can start.
func asked(n *agent.Node) bool {
	return slices.ContainsFunc(n.Targets(), func(to *agent.Node) bool { _, ok := agent.As[agent.Readier](to.Agent); return ok })
}

// fixedOf returns what the runs of a node share, or new ones for an agent that
// runs in a scope with a tree of its own.
func (r *Runner) fixedOf(n *agent.Node) fixed {
	if f, ok := r.fixed[n]; ok {
		return f
	}
	return newFixed(n.Agent.Name())
}

// Option configures a Runner.
type Option func(*Runner)

// WithStreaming also delivers partial events, as models produce them.
func WithStreaming() Option { return func(r *Runner) { r.streaming = true } }

// WithOuterRetries leaves it to whoever calls [Runner.Advance] or Resume to ask a model again that failed with an error that
// may go away, such as too many requests: it ends the turn, but not the run, and is not stored. That is for
// engines with a back-off of their own, and concerns the conversation's agents, not those inside of tools and graphs.
func WithOuterRetries() Option { return func(r *Runner) { r.outer = true } }

// WithLimits replaces the limits of a turn.
func WithLimits(l Limits) Option { return func(r *Runner) { r.limits = l } }

// WithWait makes a turn wait so long for a busy session before it gives up with
// agent.ErrSessionBusy. The default is not to wait.
func WithWait(d time.Duration) Option { return func(r *Runner) { r.wait = d } }

// WithLogger sets the logger; by default nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(r *Runner) { r.logger = l } }

// WithClock sets the clock that events are stamped with.
func WithClock(now func() time.Time) Option { return func(r *Runner) { r.now = now } }

// WithIDs sets the source of ids. It must be safe for concurrent use and never repeat
// an id within a session. An id must not contain a slash, which marks the scopes of
// workflows.
func WithIDs(newID func() string) Option { return func(r *Runner) { r.newID = newID } }

// WithCache bounds how many recently used sessions are kept warm; 0 keeps none.
// The default is 1024.
func WithCache(sessions int) Option { return func(r *Runner) { r.cache = newCache(sessions) } }

// WithSnapshots sets how many events come at least between two snapshots of a session, which the runner stores beside the
// log after a turn, if the store keeps snapshots: then a session that is not warm need not be read from
// the beginning. The default is 64; 0 neither stores nor reads any. Large ones come less often.
func WithSnapshots(events int) Option { return func(r *Runner) { r.every = events } }

// WithTokenCounter sets how tokens are counted before the endpoint has said how
// many there are: in previews, and to reserve budgets. The default is
// llm.EstimateTokens.
func WithTokenCounter(c llm.TokenCounter) Option { return func(r *Runner) { r.tokens = c } }

// ResumeRoot starts every turn at the root, whoever was active before.
func ResumeRoot() Option { return func(r *Runner) { r.resumeRoot = true } }

// New makes a runner for the tree below root. The error reports every problem
// of the tree at once, as an *agent.TreeError.
func New(root agent.Agent, store session.Store, opts ...Option) (*Runner, error) {
	if store == nil {
		return nil, errors.New("runner: the store is nil")
	}
	r := &Runner{cache: newCache(1024), config: config{store: store, limits: DefaultLimits(), logger: slog.New(slog.DiscardHandler),
		now: time.Now, owner: session.Self(), tokens: llm.EstimateTokens, fileLimit: 32 << 20, every: snapshotEvery}}
	r.tail, _ = store.(session.Tail)
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("runner: option %d is nil", i)
		}
		o(r)
	}
	if err := r.plant(func(opts ...agent.TreeOption) (*agent.Tree, error) { return agent.NewTree(root, opts...) }); err != nil {
		return nil, err
	}
	if r.now == nil || r.logger == nil || slices.Contains(r.interceptors, nil) {
		return nil, errors.New("runner: a clock, a logger or an interceptor is nil")
	}
	if r.limits.Transfers < 0 || r.limits.ModelCalls < 0 || r.limits.ToolCalls < 0 || r.limits.Steps < 0 || r.limits.Time < 0 {
		return nil, errors.New("runner: a limit is negative; 0 switches it off")
	}
	if r.every < 0 {
		return nil, errors.New("runner: snapshots come after a number of events that is negative; 0 stores none")
	}
	r.snapshots = r.every > 0 && store.KeepsSnapshots()
	if r.fileLimit <= 0 {
		return nil, errors.New("runner: the limit of files is not positive")
	}
	if err := r.checkBudgets(); err != nil {
		return nil, err
	}
	return r, nil
}

// plant makes the tree.
func (r *Runner) plant(tree func(...agent.TreeOption) (*agent.Tree, error)) (err error) {
	var beside []agent.TreeOption
	if r.person != nil {
		if err := r.person.Check(); err != nil {
			return err
		}
		beside = append(beside, agent.WithHuman(r.person))
	}
	if r.tree, err = tree(beside...); err != nil {
		return err
	}
	// What is the same in every run of an agent is made once.
	r.fixed = make(map[*agent.Node]fixed, r.tree.Len())
	for n := range r.tree.Walk() {
		f := newFixed(n.Agent.Name())
		f.atOnce = !asked(n)
		r.fixed[n] = f
	}
	return nil
}

// Store returns the store that the runner works on, which stays the caller's.
func (r *Runner) Store() session.Store { return r.store }

// Tree returns the validated tree.
func (r *Runner) Tree() *agent.Tree { return r.tree }

// Run gives the user's message to the session's active agent and yields what
// happens, stored events in the order of the log, until the turn is over. The
// message's content is stored word for word.
//
// An error comes last and ends the turn: agent.ErrBadInput, agent.ErrSessionBusy and,
// with the option [At], agent.ErrConflict before anything was stored; an *agent.RunError when an
// agent failed or a limit was reached, with an error event before it; else the
// store's or the context's. The session stays usable after each. Breaking out of
// the loop cancels the turn and stores nothing more.
func (r *Runner) Run(ctx context.Context, key session.Key, msg llm.Message, opts ...TurnOption) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		o, err := turnOptionsOf(key, msg, opts)
		if err != nil {
			yield(nil, err)
			return
		}
		r.events(ctx, key, &msg, func(t *turn) error { return t.begin(msg, o) }, (*lane).run, yield)
	}
}

// Resume continues a turn that a crash or a cancellation cut off, from the log
// alone: what is recorded is not asked for again, inside of agents that tools and graphs run
// as well. A tool whose outcome is unknown is run again only if it is idempotent or
// resumable. Without an unfinished turn the
// sequence is empty.
//
// A turn that ended to wait for something else, such as an authorization that a remote
// agent asks for, continues with a new run of the same agent, which checks whether it
// has arrived.
//
// A turn that waits for approvals continues with the decisions given, in any
// process, also days after the question; what is not decided keeps waiting. A
// call that was decided and settled before is not run again: its recorded result
// is yielded. An error that is [ErrNoApproval] says that nobody asked about a
// call; nothing is stored then. In a fork, a call that the other session made cannot be approved.
// Resume denies it there, even without decisions, and the model reads that the call belongs to the other session.
func (r *Runner) Resume(ctx context.Context, key session.Key, decisions ...Decision) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		if err := session.CheckKey(key); err != nil {
			yield(nil, err)
			return
		}
		r.events(ctx, key, nil, func(t *turn) error {
			if len(decisions) == 0 && t.w.fold.Waits() {
				return t.lookAgain()
			}
			return t.resume(decisions)
		}, (*lane).run, yield)
	}
}

// History yields all stored events of a session, oldest first.
func (r *Runner) History(ctx context.Context, key session.Key) iter.Seq2[*event.Event, error] {
	return r.store.Load(ctx, key, 0)
}

// active returns the node that answers next, and whether the log names an agent
// that is no longer in the tree.
func (r *Runner) active(f *session.Fold) (n *agent.Node, missing bool) {
	name := f.Scope("").Active
	if name == agent.Human && r.person != nil { // while a handoff is under way
		return r.tree.Node(name), false
	}
	if name == "" || r.resumeRoot {
		return r.tree.Root(), false
	}
	if n, _ = r.tree.Find(name); n == nil { // an error ends the run that begins here
		return r.tree.Root(), true
	}
	for n.Parent != nil && n.Properties.Return == agent.ReturnToParent {
		n = n.Parent
	}
	if router := n.FirstRouter(); router != nil {
		return router, false
	}
	return n, false
}
