package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
)

// tree is a runner with its tree. revision is a hash of the tree's agents, instructions and tools.
type tree struct {
	run      *runner.Runner
	revision string
}

// currentTree returns the tree that the next turn uses. It computes the revision once for each runner.
func (h *Handler) currentTree() *tree {
	run := h.turns.Runner()
	if t := h.tree.Load(); t != nil && t.run == run {
		return t
	}
	sum := sha256.New()
	sum.Write(event.EncodeJSON(render.AgentsOf(run.Tree())))
	for n := range run.Tree().Walk() {
		if a, ok := agent.As[*llmagent.Agent](n.Agent); ok {
			fmt.Fprintf(sum, "%q %q\n", a.Instructions(), n.Properties.GlobalInstruction)
			for _, t := range a.Tools() {
				fmt.Fprintf(sum, "%s\n", event.EncodeJSON(t.Info()))
			}
		}
	}
	t := &tree{run, hex.EncodeToString(sum.Sum(nil)[:8])}
	h.tree.Store(t)
	return t
}
