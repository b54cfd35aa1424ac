// Package logpage encodes events for clients of a server: only some types, with shortened texts and without media if
// the client asks for that, and in pages that begin and end between two writes of a log.
package logpage

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/server/internal/front"
)

// Shape selects events and their content for a client. The zero value selects every event with its full content.
type Shape struct {
	types []string // nil: all
	omit  bool     // omit the bytes of media
	clip  int      // the maximum length of texts in bytes; 0: no maximum
	link  func(elements ...string) string
}

// ShapeOf returns the shape of a query (types, media, clip). link returns paths below the session, from which clients
// read the full content.
func ShapeOf(query url.Values, link func(elements ...string) string) (s Shape, err error) {
	s.link = link
	if types := query.Get("types"); types != "" {
		s.types = strings.Split(types, ",")
		for _, t := range s.types {
			if event.New(t) == nil && t != event.TypeUnreadable {
				return s, front.BadRequest("types: unknown type of events %.40q", t)
			}
		}
	}
	if media := query.Get("media"); media != "" && media != "omit" {
		return s, front.BadRequest("media must be omit, not %.40q", media)
	}
	s.omit = query.Get("media") == "omit"
	if clip := query.Get("clip"); clip != "" {
		if s.clip, err = strconv.Atoi(clip); err != nil || s.clip < 64 {
			return s, front.BadRequest("clip must be a number of bytes, at least 64")
		}
	}
	return s, nil
}

// Includes reports whether the shape selects the type of an event.
func (s Shape) Includes(e *event.Event) bool {
	return s.types == nil || slices.Contains(s.types, e.Type())
}

// Encode returns the JSON of an event. It does not shorten partial events, because they have no position from which a
// client could read the full content.
func (s Shape) Encode(e *event.Event) ([]byte, error) {
	data, err := e.MarshalJSON()
	if err != nil || e.Partial || !s.omit && (s.clip == 0 || len(data) <= s.clip) {
		return data, err
	}
	return s.shorten(e, data), nil
}

// clippable are the members of events that may contain long texts.
var clippable = [...]string{"content", "sealed", "message", "summary", "reason", "text", "output", "input", "params", "payload", "delta", "metadata"}

// shorten replaces long texts and the bytes of media in the JSON of an event.
func (s Shape) shorten(e *event.Event, data []byte) []byte {
	var members map[string]any
	_ = plainjson.Unmarshal(data, &members) // an event is always an object
	_, user := e.Data.(*event.User)
	for name, v := range members {
		parts, several := v.([]any)
		switch {
		case user && name == "content" && several:
			for i, p := range parts {
				part, _ := p.(map[string]any)
				if bytes, ok := part["data"].(string); ok {
					part["data"] = s.media(e, i, bytes)
				}
				if text, ok := part["text"]; ok {
					part["text"] = s.text(e, text)
				}
			}
		case slices.Contains(clippable[:], name):
			members[name] = s.text(e, v)
		}
	}
	return event.EncodeJSON(members)
}

// shortened replaces a shortened value. Href is the path of the full value, and Bytes its length.
type shortened struct {
	Clipped string `json:"clipped,omitempty"`
	Omitted bool   `json:"omitted,omitempty"`
	Bytes   int    `json:"bytes"`
	Href    string `json:"href"`
}

// media returns the replacement for the bytes of a part.
func (s Shape) media(e *event.Event, part int, text string) any {
	if !s.omit && len(text) <= s.clip {
		return text
	}
	n := base64.StdEncoding.DecodedLen(len(text)) - strings.Count(text, "=")
	return shortened{Omitted: true, Bytes: n, Href: s.link("events", strconv.FormatInt(e.Seq, 10), "media", strconv.Itoa(part))}
}

// text returns a value with replacements for the strings in it that are too long.
func (s Shape) text(e *event.Event, value any) any {
	switch v := value.(type) {
	case string:
		if s.clip > 0 && len(v) > s.clip {
			end := s.clip
			for !utf8.RuneStart(v[end]) {
				end--
			}
			return shortened{Clipped: v[:end], Bytes: len(v), Href: s.link("events", strconv.FormatInt(e.Seq, 10))}
		}
	case []any:
		for i := range v {
			v[i] = s.text(e, v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = s.text(e, v[name])
		}
	}
	return value
}
