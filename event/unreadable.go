package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
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
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if t, err := dec.Token(); err == nil && t == json.Delim('{') {
		for dec.More() {
			name, err := dec.Token()
			if err != nil {
				break
			}
			var value json.RawMessage
			if dec.Decode(&value) != nil {
				break
			}
			key, _ := name.(string)
			var at time.Time
			if s := strs[key]; s != nil && *s == "" {
				_ = json.Unmarshal(value, s) // a value that is not a string is ignored
			} else if key == "time" && json.Unmarshal(value, &at) == nil && at.UTC().Year() >= 0 && at.UTC().Year() <= 9999 {
				e.Time = at.UTC()
			}
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
