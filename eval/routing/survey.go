package routing

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools/transfer"
)

// Survey asks a model for messages that users might write to the targets that agents of a tree offer next to each
// other. With these messages it measures each [Form], and which agents the model confuses in the tree's own form. Create
// it with [NewSurvey], and use it once.
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
	// Findings have the kinds Confused and Transfers.
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

// NewSurvey prepares a survey, without any request. messages is the number of messages for each target, at least 1.
// place is that of [Lint].
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
	for _, g := range s.groups {
		for _, t := range g.targets {
			s.count(1, write(g, t, messages), 0)
		}
		// In each form one request for the first agent, and one for the agent that it chooses.
		for _, form := range []transfer.Tools{transfer.OneTool, transfer.ToolPerTarget, transfer.OneTool} {
			tools, text := transfer.DefaultForm(form).Offer(g.by, g.targets, "")
			s.count(2*len(g.targets)*messages, &llm.Request{System: text, Tools: tools}, aMessage)
		}
	}
	return s
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
	for _, g := range s.groups {
		for _, t := range g.targets {
			s.written(g, t, linesOf(ask(write(g, t, s.messages)), s.messages))
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
	a.Findings = append(a.Findings, s.confused()...)
	if a.Take, a.Why = choose(a.Forms); slices.ContainsFunc(a.Forms, func(m Measured) bool { return m.Form == a.Take && !m.Now }) {
		a.Findings = append(a.Findings, Finding{Kind: Transfers, Agents: namesOf(tops(s.tree)[:1]), Message: a.Why})
	}
	a.Findings = placed(a.Findings, s.place)
	return a, nil
}

// confused returns the findings about messages that another agent answered, in the tree's own form, than the one for
// which they were written. An agent that kept the message of an agent below it has confused nobody.
func (s *Survey) confused() (found []Finding) {
	written, taken := make(map[string]int), make(map[[2]string][]string)
	var pairs [][2]string
	for _, m := range s.samples {
		pair := [2]string{m.right[0], m.answered}
		written[pair[0]]++
		if m.answered == "" || slices.Contains(m.right, m.answered) || below(s.tree.Node(pair[0]), s.tree.Node(pair[1])) {
			continue
		}
		if taken[pair] == nil {
			pairs = append(pairs, pair)
		}
		taken[pair] = append(taken[pair], m.text)
	}
	for _, pair := range pairs {
		found = append(found, Finding{Kind: Confused, Agents: pair[:], Message: fmt.Sprintf("%d of %d messages that the model %s wrote for %s it gives to %s, such as %s",
			len(taken[pair]), written[pair[0]], s.model.Name(), pair[0], pair[1], quoted(taken[pair][0]))})
	}
	return found
}

// write asks for n messages of users for a target of a group.
func write(g offering, t *agent.Node, n int) *llm.Request {
	var cold float64
	text := "The service has these agents:\n" + transfer.Lines(g.targets) +
		fmt.Sprintf("\nWrite %d short messages of users that are for %s, each on a line of its own and nothing else. Do not name the agent.", n, t.Agent.Name())
	return &llm.Request{System: "You write messages as users of a service write them.", Messages: []llm.Message{llm.UserText(text)},
		Settings: llm.Settings{Temperature: &cold, MaxTokens: 60 * n, LeakedCalls: llm.LeakedCallsOff}}
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
