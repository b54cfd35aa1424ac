package agentgraph

import (
	"fmt"
	"maps"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/expression"
	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// maxPublished is the largest JSON form, in bytes, of a growing list or mapping that is written to the log on each
// change. Without this limit the log would grow with the square of the number of changes. The state itself does not
// depend on these events; replay computes it from the outputs in the log.
const maxPublished = 4 << 10

// reduction combines values of the shared state.
type reduction struct {
	reducer Reducer
	// program computes a number from input, the current value, and output, the new one. It is nil for other reducers.
	program *expression.Program
}

// arithmetic contains the reducers of numbers as expressions.
var arithmetic = map[Reducer]string{
	ReduceSum: "input + output",
	ReduceMin: "output < input ? output : input",
	ReduceMax: "output > input ? output : input",
}

// reductions returns the reducers of a graph's state, or nil if it has none. Load and Build refuse unknown reducers.
func reductions(keys []StateKey) map[string]reduction {
	if len(keys) == 0 {
		return nil
	}
	all := make(map[string]reduction, len(keys))
	for _, k := range keys {
		r := reduction{reducer: k.Reducer}
		if source, ok := arithmetic[k.Reducer]; ok {
			r.program, _ = expression.Language{}.Compile(source) // a constant, so it compiles
		}
		all[k.Name] = r
	}
	return all
}

// join returns the value after a write, or for a mapping the pendingMerge that makes it. Values are shared and not
// changed. A list may grow into the spare capacity of its array, which only the newest list uses.
func (r reduction) join(old, written any) (any, error) {
	switch r.reducer {
	case ReduceAppend:
		if written == nil {
			return old, nil
		}
		list, ok := old.([]any)
		if !ok && old != nil {
			return nil, fmt.Errorf("the present value is not a list")
		}
		if more, ok := written.([]any); ok {
			return append(list, more...), nil
		}
		return append(list, written), nil
	case ReduceMerge:
		more, ok := written.(map[string]any)
		switch {
		case written == nil:
			return old, nil
		case !ok:
			return nil, fmt.Errorf("only a mapping can be merged")
		}
		base, ok := old.(map[string]any)
		if !ok && old != nil {
			return nil, fmt.Errorf("the present value is not a mapping")
		}
		return pendingMerge{base, more}, nil
	case ReduceSum, ReduceMin, ReduceMax:
		switch {
		case written == nil:
			return old, nil
		case !isNumber(written):
			return nil, fmt.Errorf("it must be a number for %s", r.reducer)
		case old == nil:
			return written, nil
		}
		v, err := r.program.Value(expression.Env{Output: written, Input: old})
		if err != nil {
			return nil, fmt.Errorf("%s: the result is too large, or no number", r.reducer)
		}
		return v, nil
	}
	return written, nil
}

// pendingMerge is a merge that is delayed until all writes of an update are known to succeed.
type pendingMerge struct{ base, overlay map[string]any }

// make merges overlay into base, which belongs to the state alone. A copy for each write would make many writes
// expensive.
func (g pendingMerge) make() map[string]any {
	if g.base == nil {
		return g.overlay
	}
	for k, v := range g.overlay {
		more, ok := v.(map[string]any)
		base, both := g.base[k].(map[string]any)
		if ok && both {
			pendingMerge{base, more}.make()
			continue
		}
		g.base[k] = v
	}
	return g.base
}

// share initializes the shared state of a run.
func (f *progress) share(keys []StateKey) {
	if len(keys) == 0 {
		return
	}
	f.state = make(map[string]any, len(keys))
	initial := make(map[string]any)
	for _, k := range keys {
		if k.Initial != nil {
			v, _ := expression.Copy(k.Initial) // the value is shared by all runs; a JSON value always copies
			f.state[k.Name], initial[k.Name] = v, v
		}
	}
	f.publish(initial)
}

// update applies a node's writes to the shared state: all of them, or none if one fails. Their expressions see the
// state as it was before.
func (f *flow) update(i int, output *data) {
	n := &f.plan.nodes[i]
	v := values{output, &f.input, f.state}
	after := make(map[string]any, len(n.Update))
	for _, u := range n.Update {
		written, err := v.value(u.Value)
		if err == nil {
			after[u.Key], err = f.reductions[u.Key].join(f.state[u.Key], written)
		}
		if err != nil {
			f.misrouted(i, -1, &valueError{"update of " + u.Key, "the agent " + n.ID, u.Value.Source(), err})
			return
		}
	}
	for key, v := range after {
		if g, ok := v.(pendingMerge); ok {
			after[key] = g.make()
		}
	}
	maps.Copy(f.state, after)
	f.publish(after)
}

// publish writes values of the shared state to the session state, where tools can read them, except for values that
// have grown too large.
func (f *progress) publish(values map[string]any) {
	if len(values) == 0 {
		return
	}
	delta := make(map[string]any, len(values))
	for k, v := range values {
		if f.large[k] {
			continue
		}
		if f.grows(k) && len(event.EncodeJSON(v)) > maxPublished {
			if f.large == nil {
				f.large = make(map[string]bool)
			}
			v, f.large[k] = nil, true
		}
		if m, ok := v.(map[string]any); ok { // a later merge changes the value, but the event must not change
			v = copyConfig(m)
		}
		delta["turn:"+f.plan.name+"."+k] = v
	}
	if len(delta) > 0 {
		f.records = append(f.records, &event.State{Delta: delta})
	}
}

// grows reports whether the value of a key can grow with each write.
func (f *progress) grows(key string) bool {
	r := f.reductions[key].reducer
	return r == ReduceAppend || r == ReduceMerge
}

// test, value and choose evaluate expressions or functions on the values.
func (v *values) test(e *Expression) (bool, error) { return on(v, e, (*expression.Program).Test) }

func (v *values) choose(e *Expression) ([]string, error) {
	return on(v, e, (*expression.Program).Texts)
}

func (v *values) value(e *Expression) (any, error) {
	out, err := on(v, e, (*expression.Program).Value)
	if err != nil || e.call == nil {
		return out, err
	}
	return canonical(out)
}

// on evaluates a program on the values, or calls a function with copies of them.
func on[T any](v *values, e *Expression, program func(*expression.Program, expression.Env) (T, error)) (T, error) {
	if e.call == nil {
		return program(e.program, expression.Env{Output: v.output.decoded(), Input: v.input.decoded(), State: v.state})
	}
	own := Values{Output: decode(v.output.raw), Input: decode(v.input.raw)}
	if v.state != nil {
		own.State, _ = decode(event.EncodeJSON(v.state)).(map[string]any)
	}
	return called[T](e.call, own)
}

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
			About("How a value that is written joins the one that is there; replace by default."),
		yamldoc.Value("initial", &key.Initial).About("The value at the beginning."),
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
