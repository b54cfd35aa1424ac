package sessionform

import (
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Usage is what a session has used: by agent and model, and in sum, for the last turn and for all
// of it. A cost is nil where a model has no price.
type Usage struct {
	Seq     int64       `json:"seq"`
	Turn    Spent       `json:"turn"`
	Session Spent       `json:"session"`
	Models  []ModelUse  `json:"models"`
	Agents  []AgentTime `json:"agents"`
}

// ModelUse is what an agent has used of a model.
type ModelUse struct {
	Agent   string     `json:"agent"`
	Model   string     `json:"model"`
	Price   *llm.Price `json:"price"`
	Turn    Spent      `json:"turn"`
	Session Spent      `json:"session"`
}

// Spent is what answers have used. ReadAnew are the tokens that were computed anew because of transfers, and ReadAnewCost is the part
// of Cost that paid for them. Seconds is how long runs took, nil where that is not counted.
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

// AgentTime is how long an agent's runs took.
type AgentTime struct {
	Agent   string  `json:"agent"`
	Seconds float64 `json:"seconds"`
}

// UsageOf returns what a log tells of usage.
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

// add makes a sum, whose cost is known if it is that of everything in it.
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
