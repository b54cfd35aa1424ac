// Package logpage writes events as clients of a server want them: some types of them, long texts and
// media cut off, in pages that begin and end between the writes of a log.
//
// It imports event, session and the faults of package front.
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

// Shape is which events a client wants, and how much of them. The zero value is all of all.
type Shape struct {
	types []string
	omit  bool // the bytes of media
	clip  int  // texts that are longer; 0 is none
	link  func(elements ...string) string
}

// ShapeOf reads a query. The function links to what is below the session, where the rest can be had.
func ShapeOf(query url.Values, link func(elements ...string) string) (s Shape, err error) {
	s.link = link
	if types := query.Get("types"); types != "" {
		s.types = strings.Split(types, ",")
		for _, t := range s.types {
			if event.New(t) == nil && t != event.TypeUnreadable {
				return s, front.BadRequest("types: there is no type of events %.40q", t)
			}
		}
	}
	if media := query.Get("media"); media != "" && media != "omit" {
		return s, front.BadRequest("media may be omit, not %.40q", media)
	}
	s.omit = query.Get("media") == "omit"
	if clip := query.Get("clip"); clip != "" {
		if s.clip, err = strconv.Atoi(clip); err != nil || s.clip < 64 {
			return s, front.BadRequest("clip must be a number of bytes, 64 at least")
		}
	}
	return s, nil
}

// Wants reports whether an event is of a type that is wanted.
func (s Shape) Wants(e *event.Event) bool {
	return s.types == nil || slices.Contains(s.types, e.Type())
}

// Encode returns the JSON of an event. A partial event, which has no place of its own, stays whole.
func (s Shape) Encode(e *event.Event) ([]byte, error) {
	data, err := e.MarshalJSON()
	if err != nil || e.Partial || !s.omit && (s.clip == 0 || len(data) <= s.clip) {
		return data, err
	}
	return s.cut(e, data), nil
}

// cuttable are the members of events whose texts may be long.
var cuttable = [...]string{"content", "sealed", "message", "summary", "reason", "text", "output", "input", "params", "payload", "delta", "metadata"}

// cut goes over the JSON of an event once and replaces what is too long.
func (s Shape) cut(e *event.Event, data []byte) []byte {
	out := make([]byte, 0, len(data))
	var member, name string // the event's, and that of the innermost object
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
			case slices.Contains(cuttable[:], member) && (!inPart || name == "text"):
				text = s.text(e, text)
			}
			out = append(out, text...)
			continue
		}
		out = append(out, data[i])
	}
	return out
}

// rest says where all of something is.
type rest struct {
	Clipped string `json:"clipped,omitempty"`
	Omitted bool   `json:"omitted,omitempty"`
	Bytes   int    `json:"bytes"`
	Href    string `json:"href"`
}

// media returns what stands for the bytes of a part.
func (s Shape) media(e *event.Event, part int, text []byte) []byte {
	if !s.omit && len(text) <= s.clip {
		return text
	}
	n := base64.StdEncoding.DecodedLen(len(text)-2) - bytes.Count(text, []byte("="))
	return event.EncodeJSON(rest{Omitted: true, Bytes: n, Href: s.link("events", strconv.FormatInt(e.Seq, 10), "media", strconv.Itoa(part))})
}

// text returns a JSON string, or what stands for one that is too long.
func (s Shape) text(e *event.Event, text []byte) []byte {
	var whole string
	if s.clip == 0 || len(text)-2 <= s.clip || json.Unmarshal(text, &whole) != nil || len(whole) <= s.clip {
		return text
	}
	end := s.clip
	for !utf8.RuneStart(whole[end]) {
		end--
	}
	return event.EncodeJSON(rest{Clipped: whole[:end], Bytes: len(whole), Href: s.link("events", strconv.FormatInt(e.Seq, 10))})
}
