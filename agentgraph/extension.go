package agentgraph

import (
	"math"
	"time"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// MaxTimeout is the longest time that a file can give, for a call or between calls.
const MaxTimeout = 24 * time.Hour

// duration is the form of time.ParseDuration without a sign.
var duration = lazyregexp.New(`^(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)

// extensions reads what arbor/v1 adds to an agent, but for graph.
func (r *reader) extensions(d *draft, node *Node, v fields) {
	node.Loop = r.loop(d, v.get("loop"))
	node.Human = r.approval(d, v)
	node.Next = r.expression(d, v.get("next"), choice)
	node.Update = r.updates(d, v.get("update"))
	node.Transform = r.expression(d, v.get("transform"), transform)
	node.Timeout = r.duration(v.get("timeout"))
	node.Retry = r.retry(v.get("retry"))
	history := v.get("history")
	if history.there() && (node.Tool != "" || node.ToolsOf != "") {
		r.add(CodeYAML, history.path, history.line(), "history is for agents with a model: a tool gets its input alone")
	} else if history.there() {
		text, _ := history.value.Text()
		policy, err := view.Parse(text)
		if node.History = &policy; err != nil {
			r.add(CodeYAML, history.path, history.line(), `history must be "full", "text_only", "own" or "last_turns:N" with N from 1, not %s`, history.value.Describe())
		}
	}
}

// needed reads a mapping that has a value if its key is there.
func (r *valueReader) needed(f field, t *table) (fields, bool) {
	if !f.empty() {
		return r.object(f, t, nil)
	}
	if f.there() {
		r.add(CodeMissingField, f.path, f.line(), "%s has no value", leaf(f.path))
	}
	return fields{}, false
}

func (r *reader) loop(d *draft, f field) *Loop {
	v, ok := r.needed(f, &loopKeys)
	if !ok {
		return nil
	}
	l := &Loop{}
	if until := v.get("until"); !r.missing(until) {
		l.Until = r.expression(d, until, condition)
	}
	if most := v.get("max"); !r.missing(most) {
		l.Max, _ = r.whole(most, 1, MaxLoop, CodeYAML)
	}
	atMax := v.get("atMax")
	if word, ok := r.given(atMax, CodeYAML); ok {
		l.Fail = word == "fail"
		r.oneOf(atMax, CodeYAML, "atMax", "continue", "fail")
	}
	return l
}

func (r *reader) approval(d *draft, v fields) *Approval {
	when, ask, by := v.get("when"), v.get("ask"), v.get("by")
	if !when.there() && !ask.there() && !by.there() {
		return nil
	}
	a := &Approval{}
	if when.there() {
		if word, ok := r.required(when, CodeYAML); ok && word != "human" {
			r.add(CodeYAML, when.path, when.line(), "when takes only the word human, not %q: a condition stands on an edge", yamldoc.Short(word))
		}
		if d.depth > 1 {
			r.add(CodeYAML, when.path, when.line(), "in a graph that stands in another one nobody can be asked: ask before the agent in whose place it stands")
		}
	} else {
		r.add(CodeMissingField, when.path, when.above, "when is missing: ask is the question of when: human, and by says who answers it")
	}
	a.Ask, _ = r.given(ask, CodeYAML)
	if by.there() {
		words, n := []string(nil), by.value
		for i := range n.Len() {
			word, _ := n.Item(i).Text()
			words = append(words, word)
		}
		if word, ok := n.Text(); ok {
			words = []string{word}
		}
		var err error
		if a.By, err = tools.ReadBy(words...); err != nil {
			r.add(CodeYAML, by.path, by.line(), "by: %v", err)
		}
	}
	return a
}

func (r *reader) updates(d *draft, f field) (all []Update) {
	if f.empty() {
		return nil
	}
	if f.value.Kind() != yamldoc.Mapping {
		r.add(CodeYAML, f.path, f.line(), "update must be a mapping of keys of the state to expressions, not %s", f.value.Describe())
		return nil
	}
	r.each(f.value, f.path, func(name, at string, p yamldoc.Pair) {
		if !d.keys[name] {
			names := d.stateNames()
			hint := r.didYouMean(name, names)
			if len(names) == 0 {
				hint = ": " + d.path("state") + " is where keys are declared, such as " + yamldoc.Short(name) + ": {reducer: replace}"
			}
			r.add(CodeUnknownField, at, p.Key.Line(), "the state has no key %q%s", yamldoc.Short(name), hint)
		}
		if e := r.expression(d, r.field(name, at, p), transform); e != nil {
			all = append(all, Update{name, e})
		}
	})
	return all
}

func (r *reader) retry(f field) *RetryPolicy {
	v, ok := r.needed(f, &retryKeys)
	if !ok {
		return nil
	}
	p := &RetryPolicy{Backoff: r.duration(v.get("backoff"))}
	if most := v.get("max"); !r.missing(most) {
		p.Max, _ = r.whole(most, 0, math.MaxInt32, CodeBadMaxRetries)
	}
	return p
}

// duration reads a duration, or returns 0 without one.
func (r *valueReader) duration(f field) time.Duration {
	text, ok := f.value.Text()
	t, err := time.ParseDuration(text)
	switch {
	case !f.there():
	case !ok || !duration.MatchString(text):
		r.add(CodeYAML, f.path, f.line(), `%s must be a time with a unit, such as "30s", "1m30s" or "500ms", not %s`, leaf(f.path), f.value.Describe())
	case err != nil || t <= 0 || t > MaxTimeout:
		r.add(CodeYAML, f.path, f.line(), "%s is a time above 0 and up to 24h, which %s is not", leaf(f.path), yamldoc.Short(text))
	default:
		return t
	}
	return 0
}
