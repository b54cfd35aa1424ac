package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// TypeUnreadable is the type of an [Unknown] event in place of a stored one whose
// bytes are damaged, or were written by a version that let JSON be nested deeper than
// it can be read. Its payload is a [Damage].
const TypeUnreadable = "unreadable"

// Damage says what is known of a stored event that cannot be read.
type Damage struct {
	// Reason is why, Was the event's type if that is known.
	Reason string `json:"reason"`
	Was    string `json:"was,omitempty"`
	// Text is how the stored bytes begin, Bytes how many there are.
	Text  string `json:"text"`
	Bytes int    `json:"bytes"`
}

// The bounds of what an unreadable event repeats.
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
				_ = json.Unmarshal(value, s) // what is no string is not known
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

// Damage returns what is known of a stored event that cannot be read, and false if the
// event is another one.
func (u *Unknown) Damage() (Damage, bool) {
	if u == nil || u.Type != TypeUnreadable {
		return Damage{}, false
	}
	var d Damage
	_ = json.Unmarshal(u.Raw, &d) // one that somebody else wrote may say nothing
	return d, true
}
