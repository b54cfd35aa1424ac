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
	shares       bool
	anticipates  bool
	predictor    Predictor
	threshold    float64
	anticipated  func(over <-chan struct{}) // of tests: called when an anticipation has begun
}

// Option configures a Runner.
type Option func(*config)

// WithStreaming also delivers partial events while models produce them.
func WithStreaming() Option { return func(c *config) { c.streaming = true } }

// WithOuterRetries leaves retries of models to the caller of [Runner.Advance] or [Runner.Resume]. A temporary error of a
// model, such as too many requests, then ends the turn but not the run, and is not stored. The option is for engines
// that back off themselves. It applies to the agents of the conversation, and not to agents inside of tools and graphs.
func WithOuterRetries() Option { return func(c *config) { c.outer = true } }

// WithLimits replaces the limits of a turn.
func WithLimits(l Limits) Option { return func(c *config) { c.limits = l } }

// WithWait makes a turn wait up to d for a busy session before it fails with [agent.ErrSessionBusy]. Defaults to 0,
// which does not wait.
func WithWait(d time.Duration) Option { return func(c *config) { c.wait = d } }

// WithLogger sets the logger. By default nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// WithClock sets the clock for the times of events. Defaults to time.Now.
func WithClock(now func() time.Time) Option { return func(c *config) { c.now = now } }

// WithIDs sets the function that creates ids. It must be safe for concurrent use and must not repeat an id within a
// session. An id must not contain a slash, which separates the scopes of workflows.
func WithIDs(newID func() string) Option { return func(c *config) { c.newID = newID } }

// WithCache sets how many recently used sessions the runner caches; 0 caches none. Defaults to 1024.
func WithCache(sessions int) Option { return func(c *config) { c.cached = sessions } }

// WithSnapshots sets the minimum number of events between two snapshots of a session. The runner stores a snapshot
// after a turn, if the store keeps snapshots; then a session that is not in the cache need not be read from the
// beginning. Large snapshots are stored less often. Defaults to 64; 0 neither stores nor reads snapshots.
func WithSnapshots(events int) Option { return func(c *config) { c.every = events } }

// WithTokenCounter sets how tokens are counted before an endpoint reports them: in previews, and to reserve budgets.
// Defaults to [llm.EstimateTokens].
func WithTokenCounter(counter llm.TokenCounter) Option {
	return func(c *config) { c.counter = counter }
}

// ResumeRoot starts every turn at the root instead of the agent that was active before.
func ResumeRoot() Option { return func(c *config) { c.resumeRoot = true } }

// WithFileLimit limits the bytes of one file that an agent or a tool creates. Defaults to 32 MiB.
func WithFileLimit(bytes int64) Option { return func(c *config) { c.fileLimit = bytes } }

// WithInterceptors wraps turns, model calls and tool calls. The first interceptor is the outermost; interceptors of a
// second WithInterceptors come inside.
func WithInterceptors(interceptors ...agent.Interceptor) Option {
	return func(c *config) { c.interceptors = append(c.interceptors, interceptors...) }
}

// WithBudgets sets budgets, in addition to those that agents have in their agent.Properties. If both limit the same
// thing, the stricter one applies. By default there are none.
func WithBudgets(b Budgets) Option { return func(c *config) { c.budgets = b } }

// WithPrices sets the prices for budgets of cost. [New] returns an error that wraps [agent.ErrUnknownPrice] if the
// model of an agent under such a budget has no price. If the model is known only later, the turn ends with that error
// before the model is called.
func WithPrices(p llm.Prices) Option { return func(c *config) { c.prices = p } }

// WithDesk lets conversations go to a person at a desk: through a router, because the user asks for one, or through
// an agent whose transfer policy allows it. The tree gets a node named [agent.Human] without a parent.
// [Runner.Deliver] stores what the person writes.
func WithDesk(desk human.Desk, opts ...human.Option) Option {
	return func(c *config) { c.person = human.NewAgent(desk, opts...) }
}

// WithSharedRequests makes the LLM agents of the tree whose models have the same name send requests that differ only in
// the last message: tools, system text and history are the same bytes for all of them, and the last message says which
// agent answers, with its instructions and the tools and targets that it may use now. So an endpoint that caches
// prompts need not read the conversation again after a transfer. Nothing of it is in the log, and a call that the
// agent may not make is answered with an error, as that of an unknown tool is.
//
// [New] reports each agent that cannot share its requests and why: a history policy or an edge that hides something
// from it, a compaction, tools for transfers of its own, a tool that differs from another one of that name, and more
// tools than the endpoint accepts. Agents whose model no other agent uses, and agents inside of tools and graphs, keep
// their own requests. By default each agent does.
func WithSharedRequests() Option { return func(c *config) { c.shares = true } }

// WithAnticipation asks the probable target of a transfer while the agent that may transfer is still asked, so that the
// user need not wait for one answer after the other. It is for the first request of a turn that [Runner.Run] runs. If the
// predictor is at least as sure as the threshold, which is over 0 and at most 1, the runner makes the request that the
// target makes after a transfer without a reason. If the turn transfers to the target and the two requests are
// equal, its answer is the one that is under way; otherwise that request is cancelled at once, and the log has a
// discard of the code [event.CodeAnticipated] with what it has used, which counts as a model call in limits and
// budgets. The rest of the log is what it is without the option. The models of targets are not shown the reasons of
// transfers, see [agent.WithAnticipation].
//
// The request is made only if limits and budgets have room for it and for the target's own. Nothing is anticipated
// where an input, a guard, an approval or the condition of an edge comes before the target, for agents whose view a
// function chooses or changes, or that have to say that they are ready, for a model that asks others, and for agents
// without a model. Models and interceptors see such a request marked, see [llm.Anticipated].
//
// By default nothing is anticipated.
func WithAnticipation(p Predictor, threshold float64) Option {
	return func(c *config) { c.predictor, c.threshold, c.anticipates = p, threshold, true }
}

// Limits limit one turn, over all agents and inner scopes. Zero switches a limit off. To change a single limit, start
// from [DefaultLimits].
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

// DefaultLimits returns the limits of a runner without [WithLimits]: 8 transfers, 50 model calls, 200 tool calls, 25
// answers per run, and no limit on time.
func DefaultLimits() Limits {
	return Limits{Transfers: 8, ModelCalls: 50, ToolCalls: 200, Steps: 25}
}

// Budget bounds what may be spent. Zero sets no bound.
type Budget = agent.Budget

// Budgets limit what sessions spend. Before a model call, the runner reserves the estimated tokens of the request and
// the tokens that the settings allow for the answer. After the call, the usage that the endpoint reports counts. So a
// budget can be exceeded only by an answer without Settings.MaxTokens, and only by the length of that answer.
//
// A budget that is spent ends the turn with an *[agent.BudgetError]. In an agent tool it ends the call, and the
// calling model reads the reason. The budget of a turn starts anew with the next turn; the budgets of sessions and
// agents last as long as the session. Usage in inner scopes counts.
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

// MissingUsage says how a budget of tokens or cost is charged when an endpoint reports no usage for an answer, or
// usage that is impossible.
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
	case c.anticipates && (c.predictor == nil || !(c.threshold > 0 && c.threshold <= 1)):
		return errors.New("runner: anticipation needs a predictor and a threshold over 0 and at most 1")
	case c.fileLimit <= 0:
		return errors.New("runner: the limit of files is not positive")
	}
	return nil
}
