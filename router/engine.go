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
	rules       []compiledRule
	words       *words.Set // of all rules
	slots       int32
	turns       int // the number of turns that a rule about a sentiment needs
	classifiers map[Kind]*source
}

// compiledRule is a rule in an engine.
type compiledRule struct {
	when    condition
	written string // the text of the matcher
	to      *Target
	reason  string
}

// compiler compiles the rules of a router and collects their problems.
type compiler struct {
	words       words.Builder
	slots       int32
	turns, rule int
	classifiers map[Kind]*source
	problems    []string
}

// slot returns the index of a new element of deciding.hits.
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

// deciding is the state of one decision.
type deciding struct {
	engine *engine
	ctx    context.Context
	logger *slog.Logger
	turn   Turn
	text   string // the message, normalized for the search
	before []mood // of earlier turns, the oldest first

	hits     []int32 // by slot: the number of the word that the message contains, 0 for none
	scanned  bool
	signals  [len(kinds)]signal
	input    map[string]any // the value input of expressions
	events   []event.Data   // the router yields them before its decision
	generate func(context.Context, llm.Model, *llm.Request) iter.Seq2[llm.Chunk, error]
}

// begin returns the state of a new decision about a turn.
func (e *engine) begin(ctx context.Context, turn Turn, before []mood, logger *slog.Logger) *deciding {
	return &deciding{engine: e, ctx: ctx, logger: logger, turn: turn, text: words.Normal(turn.Message), before: before, hits: make([]int32, e.slots)}
}

// match returns the index of the first rule that matches and whose target can answer, or -1.
func (d *deciding) match(out func(target string) bool) int {
	for i := range d.engine.rules {
		if r := &d.engine.rules[i]; r.when.possible(d) && !out(r.to.name) && r.when.holds(d) {
			return i
		}
	}
	return -1
}

// possible reports whether the message has one of the words that the condition needs.
func (c *condition) possible(d *deciding) bool {
	if c.needs == nil {
		return true
	}
	hits := d.search()
	for _, slot := range c.needs {
		if hits[slot] != 0 {
			return true
		}
	}
	return false
}

// search returns hits, after it has searched the message once for the words of all rules.
func (d *deciding) search() []int32 {
	if !d.scanned {
		d.scanned = true
		d.engine.words.Scan(d.text, d.hits)
	}
	return d.hits
}

// language returns the language of the message as a BCP 47 tag, or "" if it is not known.
func (d *deciding) language() string {
	if is, _ := d.turn.Metadata["language"].(string); is != "" {
		return is
	}
	return d.measure(KindLanguage).top.Label
}

// inputKeys are the keys of the value input of an expression.
var inputKeys = []string{"message", "metadata", string(KindLanguage), string(KindIntent), string(KindSentiment)}

// inputOf returns the value input of an expression, with the signals that it needs.
func (d *deciding) inputOf(needs []Kind) map[string]any {
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

// emit adds data to the events that the router yields before its decision.
func (d *deciding) emit(data event.Data) { d.events = append(d.events, data) }

func (d *deciding) notice(code, format string, args ...any) {
	d.emit(&event.Notice{Code: code, Message: fmt.Sprintf(format, args...)})
}
