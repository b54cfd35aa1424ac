package llmagent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/bm25"
	"github.com/agentarbor/arbor/internal/choice"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools/transfer"
)

// chooser asks a model who answers the user's last message.
type chooser struct {
	*execution
	decision *decision
	model    llm.Model
	all      []candidate
	names    []string // of the candidates
}

// chooser returns the chooser of a run in which it is still open who answers, or else nil.
func (x *execution) chooser() *chooser {
	d, n := x.agent.decision, x.inv.Node()
	if d == nil && n.SmallModels() {
		d = &decision{threshold: defaultThreshold}
	}
	if d == nil || x.run.Answered || len(x.offered(n, x.run).targets) == 0 {
		return nil
	}
	model := d.model
	if model == nil {
		model = x.agent.model
	}
	all := x.candidates()
	return &chooser{x, d, model, all, namesOf(all)}
}

// choose asks who answers, and acts on the answer. The stored outcome prevents the run
// from asking again, whichever process continues it.
func (c *chooser) choose() error {
	req, err := c.request()
	if err != nil {
		return err
	}
	s := &side{answer: answer{x: c.execution}, source: c.model}
	failure := s.ask(req, func() error { return nil })
	if err := s.fatal(failure); err != nil {
		return err
	}
	said := &answer{x: c.execution, attempt: 1, usage: s.usage, model: cmp.Or(s.answer.model, c.model.Name())}
	if failure != nil {
		return c.undecided(said, false, "the model failed: "+failure.Error())
	}
	name, confidence, known := c.read(&s.answer)
	if name == "" {
		return c.undecided(said, true, "the model "+c.model.Name()+" named none of "+strings.Join(c.names, ", "))
	}
	how := transfer.Decided
	if known {
		how = fmt.Sprintf("%s with a confidence of %.2f", transfer.Decided, confidence)
	}
	var target *agent.Node // nil: the agent itself
	if i := slices.Index(c.names, name); i >= 0 {
		target = c.all[i].via
	}
	if target != nil && target.Agent.Name() != name {
		how += transfer.OnTheWay + name
	}
	switch {
	case known && confidence < c.decision.threshold && c.mayAskUser():
		return c.askUser(said, fmt.Sprintf("the user is asked whom they mean: %s, %s", name, how))
	case target == nil:
		return c.close(said, true, event.NoticeDecided, name+" answers, "+how)
	case c.inv.Node().InputFor(target) != nil:
		return c.undecided(said, true, target.Agent.Name()+" needs an input, which the agent's own model has to give")
	}
	said.calls = []llm.ToolCall{{Name: agent.TransferTool, Arguments: string(event.EncodeJSON(struct {
		AgentName string `json:"agent_name"`
		Reason    string `json:"reason"`
	}{target.Agent.Name(), how}))}}
	return said.deliver()
}

// read returns the name in an answer, and its confidence if that is known.
func (c *chooser) read(ans *answer) (name string, confidence float64, known bool) {
	name, written := choice.Read(ans.text.String(), c.names)
	confidence, known = choice.Confidence(ans.probs, name, written, c.names)
	if name != "" && !(c.decision.brief && choice.BeginsOne(ans.probs, c.names)) {
		return name, confidence, known
	}
	var shared []float64
	if c.decision.brief {
		said, _ := c.view.Exchanges()
		shared = sharedWords(said, c.all)
	}
	name, confidence = choice.Likeliest(ans.probs, c.names, shared)
	return name, confidence, name != ""
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

// undecided records that the question got no usable answer.
func (c *chooser) undecided(said *answer, answered bool, why string) error {
	return c.close(said, answered, event.NoticeUndecided, "who answers is not decided: "+why)
}

// close yields a notice and the usage of the answer, if there was one; the next step asks the agent's own model.
func (c *chooser) close(said *answer, answered bool, code, message string) error {
	events := []*event.Event{{Data: &event.Notice{Code: code, Message: message}, More: answered}}
	if answered {
		events = append(events, &event.Event{Data: said.usageOf(c.agent.model.Name())})
	}
	if err := c.emit(events...); err != nil {
		return err
	}
	return c.next()
}

// mayAskUser reports whether the agent can ask the user which agent they mean: not in an inner scope,
// not twice in a row, and not if a route would pass the question to another agent.
func (c *chooser) mayAskUser() bool {
	return c.inv.Scope() == "" && !c.view.AskedUser() && len(c.inv.Node().Routes()) == 0
}

// askUser asks the user which agent they mean.
func (c *chooser) askUser(said *answer, notice string) error {
	if err := c.emit(&event.Event{Data: &event.Notice{Code: event.NoticeAsksUser, Message: notice}, More: true}); err != nil {
		return err
	}
	text := c.decision.question
	if text == "" {
		others, own := c.all[:len(c.all)-1], c.all[len(c.all)-1]
		text = "I am not sure who should answer this. Whom do you mean?\n" + linesOf(others) + "\n- " + own.Agent.Name() + ": me"
	}
	if err := said.delta(&said.text, text); err != nil {
		return err
	}
	return said.deliver()
}
