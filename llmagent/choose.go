package llmagent

import (
	"cmp"
	"encoding/json"
	"fmt"
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

// chooser asks a model which agent answers the user's last message.
type chooser struct {
	*execution
	decision *decision
	model    llm.Model
	offered  []*agent.Node // the targets
	all      []candidate
	names    []string // the names of the candidates
}

// question returns the question that the agent asks about who answers, nil if it asks none.
func (x *execution) question() *decision {
	if d := x.agent.decision; d != nil || !x.inv.Node().SmallModels() {
		return d
	}
	return &decision{threshold: defaultThreshold}
}

// chooser returns the chooser of a run that has not decided yet which agent answers, or nil.
func (x *execution) chooser() *chooser {
	d, n := x.question(), x.inv.Node()
	if d == nil || x.run.Answered {
		return nil
	}
	offered := x.templateFor(n, x.run).targets
	if len(offered) == 0 {
		return nil
	}
	model := d.model
	if model == nil {
		model = x.agent.model
	}
	all := x.candidates(offered)
	return &chooser{x, d, model, offered, all, candidateNames(all)}
}

// choose asks which agent answers, and acts on the answer. The stored outcome keeps the run from asking again in any
// process.
func (c *chooser) choose() error {
	req, err := c.request()
	if err != nil {
		return err
	}
	s := &sideCall{answer: answer{x: c.execution}, source: c.model}
	failure := s.ask(req, func() error { return nil })
	if err := s.fatal(failure); err != nil {
		return err
	}
	outcome := &answer{x: c.execution, attempt: 1, usage: s.usage, model: cmp.Or(s.answer.model, c.model.Name())}
	if failure != nil {
		return c.undecided(outcome, false, "the model failed: "+failure.Error())
	}
	name, confidence, known := c.read(&s.answer)
	if name == "" {
		return c.undecided(outcome, true, "the model "+c.model.Name()+" named none of "+strings.Join(c.names, ", "))
	}
	var target *agent.Node // nil: the agent itself
	if i := slices.Index(c.names, name); i >= 0 {
		target = c.all[i].via
	}
	named := ""
	if target != nil && target.Agent.Name() != name {
		named = name
	}
	how := view.ChosenReason(confidence, known, named)
	switch {
	case known && confidence < c.decision.threshold && c.mayAskUser():
		return c.askUser(outcome, fmt.Sprintf("the user is asked whom they mean: %s, %s", name, how))
	case target == nil:
		return c.recordOutcome(outcome, true, event.NoticeDecided, name+" answers, "+how)
	case c.inv.Node().InputFor(target) != nil:
		return c.undecided(outcome, true, target.Agent.Name()+" needs an input, which the agent's own model has to give")
	}
	// The target does not ask again if it could name nobody who was not in this question.
	if all := c.inv.Node().Targets(); named == "" && (len(c.offered) < len(all) || known && confidence < c.decision.threshold) {
		how += "; the target asks again"
	}
	outcome.chosen = true
	outcome.calls = []llm.ToolCall{{Name: agent.TransferTool, Arguments: string(event.EncodeJSON(struct {
		AgentName string `json:"agent_name"`
		Reason    string `json:"reason"`
	}{target.Agent.Name(), how}))}}
	return outcome.deliver()
}

// read returns the name in an answer and its confidence. known is false if the confidence is unknown.
func (c *chooser) read(ans *answer) (name string, confidence float64, known bool) {
	name, written := choice.Read(ans.text.String(), c.names)
	confidence, known = choice.Confidence(ans.probs, name, written, c.names)
	if name != "" && !(c.decision.brief && choice.BeginsOne(ans.probs, c.names)) {
		return name, confidence, known
	}
	var shared []float64
	if c.decision.brief {
		said, _ := c.view.Exchanges()
		shared = scoreCandidates(said, c.all)
	}
	name, confidence = choice.Likeliest(ans.probs, c.names, shared)
	return name, confidence, name != ""
}

// scoreCandidates scores the candidates by the words that the message shares with their names and descriptions.
func scoreCandidates(said string, all []candidate) []float64 {
	texts := make([][]bm25.Word, len(all))
	for i, c := range all {
		texts[i] = bm25.Split(c.Agent.Name() + " " + c.Agent.Description())
	}
	return bm25.Scores(bm25.Split(choice.Shorten(said)), texts)
}

// undecided records that the question got no usable answer. Package eval/replay reads the texts of these notices, so
// they must stay the same.
func (c *chooser) undecided(outcome *answer, answered bool, why string) error {
	return c.recordOutcome(outcome, answered, event.NoticeUndecided, "who answers is not decided: "+why)
}

// recordOutcome yields a notice and, if the question was answered, the usage of the answer. The next step asks the
// agent's own model.
func (c *chooser) recordOutcome(outcome *answer, answered bool, code, message string) error {
	events := []*event.Event{{Data: &event.Notice{Code: code, Message: message}, More: answered}}
	if answered {
		events = append(events, &event.Event{Data: outcome.usageOf(c.agent.model.Name())})
	}
	if err := c.emit(events...); err != nil {
		return err
	}
	return c.continueRun()
}

// mayAskUser reports whether the agent may ask the user which agent they mean: not in an inner scope, not twice in a
// row, and not if a route would pass the question to another agent.
func (c *chooser) mayAskUser() bool {
	return c.inv.Scope() == "" && !c.view.AskedUser() && len(c.inv.Node().Routes()) == 0
}

// askUser asks the user which agent they mean.
func (c *chooser) askUser(outcome *answer, notice string) error {
	if err := c.emit(&event.Event{Data: &event.Notice{Code: event.NoticeAsksUser, Message: notice}, More: true}); err != nil {
		return err
	}
	text := c.decision.question
	if text == "" {
		others, own := c.all[:len(c.all)-1], c.all[len(c.all)-1]
		text = "I am not sure who should answer this. Whom do you mean?\n" + candidateLines(others) + "\n- " + own.Agent.Name() + ": me"
	}
	if err := outcome.delta(&outcome.text, text); err != nil {
		return err
	}
	return outcome.deliver()
}

// request returns the request that asks which agent answers. Small models learn the task from examples: the parts of
// each description are shown as messages that its agent answers, and so are the user's earlier messages. The
// descriptions are in the reverse order of the list, so that the first or last place in one of the two has no
// influence.
func (c *chooser) request() (*llm.Request, error) {
	d, system := c.decision, ""
	if !d.brief {
		var err error
		if system, err = c.system(c.template(c.inv.Node()), ""); err != nil {
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
	parts := c.descriptionParts()
	for round := range exampleParts {
		for i, one := range slices.Backward(c.all) {
			if round < len(parts[i]) {
				example(strings.TrimSpace(parts[i][round]), one.Agent.Name())
			}
		}
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
		req.ResponseFormat = &llm.ResponseFormat{Name: "who_answers", Schema: choiceSchema(c.names), Strict: true}
	}
	for _, change := range d.settings {
		change(&req.Settings)
	}
	return req, nil
}

// exampleParts is the number of parts of a description, and maxExamples of those of all, that the question shows as
// examples.
const exampleParts, maxExamples = 6, 48

// descriptionParts returns the parts of each candidate's description between commas and semicolons, or whole
// descriptions if there are many candidates.
func (c *chooser) descriptionParts() [][]string {
	most := min(exampleParts, maxExamples/len(c.all))
	all := make([][]string, len(c.all))
	for i, one := range c.all {
		text := strings.TrimSuffix(one.Agent.Description(), ".")
		if all[i] = []string{text}; most > 1 && !c.decision.brief {
			parts := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",;，；、", r) })
			all[i] = parts[:min(most, len(parts))]
		}
	}
	return all
}

// candidate is an agent that may answer: the agent itself, or one that the conversation can reach through one of its
// targets.
type candidate struct {
	*agent.Node
	via *agent.Node // the target; nil for the agent itself
}

// candidates returns the agents that the conversation can reach from the targets, then the agent itself. The order is
// that of the tree, followed by the person. Each candidate is reached on the shortest way. The list omits each target
// of the agent that the model is not offered now, and every agent that can be reached only through such a target.
func (x *execution) candidates(targets []*agent.Node) []candidate {
	n := x.inv.Node()
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
	if person := n.Human(); via[person] != nil { // not part of the tree
		all = append(all, candidate{person, via[person]})
	}
	return append(all, candidate{Node: n})
}

func candidateNames(all []candidate) []string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.Agent.Name()
	}
	return names
}

func candidateLines(all []candidate) string {
	nodes := make([]*agent.Node, len(all))
	for i, c := range all {
		nodes[i] = c.Node
	}
	return transfer.Lines(nodes)
}

// questionForm is the text of the question which agent answers.
type questionForm struct {
	list  string // the candidates, and how to reply
	ask   func(text string) string
	reply func(name string) string
}

// form returns the text of the question. With [DecisionBrief] the text is a table in code, with calls as examples.
// That table needs no other text, and small models choose better without it.
func (d *decision) form(all []candidate) questionForm {
	f := questionForm{
		ask:   func(text string) string { return "Message: \"" + text + "\"\nName:" },
		reply: func(name string) string { return name },
	}
	prompt, list, form := decisionPrompt, candidateLines(all), "Reply with the name and nothing else."
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

// choiceSchema returns the schema of an answer that is one of the names.
func choiceSchema(names []string) json.RawMessage {
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
