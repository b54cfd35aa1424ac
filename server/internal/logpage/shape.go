// Package logpage encodes events for clients of a server: only some types, with shortened texts and without media if
// the client asks for that, and in pages that begin and end between two writes of a log.
package logpage

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentarbor/arbor/event"
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

// shorten replaces long texts and the bytes of media in the JSON of an event, in one pass.
func (s Shape) shorten(e *event.Event, data []byte) []byte {
	out := make([]byte, 0, len(data))
	var member, name string // the current member of the event, and of the innermost object
	depth, part := 0, 0
	_, user := e.Data.(*event.User)
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth++; depth == 2 {
				part = 0
			}
		case '}', ']':
			depth--
		case ',':
			if depth == 2 {
				part++
			}
		case '"':
			end := i + 1
			for ; data[end] != '"'; end++ {
				if data[end] == '\\' {
					end++
				}
			}
			text := data[i : end+1]
			i = end
			inPart := user && member == "content" && depth == 3
			switch {
			case bytes.TrimLeft(data[end+1:], " \t\r\n")[0] == ':':
				if name = string(text[1 : len(text)-1]); depth == 1 {
					member = name
				}
			case inPart && name == "data":
				text = s.media(e, part, text)
			case slices.Contains(clippable[:], member) && (!inPart || name == "text"):
				text = s.text(e, text)
			}
			out = append(out, text...)
			continue
		}
		out = append(out, data[i])
	}
	return out
}

// shortened replaces a shortened value. Href is the path of the full value, and Bytes its length.
type shortened struct {
	Clipped string `json:"clipped,omitempty"`
	Omitted bool   `json:"omitted,omitempty"`
	Bytes   int    `json:"bytes"`
	Href    string `json:"href"`
}

// media returns the replacement for the bytes of a part.
func (s Shape) media(e *event.Event, part int, text []byte) []byte {
	if !s.omit && len(text) <= s.clip {
		return text
	}
	n := base64.StdEncoding.DecodedLen(len(text)-2) - bytes.Count(text, []byte("="))
	return event.EncodeJSON(shortened{Omitted: true, Bytes: n, Href: s.link("events", strconv.FormatInt(e.Seq, 10), "media", strconv.Itoa(part))})
}

// text returns a JSON string, or the replacement for one that is too long.
func (s Shape) text(e *event.Event, text []byte) []byte {
	var whole string
	if s.clip == 0 || len(text)-2 <= s.clip || json.Unmarshal(text, &whole) != nil || len(whole) <= s.clip {
		return text
	}
	end := s.clip
	for !utf8.RuneStart(whole[end]) {
		end--
	}
	return event.EncodeJSON(shortened{Clipped: whole[:end], Bytes: len(whole), Href: s.link("events", strconv.FormatInt(e.Seq, 10))})
}
