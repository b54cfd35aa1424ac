package llmagent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/llm"
)

// decisionPrompt begins the question which agent answers. The names and descriptions of the candidates follow, then
// the form of the answer.
const decisionPrompt = "You do not answer yet. You say who answers:"

// defaultThreshold is the confidence below which the agent asks the user, unless DecisionThreshold sets another. See
// docs/routing.md for the measurements.
const defaultThreshold = 0.3

// DecisionOption configures [WithDecision].
type DecisionOption func(*decision)

// DecisionThreshold sets the confidence, from 0 to 1, below which the agent asks the user which agent they mean. 0
// never asks.
// Defaults to 0.3.
func DecisionThreshold(t float64) DecisionOption { return func(d *decision) { d.threshold = t } }

// DecisionQuestion sets the text with which the agent asks the user.
// Defaults to an English sentence with the names and descriptions of all candidates.
func DecisionQuestion(text string) DecisionOption { return func(d *decision) { d.question = text } }

// DecisionBrief is for the smallest models. The question is a table of the names and descriptions in code, without the
// agent's instructions and without the sentence that begins the question. If the log probabilities show alternative beginnings of the answer,
// the words that the message shares with a name and its description count in addition to the model's answer. The
// option was measured with a model of half a billion parameters. A model of one and a half billion parameters chose
// worse without the instructions.
func DecisionBrief() DecisionOption { return func(d *decision) { d.brief = true } }

// DecisionSchema asks for JSON, with a schema that allows only the names of the candidates. It is for endpoints that
// return no log probabilities. The smallest models choose worse in JSON.
func DecisionSchema() DecisionOption { return func(d *decision) { d.schema = true } }

// DecisionSettings changes the settings of the question, for models and endpoints that refuse one of them. If the
// endpoint returns no log probabilities, the confidence is unknown and the agent never asks the user. Several
// goroutines may call change at the same time.
// Defaults to a temperature of 0, at most 256 tokens, and the 20 likeliest tokens at each position.
func DecisionSettings(change func(*llm.Settings)) DecisionOption {
	return func(d *decision) { d.settings = append(d.settings, change) }
}

// WithDecision is for models that do not call tools reliably. A run of an agent that can transfer begins with a
// short question to model: which agent answers the user's last message. If model is nil, the agent's own model is
// asked. The candidates are the agent itself and all agents that the conversation can reach, from agent to agent. If
// the answer names another agent, the agent transfers the conversation to the first agent on the way to it, as if its
// model had called the transfer tool. If the answer names the agent itself, the agent asks its own model without that
// tool, and without an instruction about transfers.
//
// If the confidence is below a threshold, the agent asks the user which agent they mean, and the turn ends. After the
// user's next message the likeliest name counts. It also always counts in an inner scope, which has no user, and for
// an agent with routes, which would pass the question to another agent.
//
// The question counts as a model call of the agent in limits and budgets. If the model fails, or names no candidate,
// the log gets a notice and the agent continues as without the option. The agent calls its instruction function once
// more for the question.
func WithDecision(model llm.Model, opts ...DecisionOption) Option {
	d := decision{model: model, threshold: defaultThreshold}
	for i, o := range opts {
		if o == nil {
			d.wrong = cmp.Or(d.wrong, fmt.Errorf("decision: option %d is nil", i))
			continue
		}
		o(&d)
	}
	return func(a *Agent) { a.decision = &d }
}

// decision configures how an agent decides which agent answers. It is immutable.
type decision struct {
	model         llm.Model // nil: the agent's own
	threshold     float64
	question      string
	brief, schema bool
	settings      []func(*llm.Settings)
	wrong         error
}

// check returns an error if the settings cannot work. A nil decision is valid.
func (d *decision) check() error {
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
