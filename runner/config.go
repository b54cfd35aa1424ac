package runner

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// config is what the options of a runner set.
type config struct {
	store session.Store
	tail  session.Tail // the store, if others can follow sessions through it

	snapshots bool // the store keeps them
	every     int  // how many events come between two snapshots

	limits     Limits
	streaming  bool
	resumeRoot bool
	outer      bool // the caller retries
	wait       time.Duration
	logger     *slog.Logger
	now        func() time.Time
	newID      func() string
	owner      session.Owner

	person       *human.Agent // of the desk, nil without one
	interceptors []agent.Interceptor
	budgets      Budgets
	prices       llm.Prices
	fileLimit    int64
	counter      llm.TokenCounter
	cached       int // sessions
}

// Option configures a Runner.
type Option func(*config)

// WithStreaming also delivers partial events, as models produce them.
func WithStreaming() Option { return func(c *config) { c.streaming = true } }

// WithOuterRetries leaves retries of models to the caller of [Runner.Advance] or [Runner.Resume]. A temporary error of a
// model, such as too many requests, then ends the turn but not the run, and is not stored. The option is for engines
// that back off themselves. It applies to the agents of the conversation, and not to agents inside of tools and graphs.
func WithOuterRetries() Option { return func(c *config) { c.outer = true } }

// WithLimits replaces the limits of a turn.
func WithLimits(l Limits) Option { return func(c *config) { c.limits = l } }

// WithWait makes a turn wait so long for a busy session before it gives up with
// agent.ErrSessionBusy. The default is not to wait.
func WithWait(d time.Duration) Option { return func(c *config) { c.wait = d } }

// WithLogger sets the logger; by default nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// WithClock sets the clock that events are stamped with.
func WithClock(now func() time.Time) Option { return func(c *config) { c.now = now } }

// WithIDs sets the source of ids. It must be safe for concurrent use and never repeat
// an id within a session. An id must not contain a slash, which marks the scopes of
// workflows.
func WithIDs(newID func() string) Option { return func(c *config) { c.newID = newID } }

// WithCache bounds how many recently used sessions are kept warm; 0 keeps none.
// The default is 1024.
func WithCache(sessions int) Option { return func(c *config) { c.cached = sessions } }

// WithSnapshots sets how many events come at least between two snapshots of a session, which the runner stores next to the
// log after a turn, if the store keeps snapshots: then a session that is not in the cache need not be read from
// the beginning. The default is 64; 0 neither stores nor reads any. Large ones come less often.
func WithSnapshots(events int) Option { return func(c *config) { c.every = events } }

// WithTokenCounter sets how tokens are counted before the endpoint has said how
// many there are: in previews, and to reserve budgets. The default is
// llm.EstimateTokens.
func WithTokenCounter(counter llm.TokenCounter) Option {
	return func(c *config) { c.counter = counter }
}

// ResumeRoot starts every turn at the root instead of the agent that was active before.
func ResumeRoot() Option { return func(c *config) { c.resumeRoot = true } }

// WithFileLimit bounds the bytes of one file that an agent or a tool makes. The default is
// 32 MiB.
func WithFileLimit(bytes int64) Option { return func(c *config) { c.fileLimit = bytes } }

// WithInterceptors wraps turns, model calls and tool calls; the first
// interceptor is the outermost. Those of a second WithInterceptors come inside.
func WithInterceptors(interceptors ...agent.Interceptor) Option {
	return func(c *config) { c.interceptors = append(c.interceptors, interceptors...) }
}

// WithBudgets sets budgets, besides those that agents bring along in their
// [agent.Properties]; by default there are none. Where both bound something, the stricter
// bound holds.
func WithBudgets(b Budgets) Option { return func(c *config) { c.budgets = b } }

// WithPrices sets the prices by which a budget of cost is kept. [New] returns an error that wraps
// agent.ErrUnknownPrice if the model of an agent under such a budget has none. A model that is
// only known later is not asked: the turn ends with that error.
func WithPrices(p llm.Prices) Option { return func(c *config) { c.prices = p } }

// WithDesk lets conversations go to a person at a desk: by a router, by the user's wish, by an
// agent of the tree whose transfer policy allows it. The tree gets a node named
// [agent.Human], which has no parent. [Runner.Deliver] takes what the person says.
func WithDesk(desk human.Desk, opts ...human.Option) Option {
	return func(c *config) { c.person = human.NewAgent(desk, opts...) }
}

// Limits bound one turn, over all agents and inner scopes. Zero switches a
// limit off; start from [DefaultLimits] to change just one.
type Limits struct {
	// Transfers bounds committed transfers; without it nothing looks for circles.
	Transfers int
	// ModelCalls bounds the answers requested from models, discarded ones
	// included.
	ModelCalls int
	// ToolCalls bounds the calls of tools, in the order in which the log has them. Those
	// of one answer are run all or none.
	ToolCalls int
	// Steps bounds the answers of one run of one agent.
	Steps int
	// Time bounds the wall time of the turn.
	Time time.Duration
}

// DefaultLimits are the limits of a runner that sets none: 8 transfers, 50 model
// calls, 200 tool calls, 25 answers a run, and no bound on time.
func DefaultLimits() Limits {
	return Limits{Transfers: 8, ModelCalls: 50, ToolCalls: 200, Steps: 25}
}

// Budget bounds what may be spent. Zero sets no bound.
type Budget = agent.Budget

// Budgets bound what sessions spend. Before a model is asked, the tokens of the
// request (an estimate) and those its settings allow for the answer are
// reserved; what the endpoint then reports is what counts. So an answer without
// Settings.MaxTokens can exceed a budget by its own length, and nothing by more.
//
// A budget that is spent ends the turn with an *agent.BudgetError; in an agent
// tool it ends that call, and the calling model reads why. The budget of a
// turn is new with the next one; those of sessions and agents last as long as
// the session. What inner scopes use is counted.
type Budgets struct {
	Turn, Session Budget
	// Agents bounds what single agents use in a session, by name. The agent of a graph's node
	// has two: the node's id, and its own. By its own name, all nodes that use the agent
	// count together. Nodes of one id in several graphs count together as well. [New] returns
	// an error for a name that no agent of the tree, and no agent inside of them, has.
	Agents map[string]Budget
	// MissingUsage says how an answer is charged whose endpoint does not report what it
	// has used. An answer that broke off is always charged an estimate of what was sent
	// and of what came.
	MissingUsage MissingUsage
}

// MissingUsage says what a budget of tokens or cost is charged when an endpoint does not
// report what an answer has used, or reports what cannot be true.
type MissingUsage int

const (
	// RefuseMissingUsage ends the turn with agent.ErrUnknownUsage when a model is to be
	// asked next: the budget cannot be kept.
	RefuseMissingUsage MissingUsage = iota
	// EstimateMissingUsage charges an estimate, by the runner's token counter, of the
	// request and of the answer that came. The answer's usage event has it, with a
	// notice in addition that has the code usage_estimated. Earlier answers without usage
	// in the log count nothing.
	EstimateMissingUsage
)

// checkOptions refuses what no runner can work with.
func (c *config) checkOptions() error {
	l := c.limits
	switch {
	case c.now == nil || c.logger == nil || slices.Contains(c.interceptors, nil):
		return errors.New("runner: a clock, a logger or an interceptor is nil")
	case l.Transfers < 0 || l.ModelCalls < 0 || l.ToolCalls < 0 || l.Steps < 0 || l.Time < 0:
		return errors.New("runner: a limit is negative; 0 switches it off")
	case c.every < 0:
		return errors.New("runner: snapshots come after a number of events that is negative; 0 stores none")
	case c.fileLimit <= 0:
		return errors.New("runner: the limit of files is not positive")
	}
	return nil
}
