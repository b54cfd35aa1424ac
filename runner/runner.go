package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
	"golang.org/x/sync/errgroup"
)

// Runner runs the turns of one tree on the sessions of one store. It is safe for concurrent use. Only one turn at a
// time can run on a session. The zero value is not usable; see [New].
type Runner struct{ *setup }

// New returns a runner for the tree below root. The error is an *[agent.TreeError] that reports every problem of the
// tree.
func New(root agent.Agent, store session.Store, opts ...Option) (*Runner, error) {
	if store == nil {
		return nil, errors.New("runner: the store is nil")
	}
	c := config{store: store, logger: slog.New(slog.DiscardHandler), now: time.Now, owner: session.Self(),
		counter: llm.EstimateTokens, fileLimit: 32 << 20, snapshotEvery: snapshotEvery, cached: 1024}
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("runner: option %d is nil", i)
		}
		o(&c)
	}
	if c.newID == nil {
		c.newID = randomID
	}
	c.limits = c.limits.effective()
	c.tail, _ = store.(session.Tail)
	c.snapshots = c.snapshotEvery > 0 && store.KeepsSnapshots()
	tree, err := c.makeTree(func(opts ...agent.TreeOption) (*agent.Tree, error) { return agent.NewTree(root, opts...) })
	if err != nil {
		return nil, err
	}
	r, err := newSetup(c, tree)
	if err != nil {
		return nil, err
	}
	return &Runner{r}, nil
}

// Store returns the store of the runner, which the caller closes.
func (r *Runner) Store() session.Store { return r.store }

// Tree returns the validated tree.
func (r *Runner) Tree() *agent.Tree { return r.tree }

// Limits returns the limits of each turn, with the defaults. Other than in [WithLimits], 0 is no limit.
func (r *Runner) Limits() Limits { return r.limits }

// Under returns a runner for the subtree at a path, on the same store, for sessions that start at a specialist. The
// path has the names below the root, such as support/billing; "" is the runner itself. The limits, budgets and other
// options are those of this runner; see also [agent.Node.Subtree]. The two runners must not share a session. The
// error is [ErrNoAgent].
func (r *Runner) Under(path string) (*Runner, error) {
	if path == "" {
		return r, nil
	}
	n := r.tree.Root()
	for name := range strings.SplitSeq(path, "/") {
		below := r.tree.Node(name)
		if below == nil || below.Parent != n {
			return nil, fmt.Errorf("%w: the tree has none at the path %q below %s", ErrNoAgent, path, r.tree.Root().Agent.Name())
		}
		n = below
	}
	tree, err := r.makeTree(n.Subtree)
	if err != nil {
		return nil, err
	}
	c, names := r.config, tree.Names()
	c.budgets = r.bounds.budgets
	c.budgets.Agents = maps.Clone(c.budgets.Agents)
	maps.DeleteFunc(c.budgets.Agents, func(name string, _ Budget) bool {
		for called, own := range names {
			if isNamed(name, called, own) {
				return false
			}
		}
		return true
	})
	under, err := newSetup(c, tree)
	if err != nil {
		return nil, err
	}
	return &Runner{under}, nil
}

// ErrNoAgent reports that the tree has no agent at a path.
var ErrNoAgent = fmt.Errorf("no such agent: %w", agent.ErrBadInput)

// Start starts what agents of the tree require, including agents in graphs and tools: for example the tools of an
// mcp.Required server. The error names what cannot be started, and wraps tools.ErrRequired. A program calls Start
// before it serves requests. Without it, the first turn that needs the tools ends with that error.
func (r *Runner) Start(ctx context.Context) error {
	var all []error
	for a := range r.tree.AllAgents() {
		with, ok := agent.As[interface{ Toolsets() []tools.Set }](a)
		if !ok {
			continue
		}
		for _, set := range with.Toolsets() {
			if s, ok := set.(tools.Starter); ok {
				all = append(all, s.Start(ctx))
			}
		}
	}
	return errors.Join(all...)
}

// maxPrepares is the number of agents that Prepare asks at the same time.
const maxPrepares = 8

// Prepare calls Ready of every agent of the tree that is an agent.Readier, including agents in graphs and tools, so
// that remote agents fetch their agent cards before a message needs them. It returns when all of them have answered.
// If an agent is not ready, Prepare logs it; the runner asks it again when it needs the agent. A turn that needs the
// agent meanwhile shares the fetch.
//
// A program calls Prepare in the background when it starts, as live.New does:
//
//	go run.Prepare(ctx)
func (r *Runner) Prepare(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(maxPrepares)
	asked := make(map[agent.Readier]bool)
	for a := range r.tree.AllAgents() {
		ready, ok := agent.As[agent.Readier](a)
		if !ok || asked[ready] {
			continue
		}
		asked[ready] = true
		g.Go(func() error {
			defer func() {
				if p := recover(); p != nil {
					r.logger.Error("an agent panicked", "agent", a.Name(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				}
			}()
			if err := ready.Ready(ctx); err != nil && ctx.Err() == nil {
				r.logger.Warn("an agent cannot start yet", "agent", a.Name(), "error", err)
			}
			return nil
		})
	}
	_ = g.Wait()
}
