package agentfile

import (
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
)

// compactionKeys are the keys below compaction.
type compactionKeys struct {
	window     int
	at, keep   *float64
	summarizer string
	summary    bool // by the agent's own model
}

func compactionKey() key {
	return key{name: "compaction", typ: "a mapping", example: "{window: 128000}", def: "never",
		meaning: "When the model no longer sees [the oldest part of a conversation](views.md#when-a-conversation-outgrows-the-model). The log keeps it.",
		read: func(p *parser, k *key, n yamldoc.Node) {
			p.d.compaction = &compactionKeys{}
			if n.Kind() != yamldoc.Mapping {
				p.wrongType(k, n)
				return
			}
			p.pairs(k.keys, k.name+".", n)
			p.needs(n, k.name, "window")
		},
		keys: []key{
			{name: "window", typ: "a whole number", example: "128000", def: "required",
				meaning: "The model's context window in tokens.",
				read: func(p *parser, k *key, n yamldoc.Node) {
					if v, ok := p.integer(k, n); ok && p.atLeastOne(k, n, v) {
						p.d.compaction.window = int(v)
					}
				}},
			{name: "at", typ: "a number", example: "0.8", def: "0.8",
				meaning: "The share of the window at which a request is too long.",
				read:    number(0.01, 1, func(d *definition) **float64 { return &d.compaction.at })},
			{name: "keep", typ: "a number", example: "0.5", def: "0.5",
				meaning: "The share of the window up to which recent messages stay; less than `at`.",
				read:    number(0.01, 1, func(d *definition) **float64 { return &d.compaction.keep })},
			{name: "summarizer", typ: "a text, or true", example: "gpt-4o-mini", def: "no summary",
				meaning: "The model that summarizes what is left out, or `true` for the agent's own.",
				read: func(p *parser, k *key, n yamldoc.Node) {
					if yes, is := n.Bool(); is && yes {
						p.d.compaction.summary = true
						return
					}
					p.d.compaction.summarizer, _ = p.text(k, n)
				}},
		}}
}

// settings returns the compaction without its model.
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

// checkCompaction reports what would make the agent impossible.
func (l *loader) checkCompaction(r *report, d *definition) {
	c := d.compaction
	if c == nil || c.window == 0 { // which is reported
		return
	}
	if err := c.settings().Check(d.settings.MaxTokens); err != nil {
		r.add(d.file, d.at["compaction"], "%s", err)
	}
	if _, err := l.modelOf(c.summarizer); err != nil && c.summarizer != "" {
		r.add(d.file, d.at["compaction.summarizer"], "the model %q cannot be used: %s", c.summarizer, err)
	}
}

// compactionOf makes the option of an agent that has this key.
func (l *loader) compactionOf(d *definition, own llm.Model) (llmagent.Option, error) {
	made := d.compaction.settings()
	var err error
	if d.compaction.summary {
		made.Summarizer = own
	} else if d.compaction.summarizer != "" {
		made.Summarizer, err = l.modelOf(d.compaction.summarizer)
	}
	return llmagent.WithCompaction(made), err
}
