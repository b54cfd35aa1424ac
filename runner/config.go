package runner

import (
	"cmp"
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

	snapshots     bool // the store keeps snapshots
	snapshotEvery int  // the minimum number of events between two snapshots

	limits       Limits
	streaming    bool
	resumeRoot   bool
	outerRetries bool // the caller retries
	wait         time.Duration
	logger       *slog.Logger
	now          func() time.Time
	newID        func() string
	owner        session.Owner

	person         *human.Agent // the node of the desk, nil without one
	interceptors   []agent.Interceptor
	budgets        Budgets
	prices         llm.Prices
	fileLimit      int64
	counter        llm.TokenCounter
	cached         int // sessions
	sharedRequests bool
	anticipates    bool
	predictor      Predictor
	threshold      float64
	anticipated    func(over <-chan struct{}) // of tests: called when an anticipation has begun
}

// Option configures a Runner.
type Option func(*config)

// WithStreaming also delivers partial events while models produce them.
func WithStreaming() Option { return func(c *config) { c.streaming = true } }

// WithOuterRetries leaves retries of models to the caller of [Runner.Advance] or [Runner.Resume]. A temporary error of
// a model, such as too many requests, then ends the turn but not the run, and is not stored. The option is for engines
// that back off themselves. It applies to the agents of the conversation, and not to agents inside of tools and graphs.
func WithOuterRetries() Option { return func(c *config) { c.outerRetries = true } }

// WithLimits sets the limits of a turn. A limit of 0 keeps its default.
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
func WithSnapshots(events int) Option { return func(c *config) { c.snapshotEvery = events } }

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
// thing, the stricter one applies. By default there are no other budgets.
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

// WithSharedRequests makes the LLM agents of the tree whose models have the same name send requests that differ only
// at the end. Tools, system text and history are the same bytes for all of them. One more message says which agent
// answers, with its instructions and the tools and targets that it may use now. An endpoint that caches prompts
// then need not process the conversation again after a transfer. The log does not contain these messages. If the
// agent makes a call that it may not make, the result is an error, as for an unknown tool.
//
// [New] reports each agent that cannot share its requests, and why: a history policy or an edge that hides something
// from it, a compaction, its own transfer tools, a tool that differs from another tool with the same name, or more
// tools than the endpoint accepts. Agents whose model no other agent uses, and agents inside tools and graphs, keep
// their own requests. By default all agents do.
func WithSharedRequests() Option { return func(c *config) { c.sharedRequests = true } }

// WithAnticipation sends the request of the probable target of a transfer early, while the agent that may transfer is
// still answering, so that the user need not wait for two answers in sequence. It applies to the first request of a
// turn that [Runner.Run] runs. If the predictor is at least as sure as the threshold, which must be over 0 and at
// most 1, the runner sends the request that the target would send after a transfer without a reason.
//
// If the turn transfers to the target and the two requests are equal, the early answer is used. Otherwise the early
// request is canceled at once, and the log has a discard with the code [event.CodeAnticipated] and the usage of the
// request, which counts as a model call in limits and budgets. The rest of the log is the same as without the option.
// The models of targets do not see the reasons of transfers; see [agent.WithAnticipation].
//
// The runner sends the early request only if limits and budgets have room for it and for the target's own request. It
// sends none if an input, a guard, an approval or the condition of an edge comes before the target. It also sends
// none for agents without a model, agents whose view a function chooses or changes, agents that must report that they
// are ready, and models that ask other models. Models and interceptors can recognize an early request; see
// [llm.Anticipated].
//
// By default no request is sent early.
func WithAnticipation(p Predictor, threshold float64) Option {
	return func(c *config) { c.predictor, c.threshold, c.anticipates = p, threshold, true }
}

// NoLimit switches a limit of [Limits] off.
const NoLimit = -1

// Limits limit one turn, over all agents and inner scopes. 0 is the default of a limit, and [NoLimit] or any other
// number below 0 switches it off.
type Limits struct {
	// Transfers bounds committed transfers. Without it nothing detects transfers in a circle. Defaults to 8.
	Transfers int
	// ModelCalls bounds the answers that are requested from models, including discarded ones. Defaults to 50.
	ModelCalls int
	// ToolCalls bounds the tool calls, in the order of the log. The calls of one answer run together, or none of them
	// does. Defaults to 200.
	ToolCalls int
	// Steps bounds the answers in one run of one agent. Defaults to 25.
	Steps int
	// Time bounds the wall time of the turn. Defaults to no limit.
	Time time.Duration
}

// effective returns the limits with their defaults. In the result 0 is no limit.
func (l Limits) effective() Limits {
	return Limits{Transfers: max(0, cmp.Or(l.Transfers, 8)), ModelCalls: max(0, cmp.Or(l.ModelCalls, 50)),
		ToolCalls: max(0, cmp.Or(l.ToolCalls, 200)), Steps: max(0, cmp.Or(l.Steps, 25)), Time: max(0, l.Time)}
}

// Budget bounds what may be spent. Zero sets no bound.
type Budget = agent.Budget

// Budgets limit what sessions spend. Before a model call, the runner reserves the estimated tokens of the request and
// the tokens that the settings allow for the answer. After the call, the usage that the endpoint reports counts. A
// budget can therefore be exceeded only by an answer without Settings.MaxTokens, and only by the length of that
// answer.
//
// A spent budget ends the turn with an *[agent.BudgetError]. In an agent tool it ends the call, and the calling model
// reads the reason. The budget of a turn starts again with the next turn; the budgets of sessions and agents last as
// long as the session. Usage in inner scopes counts.
type Budgets struct {
	Turn, Session Budget
	// Agents bounds the usage of single agents in a session, by name. The agent of a graph's node has two names: the
	// node's id and its own name. The budget for an agent's own name covers all nodes that use the agent. Nodes with
	// the same id in several graphs are counted together. [New] returns an error for a name that no agent of the tree
	// and no agent inside them has.
	Agents map[string]Budget
	// MissingUsage says how an answer without a reported usage is charged. An interrupted answer is always charged an
	// estimate of what was sent and received.
	MissingUsage MissingUsage
}

// MissingUsage says how a budget of tokens or cost is charged when an endpoint reports no usage for an answer, or
// usage that is impossible.
type MissingUsage int

const (
	// RefuseMissingUsage ends the turn with agent.ErrUnknownUsage before the next model call, because the budget cannot
	// be enforced. If the model has reported a usage before in the session, its answer is charged an estimate, as with
	// EstimateMissingUsage.
	RefuseMissingUsage MissingUsage = iota
	// EstimateMissingUsage charges an estimate of the request and the answer by the runner's token counter. The
	// answer's usage event contains the estimate, and a notice with the code usage_estimated follows. Earlier answers
	// without usage in the log count as 0.
	EstimateMissingUsage
)

// checkOptions returns an error if an option is out of range.
func (c *config) checkOptions() error {
	switch {
	case c.now == nil || c.logger == nil || slices.Contains(c.interceptors, nil):
		return errors.New("runner: a clock, a logger or an interceptor is nil")
	case c.snapshotEvery < 0:
		return errors.New("runner: the number of events of WithSnapshots is negative: give 0 to store none")
	case c.anticipates && (c.predictor == nil || !(c.threshold > 0 && c.threshold <= 1)):
		return errors.New("runner: anticipation needs a predictor and a threshold over 0 and at most 1")
	case c.fileLimit <= 0:
		return errors.New("runner: the limit of WithFileLimit is not positive")
	}
	return nil
}
