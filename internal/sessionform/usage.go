package sessionform

import (
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Usage is the usage of a session: by agent and model, and as sums for the last turn and the whole session. A cost is
// nil if a model has no price.
type Usage struct {
	Seq     int64       `json:"seq"`
	Turn    Spent       `json:"turn"`
	Session Spent       `json:"session"`
	Models  []ModelUse  `json:"models"`
	Agents  []AgentTime `json:"agents"`
}

// ModelUse is the usage of a model by an agent.
type ModelUse struct {
	Agent   string     `json:"agent"`
	Model   string     `json:"model"`
	Price   *llm.Price `json:"price"`
	Turn    Spent      `json:"turn"`
	Session Spent      `json:"session"`
}

// Spent is the usage of answers. ReadAnew are the tokens that were not cached because of transfers, and ReadAnewCost is
// their part of Cost. Seconds is the duration of runs, nil if it is not counted.
type Spent struct {
	Answers      int      `json:"answers"`
	InputTokens  int      `json:"inputTokens"`
	CachedTokens int      `json:"cachedTokens"`
	ReadAnew     int      `json:"readAnew"`
	OutputTokens int      `json:"outputTokens"`
	Cost         *float64 `json:"cost"`
	ReadAnewCost *float64 `json:"readAnewCost"`
	Seconds      *float64 `json:"seconds,omitempty"`
}

// AgentTime is the duration of an agent's runs.
type AgentTime struct {
	Agent   string  `json:"agent"`
	Seconds float64 `json:"seconds"`
}

// UsageOf returns the usage in a log.
func UsageOf(f *session.Fold, prices llm.Prices) Usage {
	u := Usage{Seq: f.Seq, Models: []ModelUse{}, Agents: []AgentTime{}, Turn: nothingSpent(), Session: nothingSpent()}
	for _, s := range f.Spent {
		m := ModelUse{Agent: s.Agent, Model: s.Model, Turn: spentOf(s.Model, s.Turn, prices), Session: spentOf(s.Model, s.Session, prices)}
		if p, ok := prices.Find(s.Model); ok {
			m.Price = &p
		}
		u.Models = append(u.Models, m)
		u.Turn.add(m.Turn)
		u.Session.add(m.Session)
	}
	times := f.Times
	u.Turn.Seconds, u.Session.Seconds = new(times.Turn.Seconds()), new(times.Session.Seconds())
	for _, t := range times.Agents {
		u.Agents = append(u.Agents, AgentTime{t.Agent, t.Session.Seconds()})
	}
	return u
}

func nothingSpent() Spent { return Spent{Cost: new(float64), ReadAnewCost: new(float64)} }

func spentOf(model string, u session.Use, prices llm.Prices) Spent {
	s := Spent{Answers: u.Answers, InputTokens: u.InputTokens, CachedTokens: u.CachedTokens, ReadAnew: u.Anew, OutputTokens: u.OutputTokens}
	if cost, ok := prices.Cost(model, u.Usage); ok {
		anew, _ := prices.Cost(model, llm.Usage{InputTokens: u.Anew})
		s.Cost, s.ReadAnewCost = &cost, &anew
	}
	return s
}

// add adds another usage. The sum's cost is known only if all costs are.
func (s *Spent) add(o Spent) {
	switch {
	case o.Answers+o.InputTokens+o.OutputTokens == 0:
		return
	case s.Cost == nil || o.Cost == nil:
		s.Cost, s.ReadAnewCost = nil, nil
	default:
		*s.Cost += *o.Cost
		*s.ReadAnewCost += *o.ReadAnewCost
	}
	s.Answers += o.Answers
	s.InputTokens += o.InputTokens
	s.CachedTokens += o.CachedTokens
	s.ReadAnew += o.ReadAnew
	s.OutputTokens += o.OutputTokens
}
