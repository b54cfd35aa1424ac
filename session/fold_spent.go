package session

import (
	"slices"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Spent is what one agent has used of one model.
type Spent struct {
	Agent, Model  string
	Session, Turn Use // since the session began, and in the current turn
}

// Use counts recorded answers, and the tokens of all that were paid for,
// discarded ones included.
type Use struct {
	Answers int
	// Reported are those of the answers with a usage; an endpoint may report none.
	Reported int
	// Anew are the tokens of prompts that endpoints computed because another agent answered; see [Arrivals].
	Anew int
	llm.Usage
}

// Times is how long the conversation's runs took. What lies between a crash and
// the resumption is not counted if the log has a notice about it.
type Times struct {
	Session, Turn time.Duration
	Agents        []AgentTime
}

// AgentTime is the total time of the runs of one agent in the session, including inner scopes.
type AgentTime struct {
	Agent   string
	Session time.Duration
}

// spend adds what an answer used.
func spend(spent []Spent, agentName string, u *event.Usage, answers, anew int) []Spent {
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

// add adds the time for which a run in a scope has run.
func (t *Times) add(scope, agentName string, began, until int64) {
	d := time.Duration(0)
	if began > 0 { // else its start is not in the log
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
