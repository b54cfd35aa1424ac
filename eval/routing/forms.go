package routing

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools/transfer"
)

// Form is a way to show models the agents to which they may transfer. Its text is the key of an agent's file.
type Form string

// The forms that a [Survey] measures.
const (
	OneForm   Form = "transfer: {tools: one}"
	EachForm  Form = "transfer: {tools: each}"
	SmallForm Form = "transfer: {profile: small}"
)

// Measured is the result of a survey's messages in one form.
type Measured struct {
	Form Form `json:"form"`
	// Now reports whether the tree has this form.
	Now bool `json:"now,omitempty"`
	// Right counts the messages that were answered by the agent for which they were written.
	Right eval.Interval `json:"right"`
	// Transfers is the average number of transfers per message.
	Transfers float64 `json:"transfers"`
	// Leaked counts the messages whose answer is a call that the model wrote as text.
	Leaked int `json:"leaked"`

	each []bool // for each message, whether it was right
}

// sample is a message with the agents for which it was written.
type sample struct {
	text     string
	right    []string
	answered string // the agent that answered it in the tree's own form, "" if none did
}

// written records messages that were written for one of the targets of a group. The agents below that target are right,
// too, unless they were among the other targets.
func (s *Survey) written(g offering, t *agent.Node, messages []string) {
	right := []string{t.Agent.Name()}
	for n := range t.Tree().Walk() {
		if n != t && below(n, t) && !slices.Contains(g.targets, n) {
			right = append(right, n.Agent.Name())
		}
	}
	for _, m := range messages {
		s.samples = append(s.samples, sample{text: m, right: right})
	}
}

// tops returns the agents at which the measured conversations start: those with a model and sub-agents that are not
// below another such agent.
func tops(tree *agent.Tree) (all []*agent.Node) {
	for n := range tree.Walk() {
		if asks(n) && len(n.Children()) > 0 && (n.Parent == nil || !asks(n.Parent)) {
			all = append(all, n)
		}
	}
	return all
}

// measure plays the messages in each form. It uses copies of the tree's agents with the same descriptions, instructions
// and policies, but without tools, so that it calls only the model. It leaves out a form that does not fit the names of
// the agents.
func (s *Survey) measure(ctx context.Context) (all []Measured, used llm.Usage, err error) {
	all = []Measured{}
forms:
	for _, form := range []Form{OneForm, EachForm, SmallForm} {
		m, right, transfers := Measured{Form: form}, 0, 0
		for i, top := range tops(s.tree) {
			own := formOf(top) == form
			m.Now = m.Now || i == 0 && own
			cases, of := s.cases(top)
			if len(cases) == 0 {
				continue
			}
			root := s.copied(top, form)
			if root == nil {
				continue forms
			}
			report, err := eval.Run(ctx, cases, []eval.Subject{{Root: root}}, eval.Parallel(1))
			if err != nil {
				return nil, used, err
			}
			for j, o := range report.Subjects[0].Outcomes {
				t := o.Turns[0]
				if own {
					of[j].answered = t.Answered
				}
				used = used.Add(llm.Usage{InputTokens: t.Usage.InputTokens, OutputTokens: t.Usage.OutputTokens})
				ok := slices.Contains(t.ExpectedAnswers, t.Answered) && !t.Leaked
				m.each = append(m.each, ok)
				transfers += t.Transfers
				if ok {
					right++
				}
				if t.Leaked {
					m.Leaked++
				}
			}
		}
		if n := len(m.each); n > 0 {
			m.Right, m.Transfers = eval.Wilson(right, n), float64(transfers)/float64(n)
			all = append(all, m)
		}
	}
	return all, used, nil
}

// cases returns the messages for agents at or below a node, as cases.
func (s *Survey) cases(top *agent.Node) (all []eval.Case, of []*sample) {
	for i := range s.samples {
		m := &s.samples[i]
		if below(s.tree.Node(m.right[0]), top) {
			all = append(all, eval.Case{Name: fmt.Sprint(i + 1), Turns: []eval.Turn{{User: m.text, Expect: eval.Expect{Answers: m.right}}}})
			of = append(of, m)
		}
	}
	return all, of
}

// formOf returns the form of a node in its tree.
func formOf(n *agent.Node) Form {
	if n.SmallModels() {
		return SmallForm
	}
	if call := n.Properties.TransferCall; call != nil && len(n.Targets()) > 0 {
		if name, _ := call(n, transfer.Input(n.Targets()[0].Agent.Name(), event.ObjectInput(""))); name != agent.TransferTool {
			return EachForm
		}
	}
	return OneForm
}

// mostAnswered is the maximal number of tokens of an answer: only its author counts.
const mostAnswered = 96

// copied returns a copy of an agent and of the agents below it; nil if the form does not fit the names.
func (s *Survey) copied(top *agent.Node, form Form) agent.Agent {
	var cold float64
	var copyOf func(n *agent.Node) (agent.Agent, error)
	copyOf = func(n *agent.Node) (agent.Agent, error) {
		opts := []llmagent.Option{llmagent.WithDescription(n.Agent.Description()),
			llmagent.WithSettings(llm.Settings{Temperature: &cold, MaxTokens: mostAnswered})}
		switch {
		case form == OneForm:
			opts = append(opts, llmagent.WithTransferTools(transfer.OneTool))
		case form == EachForm:
			opts = append(opts, llmagent.WithTransferTools(transfer.ToolPerTarget))
		case n == top:
			opts = append(opts, llmagent.WithSmallModels())
		}
		instructions := ""
		if own, ok := agent.As[*llmagent.Agent](n.Agent); ok {
			instructions = own.Instructions()
			opts = append(opts, llmagent.WithTransferPolicy(n.Properties.Policy), llmagent.WithGlobalInstruction(n.Properties.GlobalInstruction))
			for _, k := range n.Children() {
				kid, err := copyOf(k)
				if err != nil {
					return nil, err
				}
				opts = append(opts, llmagent.WithSubAgents(agent.Via(kid, edge(k.Edge))))
			}
		}
		return llmagent.New(n.Agent.Name(), instructions, s.model, opts...)
	}
	root, err := copyOf(top)
	if err == nil {
		_, err = agent.NewTree(root)
	}
	if err != nil {
		return nil
	}
	return root
}

// edge contains the options of an edge that a model notices.
type edge agent.Edge

// ApplyEdge implements agent.EdgeOption.
func (e edge) ApplyEdge(to *agent.Edge) {
	to.HideReason, to.History, to.Input = e.HideReason, e.History, e.Input
}

// choose returns the form to use, and why: the one in which the most messages were right, if its difference from the
// tree's form is hardly due to chance. It returns "" if nothing was measured.
func choose(measured []Measured) (take Form, why string) {
	now := slices.IndexFunc(measured, func(m Measured) bool { return m.Now })
	if now < 0 {
		return "", ""
	}
	best, has := measured[now], measured[now]
	for _, m := range measured {
		if m.Right.Right > best.Right.Right {
			best = m
		}
	}
	if best.Form == has.Form {
		return has.Form, fmt.Sprintf("keep %s: in no other form more messages end at the right agent", has.Form)
	}
	better, worse := 0, 0
	for i, ok := range best.each {
		switch {
		case ok && !has.each[i]:
			better++
		case !ok && has.each[i]:
			worse++
		}
	}
	counted := fmt.Sprintf("with %s %d of %d messages end at the right agent, with %s %d", best.Form, best.Right.Right, best.Right.Of, has.Form, has.Right.Right)
	if p := chance(better, worse); p >= 0.05 {
		return has.Form, fmt.Sprintf("keep %s: %s, which may be chance (p = %.2f); write more messages to know", has.Form, counted, p)
	}
	return best.Form, fmt.Sprintf("take %s: %s, which is hardly chance", best.Form, counted)
}

// chance returns the probability that, of messages that two forms treat differently, at least as many are better in one
// of them, if neither form is better than the other: the exact sign test.
func chance(better, worse int) float64 {
	n, p := better+worse, 0.0
	for k := max(better, worse); k <= n; k++ {
		all, _ := math.Lgamma(float64(n + 1))
		in, _ := math.Lgamma(float64(k + 1))
		out, _ := math.Lgamma(float64(n - k + 1))
		p += math.Exp(all - in - out - float64(n)*math.Ln2)
	}
	return min(1, 2*p)
}
