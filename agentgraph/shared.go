package agentgraph

import (
	"fmt"
	"maps"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/expression"
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
