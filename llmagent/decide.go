package llmagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// DecisionPrompt is how the question who answers begins, unless DecisionPrompted brings
// words of one's own. The names and descriptions follow, and the form of the answer.
const DecisionPrompt = "You do not answer yet. You say who answers:"

// DefaultDecisionThreshold is the confidence below which the user is asked, unless
// DecisionThreshold sets another. What small models choose with less is mostly wrong
// (docs/routing.md).
const DefaultDecisionThreshold = 0.3

// DecisionOption configures WithDecision.
type DecisionOption func(*deciding)

// DecisionThreshold sets the confidence, from 0 to 1, below which the agent asks the user
// whom they mean. 0 never asks.
func DecisionThreshold(t float64) DecisionOption { return func(d *deciding) { d.threshold = t } }

// DecisionQuestion sets the words with which the user is asked; without it they are a
// sentence in English and the names and descriptions of all who may be meant.
func DecisionQuestion(text string) DecisionOption { return func(d *deciding) { d.question = text } }

// DecisionPrompted replaces DecisionPrompt.
func DecisionPrompted(text string) DecisionOption { return func(d *deciding) { d.prompt = text } }

// DecisionBrief leaves the agent's instructions out of the question, which then says of
// everybody only the name and the description. The smallest models answer it better so,
// larger ones worse, because they do not know what the agent answers itself.
func DecisionBrief() DecisionOption { return func(d *deciding) { d.brief = true } }

// DecisionSchema asks for JSON and sends a schema that holds the answer to the names, for
// endpoints that give no log probabilities. Small models choose worse in JSON.
func DecisionSchema() DecisionOption { return func(d *deciding) { d.schema = true } }

// DecisionSettings changes the settings of the question, for models and endpoints that
// refuse one of them. They are a temperature of 0, at most 256 tokens, and the 20
// likeliest tokens at each place. Without log probabilities the confidence is not known,
// and the user never asked. Change may be called by several goroutines.
func DecisionSettings(change func(*llm.Settings)) DecisionOption {
	return func(d *deciding) { d.settings = append(d.settings, change) }
}

// WithDecision is for models that do not call tools reliably. Each run of the agent that
// has somebody to hand over to begins with a short question to model, or to the agent's
// own if that is nil: who answers the user's last message. The names are the agent's own
// and those of all whom the conversation can reach, from agent to agent; if it is
// another's, the first on the way there gets the conversation as if the agent's model had
// called the transfer tool. If it is the agent's, its model is asked without that tool,
// and without a word about transfers. If the confidence is below a threshold, the agent
// asks the user whom they mean, and that ends the turn; of the next message the likeliest
// name counts. It always does in an inner scope, where there is no user, and for an agent
// with routes, which would take the question on.
//
// The question counts as a model call of the agent towards limits and budgets. If the
// model fails, or names nobody, a notice says so and the agent goes on as without the
// option. The agent's instruction function is called once more for the question.
func WithDecision(model llm.Model, opts ...DecisionOption) Option {
	d := deciding{model: model, threshold: DefaultDecisionThreshold, prompt: DecisionPrompt}
	for i, o := range opts {
		if o == nil {
			d.wrong = cmp.Or(d.wrong, fmt.Errorf("decision: option %d is nil", i))
			continue
		}
		o(&d)
	}
	return func(a *Agent) { a.decides = &d }
}

// deciding is what an agent keeps of these settings. It is not changed.
type deciding struct {
	model            llm.Model // nil: the agent's own
	threshold        float64
	question, prompt string
	brief, schema    bool
	settings         []func(*llm.Settings)
	wrong            error
}

// check reports settings that cannot work.
func (d *deciding) check() error {
	switch {
	case d == nil:
		return nil
	case d.wrong != nil:
		return d.wrong
	case !(d.threshold >= 0 && d.threshold <= 1):
		return fmt.Errorf("decision: the threshold %v is not between 0 and 1", d.threshold)
	case slices.ContainsFunc(d.settings, func(f func(*llm.Settings)) bool { return f == nil }):
		return errors.New("decision: the function that changes the settings is nil")
	}
	return nil
}

// asksWho reports whether the run has yet to decide who answers.
func (a *Agent) asksWho(n *agent.Node, run view.Run) bool {
	return a.decides != nil && !run.Answered && len(a.offered(n, run).targets) > 0
}

// candidate is somebody who may answer: the agent itself, or one whom the conversation
// reaches through one of its targets.
type candidate struct {
	*agent.Node
	via *agent.Node // the target, nil for the agent itself
}

// candidates are all who may answer: those whom the conversation reaches on the shortest
// way from one of the targets that are offered, in the order of the tree, and the agent.
// The agent from which it has just come is only reached by other ways if it is offered.
func (a *Agent) candidates(inv *agent.Invocation, run view.Run) []candidate {
	n, targets := inv.Node(), a.offered(inv.Node(), run).targets
	via := map[*agent.Node]*agent.Node{n: nil}
	if from := transfer.Withheld(n, n.Properties.Policy, run.Handed); from != nil {
		via[from] = nil
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
// before the last one. The descriptions stand in the reverse order of the list, so that
// being the first or the last of one of them decides nothing.
func (a *Agent) whoRequest(ctx context.Context, inv *agent.Invocation, v *view.View, all []candidate) (*llm.Request, error) {
	req, err := a.request(ctx, inv, view.Run{Decided: true}, nil)
	if err != nil {
		return nil, err
	}
	if a.decides.brief {
		req.System = ""
	}
	names := namesOf(all)
	form, question, reply := "Reply with the name and nothing else.", "\nName:", func(name string) string { return name }
	if a.decides.schema {
		form = `Reply with JSON and nothing else: {"agent": NAME}, where NAME is one of these names.`
		question, reply = "", func(name string) string { return `{"agent": ` + string(event.EncodeJSON(name)) + `}` }
	}
	req.System = paragraphs(req.System, a.decides.prompt+"\n"+linesOf(all)+"\n"+form)
	req.Messages = nil
	put := func(text string) {
		req.Messages = append(req.Messages, llm.UserText("Message: \""+shorten(text)+"\""+question))
	}
	example := func(text, name string) {
		if strings.TrimSpace(text) != "" && slices.Contains(names, name) {
			put(text)
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: reply(name)}})
		}
	}
	for _, c := range slices.Backward(all) {
		example(strings.TrimSuffix(c.Agent.Description(), "."), c.Agent.Name())
	}
	said, before := v.Exchanges()
	for _, e := range before {
		example(e.Said, e.By)
	}
	put(said)
	req.Tools, req.ToolChoice, req.Stream = nil, "", false
	var cold float64
	req.Settings = llm.Settings{Temperature: &cold, MaxTokens: 256, TopLogProbs: 20, LeakedCalls: llm.LeakedCallsOff}
	if a.decides.schema {
		req.ResponseFormat = &llm.ResponseFormat{Name: "who_answers", Schema: choiceOf(names), Strict: true}
	}
	for _, change := range a.decides.settings {
		change(&req.Settings)
	}
	return req, nil
}

// shorten keeps the beginning and the end of a text that is too long for a question
// about it: what a user wants stands before or behind what they have pasted.
func shorten(text string) string {
	const most = 2000
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most/2], "") + " … " + strings.ToValidUTF8(text[len(text)-most/2:], "")
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

// who asks who answers, and yields what comes of it. What is stored says that it was
// asked, so that the run does not ask again, whoever goes on with it.
func (a *Agent) who(ctx context.Context, inv *agent.Invocation, v *view.View, yield func(*event.Event, error) bool) {
	all := a.candidates(inv, v.Run())
	req, err := a.whoRequest(ctx, inv, v, all)
	if err != nil {
		yield(nil, err)
		return
	}
	model := a.decides.model
	if model == nil {
		model = a.model
	}
	s := newAside(inv, model, yield)
	failure := s.put(ctx, req, func() error { return nil })
	if s.stopped {
		return
	}
	if err := s.fatal(ctx, failure); err != nil {
		yield(nil, err)
		return
	}
	names := namesOf(all)
	name, written := choice(s.text.String(), names)
	confidence, known := confidence(s.probs, name, written, names)
	if name == "" && failure == nil {
		name, confidence = likeliest(s.probs, names)
		known = name != ""
	}
	how := "decided"
	if known {
		how = fmt.Sprintf("decided with a confidence of %.2f", confidence)
	}
	var target *agent.Node
	if i := slices.Index(names, name); i >= 0 {
		target = all[i].via
	}
	if target != nil && target.Agent.Name() != name {
		how += ": for " + name
	}
	said := answer{inv: inv, attempt: 1, yield: yield, usage: s.usage, model: cmp.Or(s.model, model.Name())}
	switch {
	case failure != nil:
		a.undecided(&said, false, "the model failed: "+failure.Error())
	case name == "":
		a.undecided(&said, true, "the model "+model.Name()+" named none of "+strings.Join(names, ", "))
	case known && confidence < a.decides.threshold && mayAskUser(inv, v):
		notice := fmt.Sprintf("the user is asked whom they mean: %s, %s", name, how)
		if !yield(&event.Event{Data: &event.Notice{Code: event.NoticeAsksUser, Message: notice}, More: true}, nil) ||
			!said.delta(&said.text, a.askUser(all), false) {
			return
		}
		said.deliver(inv, a)
	case target == nil:
		if yield(&event.Event{Data: &event.Notice{Code: event.NoticeDecided, Message: name + " answers, " + how}, More: true}, nil) {
			a.goOn(&said, true)
		}
	case inv.Node().InputFor(target) != nil:
		a.undecided(&said, true, target.Agent.Name()+" needs an input, which the agent's own model has to give")
	default:
		said.calls = []llm.ToolCall{{Name: agent.TransferTool, Arguments: string(event.EncodeJSON(struct {
			AgentName string `json:"agent_name"`
			Reason    string `json:"reason"`
		}{target.Agent.Name(), how}))}}
		said.deliver(inv, a)
	}
}

// undecided records that the question has come to nothing.
func (a *Agent) undecided(said *answer, answered bool, why string) {
	notice := &event.Event{Data: &event.Notice{Code: event.NoticeUndecided, Message: "who answers is not decided: " + why}, More: answered}
	if !said.yield(notice, nil) {
		return
	}
	a.goOn(said, answered)
}

// goOn closes the answer, if there was one, and has the agent's own model asked next.
func (a *Agent) goOn(said *answer, answered bool) {
	if answered && !said.yield(&event.Event{Data: said.usageOf(a.model.Name())}, nil) {
		return
	}
	said.yield(&event.Event{Data: &event.Continue{}}, nil)
}

// mayAskUser reports whether the user can be asked whom they mean: not in an inner scope,
// not twice in a row, and not where a route would take the question on to another agent.
func mayAskUser(inv *agent.Invocation, v *view.View) bool {
	return inv.Scope() == "" && !v.AskedUser() && len(inv.Node().Routes()) == 0
}

// askUser is what the agent says when it has to ask.
func (a *Agent) askUser(all []candidate) string {
	if a.decides.question != "" {
		return a.decides.question
	}
	others, own := all[:len(all)-1], all[len(all)-1]
	return "I am not sure who should answer this. Whom do you mean?\n" + linesOf(others) + "\n- " + own.Agent.Name() + ": me"
}

// choice reads the answer to the question who answers: one of the names, and how it is
// written in the answer; "" if it is none. Where nothing has held the model to the form,
// JSON may stand between other words, or the name alone.
func choice(text string, names []string) (name, written string) {
	from, to := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	var answer struct {
		Agent string `json:"agent"`
	}
	if from >= 0 && to > from && json.Unmarshal([]byte(text[from:to+1]), &answer) == nil {
		written = answer.Agent
	} else {
		written = strings.Trim(text, " \t\r\n\"'`*.")
	}
	if slices.Contains(names, written) {
		return written, written
	}
	for _, n := range names {
		switch {
		case !strings.EqualFold(n, strings.TrimSpace(written)):
		case name != "":
			return "", "" // either
		default:
			name = n
		}
	}
	return name, written
}

// likeliest is the name with which the answer would have begun with the greatest
// probability, and how probable it was against the other ones: for models that answer the
// user in place of the question. A token with which several names begin says nothing, and
// where all names together have less than one in a hundred, none is meant.
func likeliest(tokens []llm.LogProb, names []string) (name string, sure float64) {
	if len(tokens) == 0 {
		return "", 0
	}
	each, sum := make([]float64, len(names)), 0.0
	for _, o := range alternatives(tokens[0]) {
		begin := strings.TrimLeft(o.Token, " \t\r\n\"'`*")
		starts := func(n string) bool { return begin != "" && strings.HasPrefix(n, begin) }
		i := slices.IndexFunc(names, starts)
		if i < 0 || slices.ContainsFunc(names[i+1:], starts) {
			continue
		}
		p := math.Exp(min(o.LogProb, 0))
		each[i] += p
		sum += p
	}
	if sum < 0.01 {
		return "", 0
	}
	best := slices.Max(each)
	return names[slices.Index(each, best)], best / sum
}

// confidence is how probable the chosen name was against the other ones, and false if the
// log probabilities do not tell. At each token of the name, only those tokens count that go
// on with one of the names: the others could not have been chosen.
func confidence(tokens []llm.LogProb, name, written string, names []string) (float64, bool) {
	var all strings.Builder
	for _, t := range tokens {
		all.WriteString(t.Token)
	}
	text := all.String()
	begin := strings.LastIndex(text, written)
	if begin < 0 || written == "" {
		return 0, false
	}
	// The sign behind the name says that it does not go on as another one does.
	end := begin + len(written)
	behind := text[end:min(end+1, len(text))]
	sure, at := 1.0, 0
	for _, t := range tokens {
		from := at
		if at += len(t.Token); at <= begin || from >= end+len(behind) {
			continue
		}
		before, head := text[min(from, begin):begin], text[begin:max(from, begin)]
		mine, others := 0.0, 0.0
		for _, o := range alternatives(t) {
			rest, ok := strings.CutPrefix(o.Token, before)
			switch {
			case !ok, head+rest == "":
			case leads(head+rest, written+behind):
				mine += math.Exp(min(o.LogProb, 0))
			case slices.ContainsFunc(names, func(n string) bool { return n != name && leads(head+rest, n+behind) }):
				others += math.Exp(min(o.LogProb, 0))
			}
		}
		if len(t.Top) == 0 {
			others = 1 - mine // nobody says which tokens they are
		}
		if mine > 0 {
			sure *= mine / (mine + others)
		}
	}
	return sure, true
}

// alternatives are the tokens that might stand at a place, the one that does included.
func alternatives(t llm.LogProb) []llm.LogProb {
	if slices.ContainsFunc(t.Top, func(o llm.LogProb) bool { return o.Token == t.Token }) {
		return t.Top
	}
	return append(slices.Clip(t.Top), llm.LogProb{Token: t.Token, LogProb: t.LogProb})
}

// leads reports whether a name may begin with what was said so far, or does end in it.
func leads(said, name string) bool {
	return strings.HasPrefix(name, said) || strings.HasPrefix(said, name)
}
