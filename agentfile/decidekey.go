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
		meaning: "Begins each run with [a short question](transfer.md#a-question-instead-of-a-call) to a model, which of the agents to which it may transfer answers, or this one. It is for models that do not call tools reliably.",
		read:    decide,
		keys: []key{
			{name: "model", typ: "a text", example: "qwen3-small", def: "the agent's model",
				meaning: "The name of the model that decides.",
				read:    text(func(d *definition) *string { return &d.decide.model })},
			{name: "threshold", typ: "a number", example: "0.6", def: "0.3",
				meaning: "From 0 to 1: the confidence below which the agent asks the user whom they mean. 0 never asks.",
				read:    number(0, 1, func(d *definition) **float64 { return &d.decide.threshold })},
			{name: "question", typ: "a text", example: `"Is it about money, or about a device?"`, def: "a sentence in English, and the names and descriptions",
				meaning: "The words with which the agent asks the user.",
				read:    text(func(d *definition) *string { return &d.decide.question })},
			{name: "brief", typ: "true or false", example: "true", def: "false",
				meaning: "Whether the question is a table of the names and descriptions in code, without this agent's instructions, and the words that a message shares with a description count as well. For the smallest models; larger ones choose better with the instructions.",
				read:    put(true, llmagent.DecisionBrief())},
			{name: "schema", typ: "true or false", example: "true", def: "false",
				meaning: "Whether the answer is JSON, which a schema holds to the names: for endpoints that give no log probabilities.",
				read:    put(true, llmagent.DecisionSchema())},
			{name: "logprobs", typ: "true or false", example: "false", def: "true",
				meaning: "Whether log probabilities are asked for, of which the confidence is made. Some endpoints refuse to give them; without them the user is never asked.",
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
