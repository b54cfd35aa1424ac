package form

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// cursor is what is in such a text.
type cursor struct {
	Updated time.Time `json:"t"`
	ID      string    `json:"i"`
}

// CursorOf writes a place in a list of sessions, for clients to give back.
func CursorOf(p session.Place) string {
	return base64.RawURLEncoding.EncodeToString(event.EncodeJSON(cursor{p.Updated, p.Key.ID}))
}

// PlaceOf reads a place that CursorOf has written, in the list of the user of a key.
func PlaceOf(after string, key session.Key) (session.Place, error) {
	var c cursor
	data, err := base64.RawURLEncoding.DecodeString(after)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if key.ID = c.ID; err != nil || c.Updated.IsZero() || session.CheckKey(key) != nil {
		return session.Place{}, fmt.Errorf("after is no place in the list: use the next of a page: %w", agent.ErrBadInput)
	}
	return session.Place{Updated: c.Updated, Key: key}, nil
}
