package form

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// cursor is the JSON in a cursor of [CursorOf].
type cursor struct {
	Updated time.Time `json:"t"`
	ID      string    `json:"i"`
}

// CursorOf returns a place in a list of sessions as an opaque text for clients.
func CursorOf(p session.Place) string {
	return base64.RawURLEncoding.EncodeToString(event.EncodeJSON(cursor{p.Updated, p.Key.ID}))
}

// ParseCursor returns the place of a cursor in the list of the key's user. ok is false if the cursor is invalid.
func ParseCursor(text string, key session.Key) (place session.Place, ok bool) {
	var c cursor
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	key.ID = c.ID
	return session.Place{Updated: c.Updated, Key: key}, err == nil && !c.Updated.IsZero() && session.CheckKey(key) == nil
}
