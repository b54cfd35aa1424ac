package rows

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Batch is events that are ready to be stored.
type Batch struct {
	// Lines are the events.
	Lines []string
	// State is what they change in the shared state: a name's last value as JSON, or nil if the name is deleted.
	State map[Name]*string
}

// Name is a name of the shared state.
type Name struct {
	Scope string // "user" or "app"
	Name  string
}

// User returns the user of a key if the state is the user's, or "".
func (n Name) User(key session.Key) string {
	if n.Scope == "user" {
		return key.User
	}
	return ""
}

// Encode makes events ready to be stored, which [session.CheckEvents] has allowed.
func Encode(key session.Key, events []*event.Event) (b Batch, err error) {
	b.Lines = make([]string, len(events))
	for i, e := range events {
		if b.Lines[i], err = e.Line(); err != nil {
			return Batch{}, fmt.Errorf("session %s: %w", key, err)
		}
		if st, ok := e.Data.(*event.State); ok {
			if err := b.change(st.Delta); err != nil {
				return Batch{}, fmt.Errorf("session %s: event %s: %w", key, e.ID, err)
			}
		}
	}
	return b, nil
}

func (b *Batch) change(delta map[string]any) error {
	for name, value := range delta {
		scope, _, shared := strings.Cut(name, ":")
		if !shared || scope != "user" && scope != "app" {
			continue
		}
		var encoded *string
		if value != nil {
			text, err := json.Marshal(value)
			if err != nil {
				return fmt.Errorf("state %q: %w", name, err)
			}
			s := string(text)
			encoded = &s
		}
		if b.State == nil {
			b.State = make(map[Name]*string)
		}
		b.State[Name{scope, name}] = encoded
	}
	return nil
}
