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

// AgentTime is how long the runs of one agent took in the session, those in
// inner scopes included.
type AgentTime struct {
	Agent   string
	Session time.Duration
}

// Spent returns what models have used, by agent and model in the order of their
// first answers. The slice is shared: it is valid until the next Apply.
func (f *Fold) Spent() []Spent { return f.spent }

// Times returns how long ended runs took; the slice in it is shared.
func (f *Fold) Times() Times { return f.time }

// spend adds what an answer used.
func (f *Fold) spend(agentName string, u *event.Usage, answers int) {
	i := slices.IndexFunc(f.spent, func(s Spent) bool { return s.Agent == agentName && s.Model == u.Model })
	if i < 0 {
		i = len(f.spent)
		if i == 0 {
			f.spent = make([]Spent, 0, 2)
		}
		f.spent = append(f.spent, Spent{Agent: agentName, Model: u.Model})
	}
	s, counted, reported := &f.spent[i], u.Counted(), 0
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
	if began := f.Scope(e.Scope).began; began > 0 { // else its start is not in the log
		d = time.Duration(max(0, until-began))
	}
	if e.Scope == "" {
		f.time.Session += d
		f.time.Turn += d
	}
	f.time.Agents[f.timed(e.Agent)].Session += d
}

// manyAgents is from how many agents on they are looked up in a map. Only graphs
// have so many.
const manyAgents = 16

// timed returns the place of an agent among those whose time is known.
func (f *Fold) timed(name string) int {
	n := len(f.time.Agents)
	if n < manyAgents {
		if i := slices.IndexFunc(f.time.Agents, func(t AgentTime) bool { return t.Agent == name }); i >= 0 {
			return i
		}
	} else if i, ok := f.timedAt[name]; ok {
		return i
	}
	if n == 0 {
		f.time.Agents = make([]AgentTime, 0, 2)
	}
	f.time.Agents = append(f.time.Agents, AgentTime{Agent: name})
	switch n++; {
	case n == manyAgents:
		f.timedAt = make(map[string]int, 2*manyAgents)
		for i, t := range f.time.Agents {
			f.timedAt[t.Agent] = i
		}
	case n > manyAgents:
		f.timedAt[name] = n - 1
	}
	return n - 1
}
