package render

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/router"
)

// RouterOf returns the router that an agent is or wraps, or nil.
func RouterOf(a agent.Agent) *router.Router {
	r, _ := agent.As[*router.Router](a)
	return r
}

// onErrors returns the agents that continue after an error of a router's specialist, by the name of the failed agent.
func onErrors(n *agent.Node) map[string]string {
	fallbacks := map[string]string{}
	for _, child := range n.Children() {
		if child.Edge.OnError != "" {
			fallbacks[child.Agent.Name()] = child.Edge.OnError
		}
	}
	return fallbacks
}

// drawRules lists the rules of a router in order.
func drawRules(w io.Writer, n *agent.Node, r *router.Router, l Terminal, indent string) {
	for _, rule := range r.Rules() {
		line := fmt.Sprintf("%d  %s → %s", rule.Index, visible.Cut(visible.Line(rule.When), 100), rule.To)
		if reason := visible.Line(rule.Reason); reason != "" && rule.Reason != rule.When {
			line += l.Paint(faint, "  "+reason)
		}
		fmt.Fprintln(w, indent+line)
	}
	stays := ""
	if r.Sticky() {
		stays = "the agent that was in charge before, or "
	}
	fmt.Fprintf(w, "%selse → %s%s\n", indent, stays, r.Default())
	fallbacks := onErrors(n)
	for _, child := range n.Children() {
		if to := fallbacks[child.Agent.Name()]; to != "" {
			fmt.Fprintln(w, l.Paint(faint, indent+"after an error of "+child.Agent.Name()+": "+to))
		}
	}
}

// arrow is a connection between two agents in a drawing.
type arrow struct {
	to    *agent.Node
	lines []string // the labels
	faint bool     // it does not lead down the tree
}

// arrows returns the possible transfers of an agent; for a router, the targets of its rules.
func arrows(n *agent.Node) (all []*arrow) {
	r := RouterOf(n.Agent)
	if r == nil {
		for _, t := range n.Targets() {
			all = append(all, &arrow{to: t, faint: t.Parent != n})
		}
		return all
	}
	by := map[string]*arrow{}
	add := func(to *agent.Node) *arrow {
		a := &arrow{to: to}
		by[to.Agent.Name()], all = a, append(all, a)
		return a
	}
	for _, child := range n.Children() {
		add(child)
	}
	write := func(to, line string) {
		a := by[to]
		if a == nil {
			a = add(n.Human())
		}
		if a.lines = append(a.lines, line); len(a.lines) > maxArrowLines {
			a.lines = append(a.lines[:maxArrowLines-1], "…")
		}
	}
	for _, rule := range r.Rules() {
		write(rule.To, fmt.Sprintf("%d %s", rule.Index, visible.Cut(visible.Line(rule.When), 60)))
	}
	write(r.Default(), "else")
	return all
}

// maxArrowLines is the largest number of lines at an arrow.
const maxArrowLines = 6

// jsonRouter is the part of tree --format json that only routers have.
type jsonRouter struct {
	Rules   []router.RuleInfo `json:"rules"`
	Default string            `json:"default"`
	Sticky  bool              `json:"sticky"`
	OnError map[string]string `json:"onError,omitempty"`
}

// Decision prints what a router would decide about a message, and why.
func Decision(w io.Writer, d router.Decision, l Terminal) {
	why := "no rule matches"
	if d.RuleIndex != nil {
		why = fmt.Sprintf("rule %d", *d.RuleIndex)
	}
	fmt.Fprintf(w, "%s: %s → %s\n", l.Paint(cyan, d.From), why, l.Paint(cyan, d.To))
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "  %-10s %s\n", name, visible.Line(text))
		}
	}
	line("rule", d.When)
	line("matched", d.Matched)
	if d.Reason != d.Matched {
		line("reason", d.Reason)
	}
	if d.IntentLabel != "" {
		line("intent", fmt.Sprintf("%s %.2f", d.IntentLabel, d.IntentConfidence))
	}
	for _, label := range slices.Sorted(maps.Keys(d.Sentiment)) {
		line("sentiment", fmt.Sprintf("%s %.2f", label, d.Sentiment[label]))
	}
	line("language", d.Language)
	for _, n := range d.Notices {
		line("notice", n)
	}
	line("time", time.Duration(d.LatencyMs*float64(time.Millisecond)).String())
}
