package agentfile

import (
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
)

// decideKeys contains the keys below transfer.decide.
type decideKeys struct {
	model, question string
	threshold       *float64
	form            []llmagent.DecisionOption // how the question is asked
}

// decideKey returns the key of the question that decides which agent answers.
func decideKey(p *parser) yamldoc.Key {
	c := &decideKeys{}
	put := func(name string, when bool, o llmagent.DecisionOption) yamldoc.Key {
		return yamldoc.Switch(name, func(b bool) {
			if b == when {
				c.form = append(c.form, o)
			}
		})
	}
	noLogProbs := llmagent.DecisionSettings(func(s *llm.Settings) { s.TopLogProbs = 0 })
	return yamldoc.Custom("decide", "true or false, or a mapping", "true", func(k *yamldoc.Key, n yamldoc.Node) {
		yes, isBool := n.Bool()
		switch {
		case n.Kind() == yamldoc.Mapping:
			p.d.decide = c
			p.Mapping(k.Keys, p.Name+".", n)
		case !isBool:
			p.WrongType(k, n)
		case yes:
			p.d.decide = c
		}
	}).WithKeys(
		yamldoc.String("model", "qwen3-small", &c.model),
		yamldoc.Float("threshold", "0.6", 0, 1, &c.threshold),
		yamldoc.String("question", `"Is it about money, or about a device?"`, &c.question),
		put("brief", true, llmagent.DecisionBrief()),
		put("schema", true, llmagent.DecisionSchema()),
		put("logprobs", false, noLogProbs))
}

// decision returns the options of an agent that decides by a question, or none.
func (l *modelCache) decision(d *definition) ([]llmagent.Option, error) {
	if d.decide == nil {
		return nil, nil
	}
	var model llm.Model // nil: the agent's own model
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
