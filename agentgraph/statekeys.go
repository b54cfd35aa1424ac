package agentgraph

import (
	"slices"

	"github.com/agentarbor/arbor/internal/expression"
	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// identifier is the form of a state key's name, so that state.name is an expression.
var identifier = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// reducers and what their values are; the order is that of messages.
var reducers = []struct {
	name Reducer
	fits func(v any) bool
	what string
}{
	{ReduceReplace, func(any) bool { return true }, ""},
	{ReduceAppend, func(v any) bool { _, ok := v.([]any); return ok }, "a list"},
	{ReduceMerge, func(v any) bool { _, ok := v.(map[string]any); return ok }, "a mapping"},
	{ReduceSum, isNumber, "a number"},
	{ReduceMin, isNumber, "a number"},
	{ReduceMax, isNumber, "a number"},
}

func isNumber(v any) bool {
	switch v.(type) {
	case int, int64, uint64, float64:
		return true
	}
	return false
}

// state reads the keys of a graph's shared state.
func (r *reader) state(d *draft, f field) {
	d.keys = map[string]bool{}
	defer func() { d.state = expression.WithState(d.stateNames()...) }()
	if f.empty() {
		return
	}
	if f.value.Kind() != yamldoc.Mapping {
		r.add(CodeYAML, f.path, f.line(), "state must be a mapping of names to {reducer, initial}, not %s", f.value.Describe())
		return
	}
	r.each(f.value, f.path, func(name, at string, p yamldoc.Pair) {
		line := p.Key.Line()
		d.keys[name] = true
		if !identifier.MatchString(name) {
			r.add(CodeYAML, at, line, "a key of the state must be a name of letters, digits and _, at most 64 of them, not %q", yamldoc.Short(name))
		}
		key := StateKey{Name: name, Reducer: ReduceReplace, Line: line}
		if value := r.field(name, at, p); !value.empty() {
			if v, ok := r.object(value, &stateKeys, nil); ok {
				r.stateKey(&key, v.get("reducer"), v.get("initial"))
			}
		}
		d.graph.State = append(d.graph.State, key)
	})
}

func (d *draft) stateNames() []string {
	names := make([]string, len(d.graph.State))
	for i, k := range d.graph.State {
		names[i] = k.Name
	}
	return names
}

func (r *reader) stateKey(key *StateKey, reducer, initial field) {
	known := 0
	if reducer.there() {
		names := make([]string, len(reducers))
		for i, x := range reducers {
			names[i] = string(x.name)
		}
		word, ok := r.given(reducer, CodeYAML)
		if ok {
			r.oneOf(reducer, CodeYAML, "the reducer", names...)
		}
		known, key.Reducer = slices.Index(names, word), Reducer(word)
	}
	if initial.empty() {
		return
	}
	key.Initial = r.any(initial.value, initial.path)
	if known >= 0 && !reducers[known].fits(key.Initial) {
		r.add(CodeYAML, initial.path, initial.line(), "the initial value for %s must be %s, not %s", key.Reducer, reducers[known].what, initial.value.Describe())
	}
}
