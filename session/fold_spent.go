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
func (f *Fold) spend(agentName string, u *event.Usage, answers int) {
	i := slices.IndexFunc(f.Spent, func(s Spent) bool { return s.Agent == agentName && s.Model == u.Model })
	if i < 0 {
		i = len(f.Spent)
		f.Spent = append(f.Spent, Spent{Agent: agentName, Model: u.Model})
	}
	s, counted, reported := &f.Spent[i], u.Counted(), 0
	if counted != (llm.Usage{}) {
		reported = answers
	}
	for _, sum := range []*Use{&s.Session, &s.Turn} {
		sum.Answers += answers
		sum.Reported += reported
		sum.Usage = sum.Usage.Add(counted)
	}
}

// took adds the time for which the run of an event has run until now.
func (f *Fold) took(e *event.Event, until int64) {
	d := time.Duration(0)
	if began := f.Scope(e.Scope).BeganAt; began > 0 { // else its start is not in the log
		d = time.Duration(max(0, until-began))
	}
	if e.Scope == "" {
		f.Times.Session += d
		f.Times.Turn += d
	}
	f.Times.Agents[f.timed(e.Agent)].Session += d
}

// timed returns the place of an agent among those whose time is known.
func (f *Fold) timed(name string) int {
	i := slices.IndexFunc(f.Times.Agents, func(t AgentTime) bool { return t.Agent == name })
	if i < 0 {
		i = len(f.Times.Agents)
		f.Times.Agents = append(f.Times.Agents, AgentTime{Agent: name})
	}
	return i
}
