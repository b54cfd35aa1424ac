package llmagent

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/bm25"
	"github.com/agentarbor/arbor/internal/choice"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// candidate is somebody who may answer: the agent itself, or one whom the conversation
// reaches through one of its targets.
type candidate struct {
	*agent.Node
	via *agent.Node // the target, nil for the agent itself
}

// candidates are all who may answer: those whom the conversation reaches on the shortest
// way from one of the targets that are offered, in the order of the tree, a person, and the agent.
// The list omits each target of the agent that is not offered now, and every agent that is
// reached only through one.
func (a *Agent) candidates(inv *agent.Invocation, run view.Run) []candidate {
	n, targets := inv.Node(), a.offered(inv.Node(), run).targets
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
	for t := range inv.Tree().Walk() {
		if via[t] != nil {
			all = append(all, candidate{t, via[t]})
		}
	}
	if person := n.Human(); via[person] != nil { // beside the tree
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

// whoRequest is the question who answers. Small models understand it by examples: each
// description is a message that the agent with it answers, and so are the user's messages
// before the last one. The descriptions are in the reverse order of the list, so that the
// first or last place in one of them decides nothing.
func (a *Agent) whoRequest(ctx context.Context, inv *agent.Invocation, v *view.View, d *deciding, all []candidate) (*llm.Request, error) {
	names, put, system := namesOf(all), d.form(all), ""
	if !d.brief {
		var err error
		if system, err = a.system(ctx, inv, a.place(inv.Node()), ""); err != nil {
			return nil, err
		}
	}
	req := &llm.Request{System: paragraphs(system, put.list), Agent: inv.Node().Path}
	ask := func(text string) { req.Messages = append(req.Messages, llm.UserText(put.ask(choice.Shorten(text)))) }
	example := func(text, name string) {
		if strings.TrimSpace(text) != "" && slices.Contains(names, name) {
			ask(text)
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: put.reply(name)}})
		}
	}
	for _, c := range slices.Backward(all) {
		example(strings.TrimSuffix(c.Agent.Description(), "."), c.Agent.Name())
	}
	said, before := v.Exchanges()
	for _, e := range before {
		example(e.Said, e.By)
	}
	ask(said)
	var cold float64
	req.Settings = a.settings.ForEndpoint()
	req.Temperature, req.MaxTokens, req.TopLogProbs, req.LeakedCalls = &cold, 256, 20, llm.LeakedCallsOff
	if d.schema {
		req.ResponseFormat = &llm.ResponseFormat{Name: "who_answers", Schema: choiceOf(names), Strict: true}
	}
	for _, change := range d.settings {
		change(&req.Settings)
	}
	return req, nil
}

// asking is how the question is put.
type asking struct {
	list  string // who may answer, and how to reply
	ask   func(text string) string
	reply func(name string) string
}

// form is how the question is put: in words, or brief as a table in code, from which the
// examples call. The table needs no word besides, and small models do better without.
func (d *deciding) form(all []candidate) asking {
	f := asking{
		ask:   func(text string) string { return "Message: \"" + text + "\"\nName:" },
		reply: func(name string) string { return name },
	}
	prompt, list, form := d.prompt, linesOf(all), "Reply with the name and nothing else."
	if d.brief {
		f.ask = func(text string) string { return "route(" + string(event.EncodeJSON(text)) + ")" }
		if form = ""; prompt == DecisionPrompt {
			prompt = ""
		}
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

// sharedWords scores the candidates by the words that their names and descriptions share
// with the message.
func sharedWords(said string, all []candidate) []float64 {
	texts := make([][]bm25.Word, len(all))
	for i, c := range all {
		texts[i] = bm25.Split(c.Agent.Name() + " " + c.Agent.Description())
	}
	return bm25.Scores(bm25.Split(choice.Shorten(said)), texts)
}

// choiceOf is the schema of an answer that is one of the names.
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
