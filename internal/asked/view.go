package asked

import (
	"context"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Request is a request to a model in the form of chat completions.
type Request struct {
	Model string `json:"model"`
	chatform.Request
	Settings map[string]any `json:"settings"`
}

// RequestOf returns a request in this form.
func RequestOf(model llm.Model, req *llm.Request) Request {
	return Request{model.Name(), chatform.RequestOf(req), chatform.Settings(req.Settings)}
}

// View is the request that an agent's model would get at a position, by the log and the current tree.
type View struct {
	Agent    string     `json:"agent"`
	Seq      int64      `json:"seq"`
	Revision string     `json:"revision"` // of the tree
	Tokens   int        `json:"tokens"`
	Price    *llm.Price `json:"price"` // of the model, nil if it is unknown
	Targets  []Target   `json:"targets"`
	Request
	// Sent is the last request that was sent at this position, if it is kept.
	Sent *Sent `json:"sent,omitempty"`
}

// Target is an agent to which an agent may transfer.
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
