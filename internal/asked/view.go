package asked

import (
	"context"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Request is a request to a model as chat completions write it.
type Request struct {
	Model string `json:"model"`
	chatform.Request
	Settings map[string]any `json:"settings"`
}

// RequestOf writes a request to a model.
func RequestOf(model llm.Model, req *llm.Request) Request {
	return Request{model.Name(), chatform.RequestOf(req), chatform.Settings(req.Settings)}
}

// View is what the model of an agent would be asked at a position, by the log and the tree of today.
type View struct {
	Agent    string     `json:"agent"`
	Seq      int64      `json:"seq"`
	Revision string     `json:"revision"` // of the tree
	Tokens   int        `json:"tokens"`
	Price    *llm.Price `json:"price"` // of the model, nil if none is known
	Targets  []Target   `json:"targets"`
	Request
	// Sent is the last request that was really sent there, if it is kept.
	Sent *Sent `json:"sent,omitempty"`
}

// Target is to whom an agent may hand over.
type Target struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// ViewOf returns the view of an agent, nil if it has no model of its own.
func ViewOf(ctx context.Context, run *runner.Runner, key session.Key, seq int64, n *agent.Node, prices llm.Prices) (*View, error) {
	p, err := run.PreviewAt(ctx, key, seq, n.Agent.Name())
	if err != nil || p == nil {
		return nil, err
	}
	v := &View{Agent: n.Agent.Name(), Seq: seq, Tokens: p.Tokens, Targets: []Target{}, Request: RequestOf(p.Model, p.Request)}
	if price, ok := prices.Find(p.Model.Name()); ok {
		v.Price = &price
	}
	for _, to := range n.Targets() {
		v.Targets = append(v.Targets, Target{to.Agent.Name(), to.Agent.Description()})
	}
	return v, nil
}
