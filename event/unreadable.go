package event

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// TypeUnreadable is the type of an [Unknown] event that replaces a stored event whose bytes are damaged, or are
// nested too deeply to be read. Its payload is a [Damage].
const TypeUnreadable = "unreadable"

// Damage describes a stored event that cannot be read.
type Damage struct {
	// Reason says why the event cannot be read. Was is the event's type, or "" if it is unknown.
	Reason string `json:"reason"`
	Was    string `json:"was,omitempty"`
	// Text is the beginning of the stored bytes, and Bytes their number.
	Text  string `json:"text"`
	Bytes int    `json:"bytes"`
}

// The maximal sizes of the parts of an unreadable event, in bytes.
const (
	maxDamagedText   = 16 << 10
	maxDamagedReason = 500
)

func unreadable(seq int64, data []byte, why error) *Event {
	e := &Event{Seq: seq}
	d := Damage{Reason: clip(why.Error(), maxDamagedReason), Text: clip(string(data), maxDamagedText), Bytes: len(data)}
	strs := map[string]*string{"id": &e.ID, "turnId": &e.TurnID, "runId": &e.RunID, "scope": &e.Scope, "parentId": &e.ParentID,
		"agent": &e.Agent, "path": &e.Path, "type": &d.Was}
	members, _ := plainjson.Members(data) // as far as they can be read
	for _, m := range members {
		var at time.Time
		if s := strs[m.Name]; s != nil && *s == "" {
			_ = json.Unmarshal(m.Value, s) // a value that is not a string is ignored
		} else if m.Name == "time" && json.Unmarshal(m.Value, &at) == nil && at.UTC().Year() >= 0 && at.UTC().Year() <= 9999 {
			e.Time = at.UTC()
		}
	}
	if e.ID == "" {
		e.ID = fmt.Sprintf("%s-%d", TypeUnreadable, seq)
	}
	e.Data = &Unknown{Type: TypeUnreadable, Raw: EncodeJSON(d)}
	return e
}

func clip(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// Damage returns the description of a stored event that cannot be read. ok is false for any other event.
func (u *Unknown) Damage() (Damage, bool) {
	if u == nil || u.Type != TypeUnreadable {
		return Damage{}, false
	}
	var d Damage
	_ = json.Unmarshal(u.Raw, &d) // the fields may be missing if another program wrote the event
	return d, true
}
