package session

import (
	"slices"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Spent is the usage of one model by one agent.
type Spent struct {
	Agent, Model  string
	Session, Turn Use // Session is the total, and Turn the part of the current turn
}

// Use counts recorded answers and their tokens. The tokens include those of discarded answers that were paid for.
type Use struct {
	Answers int
	// Reported counts the answers whose endpoint reported a usage.
	Reported int
	// Anew counts the prompt tokens that endpoints did not take from their cache because another agent had answered
	// before; see [Arrivals].
	Anew int
	llm.Usage
}

// Times is the total duration of the conversation's runs that have ended, per session, per current turn and per
// agent. The time between a crash and the resumption does not count if the log has a notice about the resumption.
type Times struct {
	Session, Turn time.Duration
	Agents        []AgentTime
}

// AgentTime is the total duration of one agent's runs in the session, including runs in inner scopes.
type AgentTime struct {
	Agent   string
	Session time.Duration
}

// addUsage adds the usage of an answer to the sums of its agent and model.
func addUsage(spent []Spent, agentName string, u *event.Usage, answers, anew int) []Spent {
	i := slices.IndexFunc(spent, func(s Spent) bool { return s.Agent == agentName && s.Model == u.Model })
	if i < 0 {
		i = len(spent)
		spent = append(spent, Spent{Agent: agentName, Model: u.Model})
	}
	s, counted, reported := &spent[i], u.Counted(), 0
	if counted != (llm.Usage{}) {
		reported = answers
	}
	for _, sum := range []*Use{&s.Session, &s.Turn} {
		sum.Answers += answers
		sum.Reported += reported
		sum.Anew += anew
		sum.Usage = sum.Usage.Add(counted)
	}
	return spent
}

// add adds the time from the start of a run to its end.
func (t *Times) add(scope, agentName string, began, until int64) {
	d := time.Duration(0)
	if began > 0 { // 0: the log has no start of the run
		d = time.Duration(max(0, until-began))
	}
	if scope == "" {
		t.Session += d
		t.Turn += d
	}
	i := slices.IndexFunc(t.Agents, func(a AgentTime) bool { return a.Agent == agentName })
	if i < 0 {
		i = len(t.Agents)
		t.Agents = append(t.Agents, AgentTime{Agent: agentName})
	}
	t.Agents[i].Session += d
}
