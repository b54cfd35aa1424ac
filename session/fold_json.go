package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/event"
)

// foldForm is the version of a fold's JSON. A change of what Apply keeps, or of what it makes of an event,
// changes the version too, so that folds stored before are rebuilt from their logs.
const foldForm = 4

type foldFields Fold

// MarshalJSON returns everything that Apply needs to continue, except Turn.User, which is the event at Turn.First.
// The error is that of a value without a JSON form.
func (f *Fold) MarshalJSON() ([]byte, error) {
	kept := foldFields(*f)
	kept.Turn.User = nil
	return event.Marshal(struct {
		Form int
		*foldFields
	}{foldForm, &kept})
}

// UnmarshalJSON reads the output of MarshalJSON. After an error, the fold is unchanged.
func (f *Fold) UnmarshalJSON(data []byte) error {
	var read struct {
		Form int
		foldFields
	}
	if err := json.Unmarshal(data, &read); err != nil {
		return fmt.Errorf("session: a fold: %w", err)
	}
	if read.Form != foldForm {
		return errors.New("session: a fold of another version")
	}
	*f = Fold(read.foldFields)
	return nil
}

// Values are values of the state, of JSON's own types; see event.DecodeValue.
type Values map[string]any

// UnmarshalJSON reads an object. Numbers keep their digits.
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

// change sets values and deletes those that are nil. Values of a user or an application are no part of the state.
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
