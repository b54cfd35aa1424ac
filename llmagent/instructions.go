package llmagent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/lazyregexp"
)

// WithStateInInstructions inserts values of the session's state into the instructions given
// to [New]: it replaces {name} by the value of the key name, a text as it is and anything else as
// JSON. With keys it replaces only those, without keys all names in braces that a key can
// have, such as {user:plan}. A key without a value ends the run with a [*StateError],
// unless a question mark follows its name: {name?} is empty then. {{name}} becomes {name}.
//
// Only the instructions are read in this way: not the messages of users, not global
// instructions, and not the values, in which braces have no meaning. The model reads a value as
// part of the instructions, so a key that contains text of a user lets the user
// instruct the model.
func WithStateInInstructions(keys ...string) Option {
	return func(a *Agent) { a.inPrompt = &stateKeys{keys} }
}

// StateError ends a run whose instructions name a key of the state that has no value.
type StateError struct{ Key string }

func (e *StateError) Error() string {
	return fmt.Sprintf("the state has no value for %q, which the instructions name: set one, as with runner.WithState, or write {%s?} if there need not be one", e.Key, e.Key)
}

var placeholder = lazyregexp.New(`\{+[A-Za-z_][A-Za-z0-9_.:-]*\??\}+`)

// stateKeys are the keys of the state that instructions may name; empty allows all keys.
type stateKeys struct{ only []string }

// check returns an error for each key that the instructions do not name.
func (s *stateKeys) check(prompt string) (errs []error) {
	found := placeholder.Get().FindAllString(prompt, -1)
	for _, key := range s.only {
		if !slices.Contains(found, "{"+key+"}") && !slices.Contains(found, "{"+key+"?}") {
			errs = append(errs, fmt.Errorf("the instructions do not hold {%s}, the key of the state that an option names", key))
		}
	}
	return errs
}

// fill replaces the keys in the instructions by their values.
func (s *stateKeys) fill(prompt string, state func(key string) (any, bool)) (string, error) {
	var missing error
	text := placeholder.Get().ReplaceAllStringFunc(prompt, func(found string) string {
		key, literal, ok := s.parse(found)
		key, optional := strings.CutSuffix(key, "?")
		switch {
		case !ok:
			return found
		case literal:
			return found[1 : len(found)-1]
		}
		switch v, _ := state(key); v := v.(type) {
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

// parse returns the text between the braces, whether they are doubled, and whether the
// key is to be replaced.
func (s *stateKeys) parse(found string) (key string, literal, ok bool) {
	key = strings.Trim(found, "{}")
	braces := strings.Index(found, key)
	literal = braces == 2
	ok = len(found) == len(key)+2*braces && braces <= 2 &&
		(len(s.only) == 0 || slices.Contains(s.only, strings.TrimSuffix(key, "?")))
	return key, literal, ok
}
