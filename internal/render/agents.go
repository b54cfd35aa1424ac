package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph/graphdraw"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/view"
)

// Agents is a tree in the form of tree --format json, with the settings of each agent's place.
type Agents struct {
	Root *jsonNode `json:"root"`
	// Human is the person who can receive the conversation, or nil.
	Human *jsonNode `json:"human,omitempty"`
}

// jsonPlace is an agent's place in the tree.
type jsonPlace struct {
	Kind   string      `json:"kind"` // router, graph, workflow, remote, human or agent
	Edge   *jsonEdge   `json:"edge,omitempty"`
	Routes []jsonRoute `json:"routes,omitempty"`
}

// jsonEdge contains the settings of transfers to an agent from its parent.
type jsonEdge struct {
	History    string          `json:"history,omitempty"` // the policy of its view of the conversation
	Input      json.RawMessage `json:"input,omitempty"`   // the schema of the required input of a transfer
	HideReason bool            `json:"hideReason,omitempty"`
	OnError    string          `json:"onError,omitempty"` // the agent that continues if it fails
}

// jsonRoute is a transfer that happens without a choice of the model.
type jsonRoute struct {
	To          string `json:"to"`
	Conditional bool   `json:"conditional,omitempty"`
}

// AgentsOf returns the Agents of a tree.
func AgentsOf(tree *agent.Tree) Agents {
	all := Agents{Root: nodeJSON(tree.Root(), placeJSON)}
	if h := tree.Root().Human(); h != nil {
		all.Human = nodeJSON(h, placeJSON)
	}
	return all
}

// Own removes what only users with the right to inspect may see: addresses, rules, graphs and edges.
func (a Agents) Own() Agents {
	a.Root.own()
	return a
}

func (j *jsonNode) own() {
	j.Remote, j.Router, j.jsonGraph, j.Edge, j.Routes = "", nil, nil, nil, nil
	for _, below := range [...][]*jsonNode{j.Agents, j.SubAgents} {
		for _, n := range below {
			n.own()
		}
	}
}

func placeJSON(n *agent.Node) *jsonPlace {
	p := &jsonPlace{Kind: "agent"}
	_, remote := remoteURL(n.Agent)
	switch {
	case n.Virtual():
		p.Kind = "human"
	case n.Properties.Router:
		p.Kind = "router"
	case GraphOf(n.Agent) != nil:
		p.Kind = "graph"
	case n.Properties.Workflow:
		p.Kind = "workflow"
	case remote:
		p.Kind = "remote"
	}
	edge := jsonEdge{HideReason: n.Edge.HideReason, OnError: n.Edge.OnError}
	if history, ok := n.Edge.History.(view.Policy); ok {
		edge.History = history.String()
	}
	if n.Edge.Input != nil {
		edge.Input = n.Edge.Input.Schema
	}
	if edge.History != "" || edge.Input != nil || edge.HideReason || edge.OnError != "" {
		p.Edge = &edge
	}
	for _, r := range n.Routes() {
		p.Routes = append(p.Routes, jsonRoute{r.To.Agent.Name(), r.When != nil})
	}
	return p
}

// ErrNoDrawing reports that an agent is neither a graph nor a router.
var ErrNoDrawing = errors.New("the agent is neither a graph nor a router: there is nothing to draw")

// Drawing returns the picture of an agent that is a graph, or a router with the targets of its rules. The error is
// [ErrNoDrawing], or an error of package graphdraw.
func Drawing(n *agent.Node) (*graphdraw.Picture, error) {
	if g := GraphOf(n.Agent); g != nil {
		p, err := graphdraw.Of(g)
		if err == nil {
			err = p.Arrange()
		}
		return p, err
	}
	if RouterOf(n.Agent) == nil {
		return nil, fmt.Errorf("%s: %w", n.Agent.Name(), ErrNoDrawing)
	}
	p := &graphdraw.Picture{Boxes: []graphdraw.Box{boxOf(n, visible.Cut(n.Agent.Name(), maxName))}}
	for i, a := range arrows(n) {
		line := graphdraw.Line{From: 0, To: i + 1, Tip: strings.Join(a.lines, "\n")}
		for _, text := range a.lines {
			line.Text = append(line.Text, visible.Cut(text, maxRule))
		}
		p.Boxes, p.Lines = append(p.Boxes, boxOf(a.to, visible.Cut(a.to.Agent.Name(), maxName))), append(p.Lines, line)
	}
	return p, p.Arrange()
}

// The lengths of names and rules in the picture of a router, in characters.
const maxName, maxRule = 36, 44

func boxOf(n *agent.Node, text ...string) graphdraw.Box {
	return graphdraw.Box{ID: n.Agent.Name(), Kind: placeJSON(n).Kind, Text: text, Tip: visible.Line(n.Agent.Description())}
}
