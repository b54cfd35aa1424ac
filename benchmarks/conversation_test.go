package benchmarks

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// TransferTool is the name of the tool by which all four frameworks transfer.
const TransferTool = "transfer_to_agent"

// Message is what the user says in every turn.
const Message = "I am charged twice for my subscription"

// Sentence is what the last agent of a chain answers.
const Sentence = "I see two charges and refund one."

// Answer is one answer of a model: a transfer, a call of an agent as a tool, or text in
// pieces.
type Answer struct {
	Transfer string
	Tool     string // the agent, which is handed the user's message
	Given    string // what one of the last messages must hold, if it is not empty
	Pieces   []string
	Text     string // the pieces together
}

// Scenario is a tree in which each agent has at most one child, or agents put
// together in another way, and the script of their models.
type Scenario struct {
	Way    Way
	Agents []string // of a tree: the root first; each is the parent of the next
	Rounds int      // of a loop
	Stream bool     // the user sees deltas
	Loop   bool     // agents transfer to their parents too, more often than a limit would let them

	// Calls counts the requests to models, and Seen is the number of messages
	// in the last one. They show that a framework did the work.
	Calls, Seen int

	mu     sync.Mutex // for Ask
	answer func(agent string) Answer

	// Of other ways than a tree: the texts of the script, those at the beginning
	// that need not reach the user, those that did in this turn (bits, by place),
	// and what went wrong first.
	texts  map[string]text
	order  []string
	hidden int
	heard  uint64
	fault  error
	// endpoint, if it is not empty, is asked over HTTP before each answer. First is when the turn's first delta reached
	// the user.
	endpoint string
	First    time.Time
	// together, if it is not nil, holds the models until all of them were asked.
	together *sync.WaitGroup
}

// Ask is a question to the model of an agent, of that many messages, which message
// returns the text of. Agents side by side may ask at once.
func (s *Scenario) Ask(agent string, messages int, message func(int) string) Answer {
	a := s.ask(agent, messages, message)
	if s.endpoint != "" {
		a = s.wait(a)
	}
	if s.together != nil {
		s.together.Done()
		s.together.Wait()
	}
	return a
}

func (s *Scenario) ask(agent string, messages int, message func(int) string) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Calls++
	s.Seen = messages
	a := s.answer(agent)
	if a.Given != "" {
		s.shown(agent, a, messages, message)
	}
	return a
}

// Chain is the tree a0 → a1 → … → a(depth). The model of each coordinator
// transfers to the next agent; the last one answers in these pieces.
func Chain(depth int, pieces ...string) *Scenario {
	s := &Scenario{}
	answers := make(map[string]Answer, depth+1)
	for i := range depth + 1 {
		name := fmt.Sprintf("a%d", i)
		s.Agents = append(s.Agents, name)
		if i < depth {
			answers[name] = Answer{Transfer: fmt.Sprintf("a%d", i+1)}
		} else {
			answers[name] = answer(pieces...)
		}
	}
	s.answer = func(agent string) Answer { return answers[agent] }
	return s
}

// Streamed is a chain of two agents whose last one answers so many words, one
// piece each.
func Streamed(words int) *Scenario {
	pieces := make([]string, words)
	for i := range pieces {
		pieces[i] = "word "
	}
	s := Chain(1, pieces...)
	s.Stream = true
	return s
}

// PingPong is a tree of two agents that hand the conversation to and fro so
// many times a turn; then the one who has it answers.
func PingPong(hops int) *Scenario {
	s := &Scenario{Agents: []string{"ping", "pong"}, Loop: true}
	left := hops
	toPing, toPong, done := Answer{Transfer: "ping"}, Answer{Transfer: "pong"}, answer(Sentence)
	s.answer = func(agent string) Answer {
		if left--; left < 0 {
			left = hops // for the next turn
			return done
		}
		if agent == "ping" {
			return toPong
		}
		return toPing
	}
	return s
}

func answer(pieces ...string) Answer {
	return Answer{Pieces: pieces, Text: strings.Join(pieces, "")}
}

func instruction(agent string) string { return "You are " + agent + "." }

func description(agent string) string { return "Answers what concerns " + agent + "." }
