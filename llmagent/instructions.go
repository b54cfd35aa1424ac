package llmagent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/lazyregexp"
)

// WithStateInInstructions puts values of the session's state into the instructions given
// to [New]: {name} becomes the value of the key name, a text as it is and anything else as
// JSON. With keys only those are replaced, without any all names in braces that a key can
// have, such as {user:plan}. A key without a value ends the run with a [*StateError],
// unless a question mark follows its name: {name?} is empty then. {{name}} stays as {name}.
//
// Only the instructions are read in this way: not what users say, not global
// instructions, and not the values, in which braces have no meaning. A value is read as
// part of the instructions all the same, so a key that holds words of a user lets the user
// instruct the model.
func WithStateInInstructions(keys ...string) Option {
	return func(a *Agent) { a.stateKeys, a.withState = keys, true }
}

// StateError ends a run whose instructions name a key of the state that has no value.
type StateError struct{ Key string }

func (e *StateError) Error() string {
	return fmt.Sprintf("the state has no value for %q, which the instructions name: set one, as with runner.WithState, or write {%s?} if there need not be one", e.Key, e.Key)
}

var placeholder = lazyregexp.New(`\{+[A-Za-z_][A-Za-z0-9_.:-]*\??\}+`)

// fill replaces the names in the agent's instructions.
func (a *Agent) fill(inv *agent.Invocation) (string, error) {
	var missing error
	text := placeholder.Get().ReplaceAllStringFunc(a.prompt, func(found string) string {
		key, literal, ok := a.stateKey(found)
		key, optional := strings.CutSuffix(key, "?")
		switch {
		case !ok:
			return found
		case literal:
			return found[1 : len(found)-1]
		}
		switch v, _ := inv.Session().State(key); v := v.(type) {
		case string:
			return v
		case nil:
			if !optional && missing == nil {
				missing = &StateError{key}
			}
			return ""
		default:
			return string(event.EncodeJSON(v))
		}
	})
	return text, missing
}

// stateKey returns what is between the braces, whether they are doubled, and whether the
// name is one to be replaced.
func (a *Agent) stateKey(found string) (key string, literal, ok bool) {
	key = strings.Trim(found, "{}")
	braces := strings.Index(found, key)
	literal = braces == 2
	ok = len(found) == len(key)+2*braces && braces <= 2 &&
		(len(a.stateKeys) == 0 || slices.Contains(a.stateKeys, strings.TrimSuffix(key, "?")))
	return key, literal, ok
}

// useState makes the instructions those with the state in them, and returns the keys
// that do not stand there.
func (a *Agent) useState() (errs []error) {
	found := placeholder.Get().FindAllString(a.prompt, -1)
	for _, key := range a.stateKeys {
		if !slices.Contains(found, "{"+key+"}") && !slices.Contains(found, "{"+key+"?}") {
			errs = append(errs, fmt.Errorf("the instructions do not hold {%s}, the key of the state that an option names", key))
		}
	}
	a.instructions = func(_ context.Context, inv *agent.Invocation) (string, error) { return a.fill(inv) }
	return errs
}
