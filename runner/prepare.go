package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"golang.org/x/sync/errgroup"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/tools"
)

// Start starts what agents of the tree must not go without, in its graphs and tools as well: the
// tools of an mcp.Required server. The error says what cannot be started, and wraps
// tools.ErrRequired. A program calls it before it serves anybody; without it, the first turn that
// needs the tools ends with that error.
func (r *Runner) Start(ctx context.Context) error {
	var all []error
	for a := range r.tree.Everyone() {
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

// prepares is how many agents Prepare asks at the same time.
const prepares = 8

// Prepare asks every agent of the tree that is an agent.Readier whether it can start, and every such agent inside of its
// graphs and tools, so that remote agents fetch their cards before a message needs them. It returns when all of
// them have answered. An agent that cannot start is logged, and changes nothing: the runner asks it again when
// it is needed. A use meanwhile shares the fetch.
//
// A program calls it in the background when it starts, as live.New does:
//
//	go run.Prepare(ctx)
func (r *Runner) Prepare(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(prepares)
	asked := make(map[agent.Readier]bool)
	for a := range r.tree.Everyone() {
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
