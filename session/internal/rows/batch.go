package rows

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Batch contains events in the form in which they are stored.
type Batch struct {
	// Lines are the encoded events.
	Lines []string
	// State is the change of the shared state: a name's new value as JSON, or nil if the name is deleted.
	State map[Name]*string
}

// Name is a key of the shared state, including its prefix, and the scope that the prefix stands for.
type Name struct {
	Scope string // "user" or "app"
	Name  string
}

// User returns the user of the session key if the state is the user's, and "" if it is the app's.
func (n Name) User(key session.Key) string {
	if n.Scope == "user" {
		return key.User
	}
	return ""
}

// Encode encodes events. The caller has checked them with [session.CheckEvents].
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
