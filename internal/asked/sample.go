package asked

import (
	"context"
	"errors"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Samples are answers of an agent's model at a position. They are not stored.
type Samples struct {
	Agent    string   `json:"agent"`
	Seq      int64    `json:"seq"`
	Revision string   `json:"revision"` // of the tree
	Samples  []Sample `json:"samples"`
	Usage    Usage    `json:"usage"`
}

// Sample is one of these answers, or the error. Cost is nil if the model has no price.
type Sample struct {
	Message   *chatform.Message `json:"message,omitempty"`
	Reasoning string            `json:"reasoning,omitempty"`
	Transfer  *Transfer         `json:"transfer,omitempty"`
	Model     string            `json:"model,omitempty"`
	Finish    llm.FinishReason  `json:"finishReason,omitempty"`
	Usage     Usage             `json:"usage"`
	Cost      *float64          `json:"cost"`
	Error     *event.Failure    `json:"error,omitempty"`
	// LogProbs are the log probabilities of the answer's tokens. They are too large to be sent to clients.
	LogProbs []llm.LogProb `json:"-"`
}

// Transfer is the transfer that an answer asks for, with any form of the transfer tools.
type Transfer struct {
	To     string `json:"to"`
	Reason string `json:"reason,omitempty"`
}

// Usage is the usage of answers, in tokens.
type Usage struct {
	InputTokens  int `json:"inputTokens"`
	OutputTokens int `json:"outputTokens"`
	CachedTokens int `json:"cachedTokens"`
}

// Words returns the answer's text, "" if it has none.
func (s *Sample) Words() string {
	if s.Message == nil {
		return ""
	}
	text, _ := s.Message.Content.(string)
	return text
}

// sampling marks model calls that are not part of a conversation and are not kept.
type sampling struct{}

// SamplesOf requests n answers at once. If the model fails, its error is in the sample. The returned error is
// agent.ErrBadInput, as that of [runner.Runner.Sample], or the context's.
func SamplesOf(ctx context.Context, run *runner.Runner, key session.Key, seq int64, name string, count int, prices llm.Prices) (*Samples, error) {
	ctx = context.WithValue(ctx, sampling{}, true)
	answers, errs := make([]*runner.Sample, count), make([]error, count)
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() { answers[i], errs[i] = run.Sample(ctx, key, seq, name) })
	}
	all.Wait()
	out, sum := &Samples{Agent: name, Seq: seq, Samples: make([]Sample, count)}, llm.Usage{}
	n := run.Tree().Node(name)
	for i, a := range answers {
		if err := errs[i]; ctx.Err() != nil || errors.Is(err, agent.ErrBadInput) {
			return nil, errors.Join(context.Cause(ctx), err)
		} else if err != nil {
			out.Samples[i].Error = runner.FailureOf(err)
			continue
		}
		s := Sample{Message: &chatform.Messages([]llm.Message{a.Message})[0], Model: a.Model, Finish: a.Finish, Usage: usageOf(a.Usage), LogProbs: a.LogProbs}
		for _, part := range a.Parts {
			switch p := part.(type) {
			case llm.Reasoning:
				s.Reasoning += p.Text
			case llm.ToolCall:
				if asks, ok := agent.As[*llmagent.Agent](n.Agent); ok && s.Transfer == nil {
					if t, ok := asks.Transfer(n, p); ok {
						s.Transfer = &Transfer{t.Target, t.Reason}
					}
				}
			}
		}
		if cost, ok := prices.Cost(a.Model, a.Usage); ok {
			s.Cost = &cost
		}
		out.Samples[i], sum = s, sum.Add(a.Usage)
	}
	out.Usage = usageOf(sum)
	return out, nil
}

func usageOf(u llm.Usage) Usage { return Usage{u.InputTokens, u.OutputTokens, u.CachedTokens} }
