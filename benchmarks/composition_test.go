package benchmarks

import (
	"fmt"
	"strings"
)

// Way is how the agents of a scenario are put together.
type Way string

// The ways. The first is a tree of transfers.
const (
	AsTree   Way = ""
	AsTool   Way = "the first calls the second as a tool"
	InTurn   Way = "one after the other"
	AtOnce   Way = "side by side"
	InRounds Way = "one after the other, in rounds"
)

// WorkflowName is the name of the agent around those of a workflow.
const WorkflowName = "workflow"

// composed is a scenario whose agents say one text each time they are asked, all of
// them different.
func composed(way Way, agents ...string) *Scenario {
	return &Scenario{Way: way, Agents: agents, Rounds: 1, texts: make(map[string]text)}
}

// text is what an agent says at one place of a scenario.
type text struct {
	agent string
	place int
}

// says adds a text to the script and expects that it reaches the user.
func (s *Scenario) says(agent string) Answer {
	words := fmt.Sprintf("%s says sentence %d of the script.", agent, len(s.order))
	s.texts[words] = text{agent, len(s.order)}
	s.order = append(s.order, words)
	return answer(words)
}

// Delegation is a coordinator whose model calls a specialist as a tool, and then
// answers.
func Delegation() *Scenario {
	s := composed(AsTool, "coordinator", "specialist")
	specialist := s.says("specialist")
	call, answer := Answer{Tool: "specialist", Given: Message}, s.says("coordinator")
	specialist.Given, answer.Given = Message, specialist.Text
	s.hidden = 1 // most frameworks show the user what the coordinator says only
	called := false
	s.answer = func(agent string) Answer {
		if agent == "specialist" {
			return specialist
		}
		if called = !called; called {
			return call
		}
		return answer
	}
	return s
}

// Sequence is so many agents, each of which goes on from what the one before said.
func Sequence(agents int) *Scenario { return inTurn(InTurn, agents, 1) }

// Rounds is one agent that so many times goes on from what it said before.
func Rounds(rounds int) *Scenario { return inTurn(InRounds, 1, rounds) }

func inTurn(way Way, agents, rounds int) *Scenario {
	s := composed(way, names(agents)...)
	s.Rounds = rounds
	answers, given := make([]Answer, agents*rounds), Message
	for i := range answers {
		answers[i] = s.says(s.Agents[i%agents])
		answers[i].Given, given = given, answers[i].Text
	}
	next := 0
	s.answer = func(agent string) Answer {
		a := answers[next]
		if want := s.Agents[next%agents]; agent != want {
			s.wrong("%s was asked, and it is the turn of %s", agent, want)
		}
		next = (next + 1) % len(answers)
		return a
	}
	return s
}

// Branches is so many agents that answer the user side by side.
func Branches(agents int) *Scenario {
	s := composed(AtOnce, names(agents)...)
	answers := make(map[string]Answer, agents)
	for _, name := range s.Agents {
		a := s.says(name)
		a.Given = Message
		answers[name] = a
	}
	s.answer = func(agent string) Answer { return answers[agent] }
	return s
}

func names(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("a", i)
	}
	return names
}

// shown fails the turn if neither of the last two messages has what the answer is
// given to. (One of the frameworks puts a word of its own behind an agent's.)
func (s *Scenario) shown(agent string, a Answer, messages int, message func(int) string) {
	for i := messages - 1; i >= max(0, messages-2); i-- {
		if strings.Contains(message(i), a.Given) {
			return
		}
	}
	s.wrong("%s was not shown %q at the end", agent, a.Given)
}

func (s *Scenario) wrong(format string, args ...any) {
	if s.fault == nil {
		s.fault = fmt.Errorf(format, args...)
	}
}

// Heard takes down a whole text that has reached the user.
func (s *Scenario) Heard(agent, words string) {
	if agent == WorkflowName {
		s.whole(words)
		return
	}
	switch t, ok := s.texts[words]; {
	case !ok || t.agent != agent:
		s.wrong("%s said %q", agent, words)
	case s.heard&(1<<t.place) != 0:
		s.wrong("%s said %q twice", agent, words)
	default:
		s.heard |= 1 << t.place
	}
}

// whole looks at what a workflow itself answers: the last words of those that it
// ran one after the other, or those of all that it ran side by side, in their order.
func (s *Scenario) whole(words string) {
	order := s.order
	if s.Way != AtOnce {
		order = order[len(order)-1:]
	}
	rest := words
	for _, part := range order {
		var ok bool
		if _, rest, ok = strings.Cut(rest, part); !ok {
			s.wrong("the workflow said %q, without %q at its place", words, part)
		}
	}
}

// End says at the end of a turn what went wrong in it, and begins the next one.
func (s *Scenario) End() error {
	for place, words := range s.order[s.hidden:] {
		if s.heard&(1<<(place+s.hidden)) == 0 {
			s.wrong("nobody heard %q", words)
		}
	}
	fault := s.fault
	s.heard, s.fault = 0, nil
	return fault
}
