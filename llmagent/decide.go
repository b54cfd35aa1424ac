package llmagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/choice"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// DecisionPrompt is how the question who answers begins, unless DecisionPrompted brings
// words of one's own. The names and descriptions follow, and the form of the answer.
const DecisionPrompt = "You do not answer yet. You say who answers:"

// DefaultDecisionThreshold is the confidence below which the user is asked, unless
// DecisionThreshold sets another. See docs/routing.md for what was measured.
const DefaultDecisionThreshold = 0.3

// DecisionOption configures WithDecision.
type DecisionOption func(*deciding)

// DecisionThreshold sets the confidence, from 0 to 1, below which the agent asks the user
// whom they mean. 0 never asks.
func DecisionThreshold(t float64) DecisionOption { return func(d *deciding) { d.threshold = t } }

// DecisionQuestion sets the words with which the user is asked; without it they are a
// sentence in English and the names and descriptions of all who may be meant.
func DecisionQuestion(text string) DecisionOption { return func(d *deciding) { d.question = text } }

// DecisionPrompted replaces DecisionPrompt, also where DecisionBrief leaves that out.
func DecisionPrompted(text string) DecisionOption { return func(d *deciding) { d.prompt = text } }

// DecisionBrief is for the smallest models. The question is a table of the names and
// descriptions in code, without the agent's instructions and without DecisionPrompt. And
// where the log probabilities tell how else the answer might have begun, the words that
// the message shares with a name and its description count beside what the model says.
// It was measured with a model of half a billion parameters; one of one and a half chose
// worse as soon as the instructions were left out.
func DecisionBrief() DecisionOption { return func(d *deciding) { d.brief = true } }

// DecisionSchema asks for JSON and sends a schema that holds the answer to the names, for
// endpoints that give no log probabilities. The smallest models choose worse in JSON.
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

// deciding returns how the run has yet to decide who answers, nil if it has not.
func (a *Agent) deciding(n *agent.Node, run view.Run) *deciding {
	d := a.decides
	if d == nil && n.SmallModels() {
		d = &deciding{threshold: DefaultDecisionThreshold, prompt: DecisionPrompt}
	}
	if d == nil || run.Answered || len(a.offered(n, run).targets) == 0 {
		return nil
	}
	return d
}

// asks returns the model that is asked who answers.
func (d *deciding) asks(a *Agent) llm.Model {
	if d.model != nil {
		return d.model
	}
	return a.model
}

// who asks who answers, and yields the outcome. The stored outcome prevents the run
// from asking again, whichever process continues it.
func (a *Agent) who(ctx context.Context, inv *agent.Invocation, v *view.View, d *deciding, yield func(*event.Event, error) bool) {
	all := a.candidates(inv, v.Run())
	req, err := a.whoRequest(ctx, inv, v, d, all)
	if err != nil {
		yield(nil, err)
		return
	}
	model := d.asks(a)
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
	name, written := choice.Read(s.text.String(), names)
	confidence, known := choice.Confidence(s.probs, name, written, names)
	var plus []float64
	if d.brief {
		said, _ := v.Exchanges()
		plus = sharedWords(said, all)
	}
	if failure == nil && (name == "" || d.brief && choice.BeginsOne(s.probs, names)) {
		name, confidence = choice.Likeliest(s.probs, names, plus)
		known = name != ""
	}
	how := transfer.Decided
	if known {
		how = fmt.Sprintf("%s with a confidence of %.2f", transfer.Decided, confidence)
	}
	var target *agent.Node
	if i := slices.Index(names, name); i >= 0 {
		target = all[i].via
	}
	if target != nil && target.Agent.Name() != name {
		how += transfer.OnTheWay + name
	}
	said := answer{inv: inv, attempt: 1, yield: yield, usage: s.usage, model: cmp.Or(s.model, model.Name())}
	switch {
	case failure != nil:
		a.undecided(&said, false, "the model failed: "+failure.Error())
	case name == "":
		a.undecided(&said, true, "the model "+model.Name()+" named none of "+strings.Join(names, ", "))
	case known && confidence < d.threshold && mayAskUser(inv, v):
		notice := fmt.Sprintf("the user is asked whom they mean: %s, %s", name, how)
		if !yield(&event.Event{Data: &event.Notice{Code: event.NoticeAsksUser, Message: notice}, More: true}, nil) ||
			!said.delta(&said.text, d.askUser(all), false) {
			return
		}
		said.deliver(ctx, inv, a, v.Run())
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
		said.deliver(ctx, inv, a, v.Run())
	}
}

// undecided records that the question got no usable answer.
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
func (d *deciding) askUser(all []candidate) string {
	if d.question != "" {
		return d.question
	}
	others, own := all[:len(all)-1], all[len(all)-1]
	return "I am not sure who should answer this. Whom do you mean?\n" + linesOf(others) + "\n- " + own.Agent.Name() + ": me"
}
