package agentgraph

import (
	"fmt"
	"maps"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/expression"
)

// maxPublished is the largest JSON form in bytes of a list or a mapping that grows and is
// written to the log on each change: a larger one would make the log grow with the square
// of the number of changes. The state itself needs none of these events, because it
// follows from the outputs in the log.
const maxPublished = 4 << 10

// reduction joins values of the shared state.
type reduction struct {
	reducer Reducer
	// program gives the value of input, which is there, and output, which is new; for
	// numbers only.
	program *expression.Program
}

// arithmetic are the reducers of numbers.
var arithmetic = map[Reducer]string{
	ReduceSum: "input + output",
	ReduceMin: "output < input ? output : input",
	ReduceMax: "output > input ? output : input",
}

// reductions are those of a graph's state, nil without any. What Load returns has no
// reducers but those that it knows.
func reductions(keys []StateKey) map[string]reduction {
	if len(keys) == 0 {
		return nil
	}
	all := make(map[string]reduction, len(keys))
	for _, k := range keys {
		r := reduction{reducer: k.Reducer}
		if source, ok := arithmetic[k.Reducer]; ok {
			r.program, _ = expression.Compile(source) // a constant
		}
		all[k.Name] = r
	}
	return all
}

// join returns the value after a write, or for a mapping the graft that makes it.
// Values are shared and not changed, but for the room after the end of a list, which
// only the newest list has.
func (r reduction) join(old, written any) (any, error) {
	switch r.reducer {
	case ReduceAppend:
		if written == nil {
			return old, nil
		}
		list, ok := old.([]any)
		if !ok && old != nil {
			return nil, fmt.Errorf("what is there is no list")
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
			return nil, fmt.Errorf("it must be a mapping to be merged")
		}
		there, ok := old.(map[string]any)
		if !ok && old != nil {
			return nil, fmt.Errorf("what is there is no mapping")
		}
		return graft{there, more}, nil
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

// graft is a merge that is to be made once it is known that all writes of an update are.
type graft struct{ there, more map[string]any }

// make merges into the mapping that is there, which belongs to the state alone: a new
// one for each write would make many writes expensive.
func (g graft) make() map[string]any {
	if g.there == nil {
		return g.more
	}
	for k, v := range g.more {
		more, ok := v.(map[string]any)
		there, both := g.there[k].(map[string]any)
		if ok && both {
			graft{there, more}.make()
			continue
		}
		g.there[k] = v
	}
	return g.there
}

// share begins the shared state of a run.
func (f *progress) share(keys []StateKey) {
	if len(keys) == 0 {
		return
	}
	f.state = make(map[string]any, len(keys))
	initial := make(map[string]any)
	for _, k := range keys {
		if k.Initial != nil {
			v, _ := expression.Copy(k.Initial) // which all runs share, and which is a value of JSON
			f.state[k.Name], initial[k.Name] = v, v
		}
	}
	f.publish(initial)
}

// update makes a node's writes to the shared state: all of them, or if one has an error
// none. Their expressions see the state as it was before.
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
			f.misrouted(i, -1, &nodeError{n.ID, "update of " + u.Key, u.Value.Source(), err})
			return
		}
	}
	for key, v := range after {
		if g, ok := v.(graft); ok {
			after[key] = g.make()
		}
	}
	maps.Copy(f.state, after)
	f.publish(after)
}

// publish puts values of the shared state into the session's, where tools can see them,
// but for those that have grown large.
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
		if m, ok := v.(map[string]any); ok { // it may be merged into, and the event may not change
			v = copyConfig(m)
		}
		delta["turn:"+f.plan.name+"."+k] = v
	}
	if len(delta) > 0 {
		f.records = append(f.records, &event.State{Delta: delta})
	}
}

// grows reports whether a key can hold more than one write has written.
func (f *progress) grows(key string) bool {
	r := f.reductions[key].reducer
	return r == ReduceAppend || r == ReduceMerge
}

// test, value and choose evaluate expressions, or functions, on the values.
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

// on evaluates a program on the values, or calls a function with values of its own.
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
