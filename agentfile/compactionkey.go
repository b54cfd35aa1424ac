package agentfile

import (
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
)

// compactionKeys contains the keys below compaction.
type compactionKeys struct {
	window     int
	at, keep   *float64
	summarizer string
	summary    bool // summarize with the agent's own model
}

func compactionKey(p *parser) yamldoc.Key {
	c := &compactionKeys{}
	return yamldoc.Custom("compaction", "a mapping", "{window: 128000}", func(k *yamldoc.Key, n yamldoc.Node) {
		p.d.compaction = c
		if n.Kind() != yamldoc.Mapping {
			p.WrongType(k, n)
			return
		}
		p.Mapping(k.Keys, "compaction.", n)
		p.Needs(n, "compaction", "window")
	}).WithKeys(
		yamldoc.Int("window", "128000", &c.window),
		yamldoc.Float("at", "0.8", 0.01, 1, &c.at),
		yamldoc.Float("keep", "0.5", 0.01, 1, &c.keep),
		yamldoc.Custom("summarizer", "a text, or true", "gpt-4o-mini", func(k *yamldoc.Key, n yamldoc.Node) {
			if c.summary, _ = n.Bool(); !c.summary {
				c.summarizer, _ = p.String(k, n)
			}
		}))
}

// settings returns the compaction settings without the model.
func (c *compactionKeys) settings() llmagent.Compaction {
	made := llmagent.Compaction{Window: c.window}
	if c.at != nil {
		made.At = *c.at
	}
	if c.keep != nil {
		made.Keep = *c.keep
	}
	return made
}

// checkCompaction reports settings with which the agent cannot be made.
func (d *definition) checkCompaction(r *report) {
	c := d.compaction
	if c == nil || c.window == 0 { // already reported
		return
	}
	if err := c.settings().Check(d.settings.MaxTokens); err != nil {
		r.add(d.file, d.at["compaction"], "%s", err)
	}
}

// compactionOf returns the option for an agent with this key.
func (l *modelCache) compactionOf(d *definition, own llm.Model) (llmagent.Option, error) {
	made := d.compaction.settings()
	var err error
	if d.compaction.summary {
		made.Summarizer = own
	} else if d.compaction.summarizer != "" {
		made.Summarizer, err = l.modelOf(d.compaction.summarizer)
	}
	return llmagent.WithCompaction(made), err
}
