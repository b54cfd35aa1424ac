package llmagent

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/choice"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools/transfer"
)

// request returns the question who answers. Small models understand it by examples: each
// description is a message that the agent with it answers, and so are the user's messages
// before the last one. The descriptions are in the reverse order of the list, so that the
// first or last place in one of the two has no influence.
func (c *chooser) request() (*llm.Request, error) {
	d, system := c.decision, ""
	if !d.brief {
		var err error
		if system, err = c.system(c.place(c.inv.Node()), ""); err != nil {
			return nil, err
		}
	}
	form := d.form(c.all)
	req := &llm.Request{System: paragraphs(system, form.list), Agent: c.inv.Node().Path}
	ask := func(text string) { req.Messages = append(req.Messages, llm.UserText(form.ask(choice.Shorten(text)))) }
	example := func(text, name string) {
		if strings.TrimSpace(text) != "" && slices.Contains(c.names, name) {
			ask(text)
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: form.reply(name)}})
		}
	}
	for _, one := range slices.Backward(c.all) {
		example(strings.TrimSuffix(one.Agent.Description(), "."), one.Agent.Name())
	}
	said, before := c.view.Exchanges()
	for _, e := range before {
		example(e.Said, e.By)
	}
	ask(said)
	var cold float64
	req.Settings = c.settings().ForEndpoint()
	req.Temperature, req.MaxTokens, req.TopLogProbs, req.LeakedCalls = &cold, 256, 20, llm.LeakedCallsOff
	if d.schema {
		req.ResponseFormat = &llm.ResponseFormat{Name: "who_answers", Schema: choiceOf(c.names), Strict: true}
	}
	for _, change := range d.settings {
		change(&req.Settings)
	}
	return req, nil
}

// candidate is an agent that may answer: the agent itself, or one that the conversation
// can reach through one of its targets.
type candidate struct {
	*agent.Node
	via *agent.Node // the target; nil for the agent itself
}

// candidates returns the agents that the conversation can reach on the shortest
// way from one of the offered targets, in the order of the tree, then a person, then the agent itself.
// The list omits each target of the agent that is not offered now, and every agent that can be
// reached only through one.
func (x *execution) candidates() []candidate {
	n, targets := x.inv.Node(), x.offered(x.inv.Node(), x.run).targets
	via := map[*agent.Node]*agent.Node{n: nil}
	for _, t := range n.Targets() {
		via[t] = nil
	}
	var reached []*agent.Node
	for _, t := range targets {
		via[t] = t
		reached = append(reached, t)
	}
	for i := 0; i < len(reached); i++ {
		for _, t := range reached[i].Targets() {
			if _, known := via[t]; !known {
				via[t] = via[reached[i]]
				reached = append(reached, t)
			}
		}
	}
	all := make([]candidate, 0, len(reached)+1)
	for t := range x.inv.Tree().Walk() {
		if via[t] != nil {
			all = append(all, candidate{t, via[t]})
		}
	}
	if person := n.Human(); via[person] != nil { // outside of the tree
		all = append(all, candidate{person, via[person]})
	}
	return append(all, candidate{Node: n})
}

func namesOf(all []candidate) []string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Agent.Name()
	}
	return names
}

func linesOf(all []candidate) string {
	nodes := make([]*agent.Node, len(all))
	for i, c := range all {
		nodes[i] = c.Node
	}
	return transfer.Lines(nodes)
}

// questionForm is the text of the question who answers.
type questionForm struct {
	list  string // the candidates, and how to reply
	ask   func(text string) string
	reply func(name string) string
}

// form returns the text of the question: in words, or brief as a table in code and calls
// with it as examples. The table needs no other text, and small models do better without.
func (d *decision) form(all []candidate) questionForm {
	f := questionForm{
		ask:   func(text string) string { return "Message: \"" + text + "\"\nName:" },
		reply: func(name string) string { return name },
	}
	prompt, list, form := DecisionPrompt, linesOf(all), "Reply with the name and nothing else."
	if d.brief {
		f.ask = func(text string) string { return "route(" + string(event.EncodeJSON(text)) + ")" }
		prompt, form = "", ""
		list = "agents = {\n"
		for _, c := range all {
			list += "    " + string(event.EncodeJSON(c.Agent.Name())) + ": " + string(event.EncodeJSON(c.Agent.Description())) + ",\n"
		}
		list += "}"
	}
	if d.schema {
		form = `Reply with JSON and nothing else: {"agent": NAME}, where NAME is one of these names.`
		f.reply = func(name string) string { return `{"agent": ` + string(event.EncodeJSON(name)) + `}` }
		if !d.brief {
			f.ask = func(text string) string { return "Message: \"" + text + "\"" }
		}
	}
	f.list = strings.Trim(prompt+"\n"+list+"\n"+form, "\n")
	return f
}

// choiceOf returns the schema of an answer that is one of the names.
func choiceOf(names []string) json.RawMessage {
	type property struct {
		Type string   `json:"type"`
		Enum []string `json:"enum"`
	}
	return event.EncodeJSON(struct {
		Type                 string              `json:"type"`
		Properties           map[string]property `json:"properties"`
		Required             []string            `json:"required"`
		AdditionalProperties bool                `json:"additionalProperties"`
	}{"object", map[string]property{"agent": {"string", names}}, []string{"agent"}, false})
}
