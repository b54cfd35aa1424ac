package agentfile

import (
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
)

// compactionKeys contains the keys below compaction.
type compactionKeys struct {
	llmagent.Compaction
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
		yamldoc.Int("window", "128000", &c.Window),
		yamldoc.Positive("at", "0.8", 1, &c.At),
		yamldoc.Positive("keep", "0.5", 1, &c.Keep),
		yamldoc.Custom("summarizer", "a text, or true", "gpt-4o-mini", func(k *yamldoc.Key, n yamldoc.Node) {
			if c.summary, _ = n.Bool(); !c.summary {
				c.summarizer, _ = p.String(k, n)
			}
		}))
}

// checkCompaction reports settings with which the agent cannot be made.
func (d *definition) checkCompaction(r *report) {
	c := d.compaction
	if c == nil || c.Window == 0 { // already reported
		return
	}
	if err := c.Check(d.settings.MaxTokens); err != nil {
		r.add(d.file, d.at["compaction"], "%s", err)
	}
}

// compactionOf returns the option for an agent with this key.
func (l *modelCache) compactionOf(d *definition, own llm.Model) (llmagent.Option, error) {
	made := d.compaction.Compaction
	var err error
	if d.compaction.summary {
		made.Summarizer = own
	} else if d.compaction.summarizer != "" {
		made.Summarizer, err = l.modelOf(d.compaction.summarizer)
	}
	return llmagent.WithCompaction(made), err
}
