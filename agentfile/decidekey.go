package agentfile

import (
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
)

// decideKeys are the keys below transfer.decide.
type decideKeys struct {
	model, question string
	threshold       *float64
	form            []llmagent.DecisionOption // how the question is put
}

// decideKey describes the question that decides who answers.
func decideKey() key {
	put := func(when bool, o llmagent.DecisionOption) func(*parser, *key, yamldoc.Node) {
		return boolean(func(d *definition, b bool) {
			if b == when {
				d.decide.form = append(d.decide.form, o)
			}
		})
	}
	noLogProbs := llmagent.DecisionSettings(func(s *llm.Settings) { s.TopLogProbs = 0 })
	return key{name: "decide", typ: "true or false, or a mapping", example: "true", def: "false",
		meaning: "Begins each run with [a short question](transfer.md#a-question-instead-of-a-call) to a model, which agent answers. For models that do not call tools reliably.",
		read:    decide,
		keys: []key{
			{name: "model", typ: "a text", example: "qwen3-small", def: "the agent's model",
				meaning: "The name of the model that decides.",
				read:    text(func(d *definition) *string { return &d.decide.model })},
			{name: "threshold", typ: "a number", example: "0.6", def: "0.3",
				meaning: "From 0 to 1: below this confidence the agent asks the user. 0 never asks.",
				read:    number(0, 1, func(d *definition) **float64 { return &d.decide.threshold })},
			{name: "question", typ: "a text", example: `"Is it about money, or about a device?"`, def: "a sentence in English, and the names and descriptions",
				meaning: "The question to the user.",
				read:    text(func(d *definition) *string { return &d.decide.question })},
			{name: "brief", typ: "true or false", example: "true", def: "false",
				meaning: "Asks with a table of names and descriptions, without the instructions, and also counts the words that message and description share. For the smallest models only.",
				read:    put(true, llmagent.DecisionBrief())},
			{name: "schema", typ: "true or false", example: "true", def: "false",
				meaning: "Asks for JSON with a schema of the names: for endpoints without log probabilities.",
				read:    put(true, llmagent.DecisionSchema())},
			{name: "logprobs", typ: "true or false", example: "false", def: "true",
				meaning: "Asks for log probabilities, which give the confidence. Some endpoints refuse; without them the user is never asked.",
				read:    put(false, noLogProbs)},
		}}
}

func decide(p *parser, k *key, n yamldoc.Node) {
	yes, isBool := n.Bool()
	switch {
	case n.Kind() == yamldoc.Mapping:
		p.d.decide = &decideKeys{}
		p.pairs(k.keys, p.name+".", n)
	case !isBool:
		p.wrongType(k, n)
	case yes:
		p.d.decide = &decideKeys{}
	}
}

// decision returns the options of an agent that decides by a question, none for others.
func (l *loader) decision(d *definition) ([]llmagent.Option, error) {
	if d.decide == nil {
		return nil, nil
	}
	var model llm.Model // the agent's own
	if d.decide.model != "" {
		var err error
		if model, err = l.modelOf(d.decide.model); err != nil {
			return nil, err
		}
	}
	var opts []llmagent.DecisionOption
	if d.decide.threshold != nil {
		opts = append(opts, llmagent.DecisionThreshold(*d.decide.threshold))
	}
	if d.decide.question != "" {
		opts = append(opts, llmagent.DecisionQuestion(d.decide.question))
	}
	opts = append(opts, d.decide.form...)
	return []llmagent.Option{llmagent.WithDecision(model, opts...)}, nil
}
