package agentgraph

import (
	"github.com/agentarbor/arbor/internal/expression"
	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// identifier matches the names of state keys, so that state.name is a valid expression.
var identifier = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// reducerOf is a reducer and the values that it accepts.
type reducerOf struct {
	name Reducer
	fits func(v any) bool
	what string
}

// reducers contains all reducers, in the order of messages.
var reducers = []reducerOf{
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
func (r *reader) state(d *draft, k *yamldoc.Key, n yamldoc.Node) {
	r.Values(k, n, func(name string, p yamldoc.Pair) {
		d.keys[name] = true
		if !identifier.MatchString(name) {
			r.add(CodeYAML, r.Name, p.Key.Line(), "a key of the state must be a name of letters, digits and _, at most 64 of them, not %q", visible.Cut(name, 60))
		}
		key := StateKey{Name: name, Reducer: ReduceReplace, Line: p.Key.Line()}
		if p.Value.Kind() != yamldoc.Nothing {
			r.stateKey(&key, p)
		}
		d.graph.State = append(d.graph.State, key)
	})
	d.state = expression.WithState(d.stateNames()...)
}

func (d *draft) stateNames() []string {
	names := make([]string, len(d.graph.State))
	for i, k := range d.graph.State {
		names[i] = k.Name
	}
	return names
}

func (r *reader) stateKey(key *StateKey, p yamldoc.Pair) {
	if p.Value.Kind() != yamldoc.Mapping { // the key's name may be one that has a problem code
		r.add(CodeYAML, r.Name, p.Value.Line(), "%s must be a mapping, not %s", key.Name, p.Value.Describe())
		return
	}
	found := r.mapping(&stateTable, r.stateKeys(key), r.Name, p.Value, p.Key.Line())
	if initial := found["initial"]; key.Initial != nil && lineOf(found["reducer"]) > 0 {
		for _, known := range reducers {
			if known.name == key.Reducer && !known.fits(key.Initial) {
				r.add(CodeYAML, r.Name+".initial", lineOf(initial), "the initial value for %s must be %s, not %s", key.Reducer, known.what, initial.Value.Describe())
			}
		}
	}
}

func (r *reader) stateKeys(key *StateKey) []yamldoc.Key {
	names := make([]string, len(reducers))
	for i, x := range reducers {
		names[i] = string(x.name)
	}
	return []yamldoc.Key{
		yamldoc.OneOf("reducer", "", func(v string) { key.Reducer = Reducer(v) }, names...).
			WithSchema("How a value that is written joins the one that is there.", `{"enum": ["replace", "append", "merge", "sum", "min", "max"], "default": "replace"}`),
		yamldoc.Value("initial", &key.Initial).WithSchema("The value at the beginning.", "{}"),
	}
}

// updates reads a node's writes to the shared state.
func (r *reader) updates(d *draft, node *Node, k *yamldoc.Key, n yamldoc.Node) {
	r.Values(k, n, func(name string, p yamldoc.Pair) {
		if !d.keys[name] {
			names := d.stateNames()
			hint := r.didYouMean(name, names)
			if len(names) == 0 {
				hint = ": " + d.path("state") + " is where keys are declared, such as " + visible.Cut(name, 60) + ": {reducer: replace}"
			}
			r.add(CodeUnknownField, r.Name, p.Key.Line(), "the state has no key %q%s", visible.Cut(name, 60), hint)
		}
		r.Key = p.Key
		if e := r.expression(d, transform, &yamldoc.Key{Type: "a text"}, p.Value); e != nil {
			node.Update = append(node.Update, Update{name, e})
		}
	})
}
