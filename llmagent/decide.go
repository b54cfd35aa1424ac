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
const DecisionPrompt = "Do not answer yet. First decide who answers the user's last message:"

// DefaultDecisionThreshold is the confidence below which the user is asked, unless
// DecisionThreshold sets another: no name has the greater part of the probability.
const DefaultDecisionThreshold = 0.5

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

// DecisionSettings changes the settings of the question, for models and endpoints that
// refuse one of them. They are a temperature of 0, at most 256 tokens, a response format
// with the names, and the five likeliest tokens at each place. Without the response format
// an answer that is only a name is read as well; without log probabilities the confidence
// is not known, and the user never asked. Change may be called by several goroutines.
func DecisionSettings(change func(*llm.Settings)) DecisionOption {
	return func(d *deciding) { d.settings = append(d.settings, change) }
}

// WithDecision is for models that do not call tools reliably. Each run of the agent that
// has somebody to hand over to begins with a short question to model, or to the agent's
// own if that is nil: which of the targets answers, or the agent itself. A target gets the
// conversation as if the agent's model had called the transfer tool. If it is the agent,
// its model is asked without that tool, and without a word about transfers. If the
// confidence is below a threshold, the agent asks the user whom they mean, and that ends
// the turn; of the next message the likeliest name counts. It always does in an inner
// scope, where there is no user, and for an agent with routes, which would take the
// question on.
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

// whoRequest is the question who answers. It begins as the request does that follows if
// it is the agent, so that a prompt cache serves both.
func (a *Agent) whoRequest(ctx context.Context, inv *agent.Invocation, v *view.View) (*llm.Request, error) {
	req, err := a.request(ctx, inv, view.Run{Decided: true}, v.Messages())
	if err != nil {
		return nil, err
	}
	targets := a.offered(inv.Node(), v.Run()).targets
	names := a.candidates(inv.Node(), targets)
	own := "yourself"
	if a.description != "" {
		own += ". " + a.description
	}
	words := a.decides.prompt + "\n" + transfer.Lines(targets) + "\n- " + names[len(targets)] + ": " + own +
		"\nReply with JSON and nothing else: {\"agent\": NAME}, where NAME is one of these names."
	req.Messages = append(slices.Clip(req.Messages), llm.UserText(words))
	req.Stream = false
	var cold float64
	req.Settings = llm.Settings{Temperature: &cold, MaxTokens: 256, TopLogProbs: 5, LeakedCalls: llm.LeakedCallsOff,
		ResponseFormat: &llm.ResponseFormat{Name: "who_answers", Schema: choiceOf(names), Strict: true}}
	if len(req.Tools) > 0 {
		req.ToolChoice = llm.ToolChoiceNone
	}
	for _, change := range a.decides.settings {
		change(&req.Settings)
	}
	return req, nil
}

// candidates are the names of all who may answer, the agent's own last.
func (a *Agent) candidates(n *agent.Node, targets []*agent.Node) []string {
	names := make([]string, 0, len(targets)+1)
	for _, t := range targets {
		names = append(names, t.Agent.Name())
	}
	return append(names, n.Agent.Name())
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
	req, err := a.whoRequest(ctx, inv, v)
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
	targets := a.offered(inv.Node(), v.Run()).targets
	names := a.candidates(inv.Node(), targets)
	name, written := choice(s.text.String(), names)
	confidence, known := confidence(s.probs, name, written, names)
	how := "decided"
	if known {
		how = fmt.Sprintf("decided with a confidence of %.2f", confidence)
	}
	target := slices.IndexFunc(targets, func(t *agent.Node) bool { return t.Agent.Name() == name })
	said := answer{inv: inv, attempt: 1, yield: yield, usage: s.usage, model: cmp.Or(s.model, model.Name())}
	switch {
	case failure != nil:
		a.undecided(&said, false, "the model failed: "+failure.Error())
	case name == "":
		a.undecided(&said, true, "the model "+model.Name()+" named none of "+strings.Join(names, ", "))
	case known && confidence < a.decides.threshold && mayAskUser(inv, v):
		notice := fmt.Sprintf("the user is asked whom they mean: %s, %s", name, how)
		if !yield(&event.Event{Data: &event.Notice{Code: event.NoticeAsksUser, Message: notice}, More: true}, nil) ||
			!said.delta(&said.text, a.askUser(targets, names[len(targets)]), false) {
			return
		}
		said.deliver(inv, a)
	case target < 0:
		if yield(&event.Event{Data: &event.Notice{Code: event.NoticeDecided, Message: name + " answers, " + how}, More: true}, nil) {
			a.goOn(&said, true)
		}
	case inv.Node().InputFor(targets[target]) != nil:
		a.undecided(&said, true, name+" needs an input, which the agent's own model has to give")
	default:
		said.calls = []llm.ToolCall{{Name: agent.TransferTool, Arguments: string(event.EncodeJSON(struct {
			AgentName string `json:"agent_name"`
			Reason    string `json:"reason"`
		}{name, how}))}}
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
func (a *Agent) askUser(targets []*agent.Node, own string) string {
	if a.decides.question != "" {
		return a.decides.question
	}
	return "I am not sure who should answer this. Whom do you mean?\n" + transfer.Lines(targets) + "\n- " + own + ": me"
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
