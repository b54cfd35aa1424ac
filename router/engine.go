package router

import (
	"context"
	"fmt"
	"iter"
	"log/slog"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/words"
	"github.com/agentarbor/arbor/llm"
)

// engine decides by rules. It is immutable.
type engine struct {
	name        string
	rules       []compiled
	words       *words.Set // of all rules
	slots       int32
	turns       int // how many turns the rules look at
	classifiers map[Kind]*source
}

// compiled is a rule in an engine.
type compiled struct {
	when    condition
	written string // the matcher
	to      *Target
	reason  string
}

// compiler puts the rules of a router together, and collects what is wrong with them.
type compiler struct {
	words       words.Builder
	slots       int32
	turns, rule int
	classifiers map[Kind]*source
	problems    []string
}

// slot makes a place in which words are noted.
func (c *compiler) slot() int32 { c.slots++; return c.slots - 1 }

func (c *compiler) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf("rule %d: ", c.rule)+fmt.Sprintf(format, args...))
}

func (c *compiler) compile(m Matcher) condition {
	if m == nil {
		c.problem("a matcher is nil")
		return never
	}
	made := m.compile(c)
	if made.why == nil {
		made.why = func(*deciding) string { return m.String() }
	}
	return made
}

// deciding is one decision under way.
type deciding struct {
	engine *engine
	ctx    context.Context
	logger *slog.Logger
	turn   Turn
	text   string // the message in the form that is searched
	before []mood // of the turns before, the oldest first

	hits     []int32 // by slot: the number of the word that was heard
	scanned  bool
	signals  [len(kinds)]signal
	input    map[string]any // what expressions see
	events   []event.Data   // to be recorded before the decision
	generate func(context.Context, llm.Model, *llm.Request) iter.Seq2[llm.Chunk, error]
}

// begin makes a decision about a turn.
func (e *engine) begin(ctx context.Context, turn Turn, before []mood, logger *slog.Logger) *deciding {
	return &deciding{engine: e, ctx: ctx, logger: logger, turn: turn, text: words.Normal(turn.Message), before: before, hits: make([]int32, e.slots)}
}

// match returns the place of the first rule that matches, but of those whose target is
// left out; -1 if none does.
func (d *deciding) match(out func(target string) bool) int {
	for i := range d.engine.rules {
		if r := &d.engine.rules[i]; r.when.possible(d) && !out(r.to.name) && r.when.holds(d) {
			return i
		}
	}
	return -1
}

// possible reports whether the words are there without which the condition cannot hold.
func (c *condition) possible(d *deciding) bool {
	if c.needs == nil {
		return true
	}
	hits := d.heard()
	for _, slot := range c.needs {
		if hits[slot] != 0 {
			return true
		}
	}
	return false
}

// heard returns what was found of the words of all rules, which are searched once.
func (d *deciding) heard() []int32 {
	if !d.scanned {
		d.scanned = true
		d.engine.words.Scan(d.text, d.hits)
	}
	return d.hits
}

func (d *deciding) language() string {
	if is, _ := d.turn.Metadata["language"].(string); is != "" {
		return is
	}
	return d.measure(KindLanguage).top.Label
}

// expressed is what expressions see as input, with the signals that they need.
func (d *deciding) expressed(needs []Kind) map[string]any {
	if d.input == nil {
		d.input = map[string]any{"message": d.turn.Message, "metadata": d.turn.Metadata}
		if d.turn.Metadata == nil {
			d.input["metadata"] = map[string]any{}
		}
	}
	for _, kind := range needs {
		switch kind {
		case KindLanguage:
			d.input["language"] = d.language()
		case KindIntent:
			top := d.measure(kind).top
			d.input["intent"] = map[string]any{"label": top.Label, "confidence": top.Value}
		case KindSentiment:
			values := map[string]any{}
			for _, s := range d.measure(kind).scores {
				values[s.Label] = s.Value
			}
			d.input["sentiment"] = values
		}
	}
	return d.input
}

func (d *deciding) emit(data event.Data) { d.events = append(d.events, data) }

func (d *deciding) notice(code, format string, args ...any) {
	d.emit(&event.Notice{Code: code, Message: fmt.Sprintf(format, args...)})
}
