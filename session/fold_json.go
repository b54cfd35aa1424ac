package session

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/event"
)

// foldForm is the version of a fold's JSON. Increase it if Apply keeps other fields, or computes something else from
// an event. Stored folds of other versions are then computed again from their logs.
const foldForm = 6

type foldFields Fold

// MarshalJSON returns everything that Apply needs to continue, except Turn.User, which is the event at Turn.First. It
// fails if a value of the state has no JSON form.
func (f *Fold) MarshalJSON() ([]byte, error) {
	kept := foldFields(*f)
	kept.Turn.User = nil
	return event.Marshal(struct {
		Form int
		*foldFields
	}{foldForm, &kept})
}

// UnmarshalJSON reads the output of MarshalJSON. It refuses a fold of another version. After an error, the fold is
// unchanged.
func (f *Fold) UnmarshalJSON(data []byte) error {
	var read struct {
		Form int
		foldFields
	}
	if err := json.Unmarshal(data, &read); err != nil {
		return fmt.Errorf("session: read a fold: %w", err)
	}
	if read.Form != foldForm {
		return fmt.Errorf("session: the fold has version %d, and this program reads version %d: compute it again from the log", read.Form, foldForm)
	}
	*f = Fold(read.foldFields)
	return nil
}

// Values maps the keys of the state to values of JSON's types; see [event.DecodeValue].
type Values map[string]any

// UnmarshalJSON reads a JSON object. Numbers keep all digits.
func (v *Values) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil || raw == nil {
		return err
	}
	*v = make(Values, len(raw))
	for key, value := range raw {
		(*v)[key] = event.DecodeValue(value)
	}
	return nil
}

// change sets values, and deletes the keys whose value is nil. It ignores the keys of the user and the app.
func (v *Values) change(delta map[string]any) {
	if *v == nil {
		*v = make(Values)
	}
	for key, value := range delta {
		switch {
		case strings.HasPrefix(key, "user:"), strings.HasPrefix(key, "app:"):
		case value == nil:
			delete(*v, key)
		default:
			(*v)[key] = value
		}
	}
}
