package routing

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/choice"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools/transfer"
)

// Survey asks a model about the targets that agents of a tree offer next to each other. For each two targets it asks
// whether the model can tell them apart. It also asks for messages that users might write to each target, and then lets
// the model choose a target for each message. With the same messages it measures each [Form]. Create it with
// [NewSurvey], and use it once.
type Survey struct {
	// Questions is the approximate number of requests, and Tokens the approximate number of their tokens.
	Questions, Tokens int

	tree     *agent.Tree
	model    llm.Model
	messages int
	groups   []offering
	place    func(string) (string, int)
	samples  []sample
}

// SurveyResult is the result of a survey.
type SurveyResult struct {
	// Findings have the kinds Alike, Confused and Transfers.
	Findings []Finding `json:"findings"`
	// Forms are the measured forms.
	Forms []Measured `json:"forms"`
	// Take is the form to use, and Why a sentence with the reason; "" if none was measured.
	Take Form   `json:"take,omitempty"`
	Why  string `json:"why,omitempty"`
	// Used is the usage of the model.
	Used llm.Usage `json:"-"`
}

// offering are the targets of an agent.
type offering struct {
	by      *agent.Node
	targets []*agent.Node
}

// NewSurvey prepares a survey, without any request. messages is the number of messages for each target. place is that
// of [Lint].
func NewSurvey(tree *agent.Tree, model llm.Model, messages int, place func(agent string) (file string, line int)) *Survey {
	s := &Survey{tree: tree, model: model, messages: messages, place: place}
	for n := range tree.Walk() {
		targets := n.Targets()
		if !asks(n) || len(targets) < 2 {
			continue
		}
		if !slices.ContainsFunc(s.groups, func(g offering) bool { return slices.Equal(g.targets, targets) }) {
			s.groups = append(s.groups, offering{n, targets})
		}
	}
	// An agent with fewer targets has the easier question.
	all := slices.Clone(s.groups)
	s.groups = slices.DeleteFunc(s.groups, func(g offering) bool {
		return slices.ContainsFunc(all, func(other offering) bool {
			return len(other.targets) > len(g.targets) && !slices.ContainsFunc(g.targets, func(t *agent.Node) bool { return !slices.Contains(other.targets, t) })
		})
	})
	const aMessage = 30 // the approximate number of tokens
	for a, b := range s.pairs() {
		s.count(1, apart(a, b), 0)
	}
	for _, g := range s.groups {
		if messages > 0 {
			for _, t := range g.targets {
				s.count(1, write(g, t, messages), 0)
			}
			s.count(len(g.targets)*messages, which(g, ""), aMessage)
			// In each form one request for the first agent, and one for the agent that it chooses.
			for _, form := range []transfer.Tools{transfer.OneTool, transfer.ToolPerTarget, transfer.OneTool} {
				tools, text := transfer.DefaultForm(form).Offer(g.by, g.targets, "")
				s.count(2*len(g.targets)*messages, &llm.Request{System: text, Tools: tools}, aMessage)
			}
		}
	}
	return s
}

// pairs yields each pair of targets that are offered next to each other once.
func (s *Survey) pairs() iter.Seq2[*agent.Node, *agent.Node] {
	return func(yield func(a, b *agent.Node) bool) {
		seen := make(map[[2]*agent.Node]bool)
		for _, g := range s.groups {
			for i, b := range g.targets {
				for _, a := range g.targets[:i] {
					if pair := [2]*agent.Node{a, b}; !seen[pair] {
						seen[pair] = true
						if !yield(a, b) {
							return
						}
					}
				}
			}
		}
	}
}

func (s *Survey) count(times int, req *llm.Request, more int) {
	s.Questions += times
	s.Tokens += times * (llm.CountRequest(req, nil) + more)
}

// Ask asks the model at temperature 0, one question after the other. If the model fails, Ask returns its error and a
// result that contains only the usage.
func (s *Survey) Ask(ctx context.Context) (*SurveyResult, error) {
	a, err := &SurveyResult{Findings: []Finding{}, Forms: []Measured{}}, error(nil)
	ask := func(req *llm.Request) string {
		if err != nil {
			return ""
		}
		var text strings.Builder
		usage := llm.Usage{}
		for c, failed := range s.model.Generate(ctx, req) {
			if failed != nil {
				err = failed
				break
			}
			text.WriteString(c.Text)
			if c.Usage != nil {
				usage, _ = c.Usage.Plausible()
			}
		}
		a.Used = a.Used.Add(usage)
		return text.String()
	}
	for one, other := range s.pairs() {
		if both, ok := sameFor(ask(apart(one, other))); ok {
			a.Findings = append(a.Findings, Finding{Kind: Alike, Agents: namesOf([]*agent.Node{one, other}), Message: fmt.Sprintf(
				"%s and %s are the same to the model %s: it cannot say which of them answers %s", one.Agent.Name(), other.Agent.Name(), s.model.Name(), quoted(both))})
		}
	}
	for _, g := range s.groups {
		if s.messages > 0 {
			a.Findings = append(a.Findings, s.confused(g, ask)...)
		}
	}
	if err == nil {
		var used llm.Usage
		a.Forms, used, err = s.measure(ctx)
		a.Used = a.Used.Add(used)
	}
	if err != nil {
		return &SurveyResult{Used: a.Used}, fmt.Errorf("the model %s: %w", s.model.Name(), err)
	}
	if a.Take, a.Why = choose(a.Forms); slices.ContainsFunc(a.Forms, func(m Measured) bool { return m.Form == a.Take && !m.Now }) {
		a.Findings = append(a.Findings, Finding{Kind: Transfers, Agents: namesOf(tops(s.tree)[:1]), Message: a.Why})
	}
	a.Findings = placed(a.Findings, s.place)
	return a, nil
}

// confused asks for messages for each target, and for the target of each message.
func (s *Survey) confused(g offering, ask func(*llm.Request) string) (found []Finding) {
	for _, t := range g.targets {
		messages := linesOf(ask(write(g, t, s.messages)), s.messages)
		s.written(g, t, messages)
		wrong := make(map[string][]string)
		for _, m := range messages {
			if name, _ := choice.Read(ask(which(g, m)), namesOf(g.targets)); name != "" && name != t.Agent.Name() {
				wrong[name] = append(wrong[name], m)
			}
		}
		for _, other := range g.targets {
			if taken := wrong[other.Agent.Name()]; len(taken) > 0 {
				found = append(found, Finding{Kind: Confused, Agents: namesOf([]*agent.Node{t, other}), Message: fmt.Sprintf(
					"%d of %d messages that the model %s wrote for %s it gives to %s, such as %s",
					len(taken), len(messages), s.model.Name(), t.Agent.Name(), other.Agent.Name(), quoted(taken[0]))})
			}
		}
	}
	return found
}

func question(system, text string, tokens int) *llm.Request {
	var cold float64
	return &llm.Request{System: system, Messages: []llm.Message{llm.UserText(text)}, Settings: llm.Settings{Temperature: &cold, MaxTokens: tokens, LeakedCalls: llm.LeakedCallsOff}}
}

// apart asks for a message that may be meant for either of two targets.
func apart(a, b *agent.Node) *llm.Request {
	return question("You check the descriptions of agents between whom messages of users are divided.",
		"Two agents:\n"+transfer.Lines([]*agent.Node{a, b})+"\nIf it is clear from the descriptions which messages are for which of the two, reply with the word CLEAR and nothing else. "+
			"If not, reply with the word SAME and then one message of a user that both fit equally well.", 100)
}

// sameFor reads the answer: the message that fits both targets, if the model found one.
func sameFor(answer string) (message string, same bool) {
	answer = strings.TrimSpace(answer)
	if len(answer) < 4 || !strings.EqualFold(answer[:4], "same") {
		return "", false
	}
	return strings.Trim(answer[4:], " \t\r\n:.\"'“”*-"), true
}

func write(g offering, t *agent.Node, n int) *llm.Request {
	return question("You write messages as users of a service write them.",
		"The service has these agents:\n"+transfer.Lines(g.targets)+fmt.Sprintf("\nWrite %d short messages of users that are for %s, each on a line of its own and nothing else. Do not name the agent.", n, t.Agent.Name()), 60*n)
}

func which(g offering, message string) *llm.Request {
	return question("You do not answer the message. You say who answers:\n"+transfer.Lines(g.targets)+"\nReply with the name and nothing else.",
		"Message: "+string(event.EncodeJSON(choice.Shorten(message)))+"\nName:", 64)
}

// linesOf reads up to n lines, and removes their numbers.
func linesOf(text string, n int) (lines []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimLeft(strings.TrimSpace(line), "-*• ")
		if rest := strings.TrimLeft(line, "0123456789"); rest != line && strings.ContainsAny(rest[:min(1, len(rest))], ".)") {
			line = rest[1:]
		}
		if line = strings.Trim(line, "\"“” "); line != "" && len(lines) < n {
			lines = append(lines, line)
		}
	}
	return lines
}
