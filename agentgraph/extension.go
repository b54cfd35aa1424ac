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
func (r *reader) extensions(d *draft, node *Node, at string, v []field) {
	loop, when, ask, next, update, timeout, retry, history, change, by := v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[10], v[11]
	if loop.there() {
		node.Loop = r.loop(d, loop, at+".loop")
	}
	if when.there() || ask.there() || by.there() {
		node.Human = r.approval(when, ask, by, at, node.Line)
		if when.there() && d.depth > 1 {
			r.add(CodeYAML, at+".when", when.line(), "in a graph that stands in another one nobody can be asked: ask before the agent in whose place it stands")
		}
	}
	node.Next = r.expression(d, next, at+".next", choice)
	node.Update = r.updates(d, update, at+".update")
	node.Transform = r.expression(d, change, at+".transform", transform)
	if timeout.there() {
		node.Timeout = r.duration(timeout, at+".timeout")
	}
	if retry.there() {
		node.Retry = r.retry(retry, at+".retry")
	}
	if history.there() && (node.Tool != "" || node.ToolsOf != "") {
		r.add(CodeYAML, at+".history", history.line(), "history is for agents with a model: a tool gets its input alone")
	} else if history.there() {
		text, _ := history.value.Text()
		policy, err := view.Parse(text)
		if node.History = &policy; err != nil {
			r.add(CodeYAML, at+".history", history.line(), `history must be "full", "text_only", "own" or "last_turns:N" with N from 1, not %s`, history.value.Describe())
		}
	}
}

// needed reads a mapping that has to be there once its key is.
func (r *valueReader) needed(f field, path string, t *table, found []field) bool {
	if isNull(f.value) {
		r.add(CodeMissingField, path, f.line(), "%s has no value", leaf(path))
		return false
	}
	return r.object(f, path, t, found, nil)
}

// missing reports a key that is not there.
func (r *valueReader) missing(f field, path string, line int) bool {
	if f.there() {
		return false
	}
	r.add(CodeMissingField, path, line, "%s is missing", leaf(path))
	return true
}

func (r *reader) loop(d *draft, f field, path string) *Loop {
	var v [3]field
	if !r.needed(f, path, &loopKeys, v[:]) {
		return nil
	}
	l := &Loop{}
	line := f.key.Line()
	if !r.missing(v[0], path+".until", line) {
		l.Until = r.expression(d, v[0], path+".until", condition)
	}
	if !r.missing(v[1], path+".max", line) {
		l.Max, _ = r.whole(v[1], path+".max", 1, MaxLoop, CodeYAML)
	}
	if v[2].there() {
		word, ok := r.required(v[2], path+".atMax", line, CodeYAML)
		if l.Fail = word == "fail"; ok && !l.Fail && word != "continue" {
			r.add(CodeYAML, path+".atMax", v[2].line(), "atMax must be continue or fail, not %q%s", yamldoc.Short(word), r.didYouMean(word, []string{"continue", "fail"}))
		}
	}
	return l
}

func (r *reader) approval(when, ask, by field, at string, line int) *Approval {
	a := &Approval{}
	if when.there() {
		if word, ok := r.required(when, at+".when", line, CodeYAML); ok && word != "human" {
			r.add(CodeYAML, at+".when", when.line(), "when takes only the word human, not %q: a condition stands on an edge", yamldoc.Short(word))
		}
	} else {
		r.add(CodeMissingField, at+".when", line, "when is missing: ask is the question of when: human, and by says who answers it")
	}
	if ask.there() {
		a.Ask, _ = r.required(ask, at+".ask", line, CodeYAML)
	}
	if by.there() {
		words, n := []string(nil), r.resolve(by.value)
		for i := range n.Len() {
			word, _ := n.Item(i).Text()
			words = append(words, word)
		}
		if word, ok := n.Text(); ok {
			words = []string{word}
		}
		var err error
		if a.By, err = tools.ReadBy(words...); err != nil {
			r.add(CodeYAML, at+".by", by.line(), "by: %v", err)
		}
	}
	return a
}

func (r *reader) updates(d *draft, f field, path string) []Update {
	if !f.there() || isNull(f.value) {
		return nil
	}
	if f.value.Kind() != yamldoc.Mapping {
		r.add(CodeYAML, path, f.line(), "update must be a mapping of keys of the state to expressions, not %s", f.value.Describe())
		return nil
	}
	var all []Update
	r.each(f.value, path, func(name, at string, p yamldoc.Pair) {
		if !d.keys[name] {
			names := d.stateNames()
			hint := r.didYouMean(name, names)
			if len(names) == 0 {
				hint = ": " + d.path("state") + " is where keys are declared, such as " + yamldoc.Short(name) + ": {reducer: replace}"
			}
			r.add(CodeUnknownField, at, p.Key.Line(), "the state has no key %q%s", yamldoc.Short(name), hint)
		}
		if e := r.expression(d, r.field(p), at, transform); e != nil {
			all = append(all, Update{name, e})
		}
	})
	return all
}

func (r *reader) retry(f field, path string) *RetryPolicy {
	var v [2]field
	if !r.needed(f, path, &retryKeys, v[:]) {
		return nil
	}
	p := &RetryPolicy{}
	if !r.missing(v[0], path+".max", f.key.Line()) {
		p.Max, _ = r.whole(v[0], path+".max", 0, math.MaxInt32, CodeBadMaxRetries)
	}
	if v[1].there() {
		p.Backoff = r.duration(v[1], path+".backoff")
	}
	return p
}

// duration reads a time that is there.
func (r *valueReader) duration(f field, path string) time.Duration {
	text, ok := f.value.Text()
	t, err := time.ParseDuration(text)
	switch {
	case !ok || !duration.MatchString(text):
		r.add(CodeYAML, path, f.line(), `%s must be a time with a unit, such as "30s", "1m30s" or "500ms", not %s`, leaf(path), f.value.Describe())
	case err != nil || t <= 0 || t > MaxTimeout:
		r.add(CodeYAML, path, f.line(), "%s is a time above 0 and up to 24h, which %s is not", leaf(path), yamldoc.Short(text))
	default:
		return t
	}
	return 0
}
