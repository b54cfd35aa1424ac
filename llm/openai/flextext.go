package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// flexText is a string in any of the forms in which endpoints send it: a string, null, a number, an object with a text,
// or a list of these.
type flexText string

func (t *flexText) UnmarshalJSON(b []byte) error {
	if n := len(b) - 1; n > 1 && b[0] == '"' && string(b[1:n]) == string(*t) && bytes.IndexByte(b, '\\') < 0 {
		return nil // the model's name, which repeats
	}
	s, err := flexible(b, 0)
	*t = flexText(strings.ToValidUTF8(s, "\uFFFD"))
	return err
}

// pieceText is a flexText that may start or end in the middle of a character; see characterJoiner.
type pieceText string

func (t *pieceText) UnmarshalJSON(b []byte) error {
	s, err := flexible(b, 0)
	*t = pieceText(s)
	return err
}

// thoughtText is a pieceText that says true or false where an endpoint only reports whether the model thinks.
type thoughtText string

func (t *thoughtText) UnmarshalJSON(b []byte) error {
	if b[0] == 't' || b[0] == 'f' {
		return nil
	}
	return (*pieceText)(t).UnmarshalJSON(b)
}

// contentField is a text, and the calls and the reasoning among its parts.
type contentField struct {
	pieceText
	calls   callParts
	thought pieceText
}

func (f *contentField) UnmarshalJSON(b []byte) error {
	if b[0] == '[' && (bytes.Contains(b, []byte(`"tool_use"`)) || bytes.Contains(b, []byte(`"thinking"`)) || bytes.Contains(b, []byte(`"reasoning"`))) {
		var parts []json.RawMessage
		_ = json.Unmarshal(b, &parts) // the decoder has checked it
		for _, part := range parts {
			var is struct {
				Type     string    `json:"type"`
				Thinking pieceText `json:"thinking"` // of Mistral
				Summary  pieceText `json:"summary"`  // of Databricks
			}
			if json.Unmarshal(part, &is) != nil {
				continue
			}
			switch is.Type {
			case "tool_use":
				_ = f.calls.UnmarshalJSON(part) // never fails
			case "thinking", "reasoning":
				f.thought += is.Thinking + is.Summary
			}
		}
	}
	return f.pieceText.UnmarshalJSON(b)
}

// unquoted decodes a JSON string. It keeps half a surrogate pair at either end.
func unquoted(b []byte) (string, error) {
	b = b[1 : len(b)-1]
	var head, tail []byte
	if r := escaped(b); r >= 0xdc00 && r < 0xe000 {
		head, b = wtf8(r), b[6:]
	}
	for len(head) < 3 && len(b) > 0 && !utf8.RuneStart(b[0]) {
		head, b = append(head, b[0]), b[1:]
	}
	if n := len(b) - 6; n >= 0 && (n-len(bytes.TrimRight(b[:n], `\`)))%2 == 0 {
		if r := escaped(b[n:]); r >= 0xd800 && r < 0xdc00 {
			tail, b = wtf8(r), b[:n]
		}
	}
	for n := 1; n <= min(3, len(b)); n++ {
		if end := b[len(b)-n:]; utf8.RuneStart(end[0]) && !utf8.FullRune(end) {
			tail, b = end, b[:len(b)-n]
			break
		}
	}
	var s string
	err := json.Unmarshal(slices.Concat([]byte{'"'}, b, []byte{'"'}), &s)
	return string(head) + s + string(tail), err
}

// escaped reads the escape at the beginning of a text; -1 if there is none.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	r, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(r)
}

// wtf8 encodes half a surrogate pair in the way of UTF-8, which does not allow it.
func wtf8(r rune) []byte { return []byte{0xed, 0x80 | byte(r>>6)&0x3f, 0x80 | byte(r)&0x3f} }

func flexible(b []byte, depth int) (string, error) {
	switch {
	case string(b) == "null" || depth > 4: // no endpoint nests text deeper, and each level scans the data once more
		return "", nil
	case b[0] == '"':
		if bytes.IndexByte(b, '\\') < 0 && utf8.Valid(b) {
			return string(b[1 : len(b)-1]), nil
		}
		return unquoted(b)
	case b[0] == '[':
		var list []json.RawMessage
		if err := json.Unmarshal(b, &list); err != nil {
			return "", err
		}
		var all strings.Builder
		for _, e := range list {
			s, err := flexible(e, depth+1)
			if err != nil {
				return "", err
			}
			all.WriteString(s)
		}
		return all.String(), nil
	case b[0] == '{':
		var part struct {
			Type    json.RawMessage `json:"type"`
			Text    json.RawMessage `json:"text"`
			Refusal json.RawMessage `json:"refusal"`
			Value   json.RawMessage `json:"value"`   // of a text of OpenAI's assistants
			Content json.RawMessage `json:"content"` // of gateways
			Msg     json.RawMessage `json:"msg"`     // of a validation error
		}
		if err := json.Unmarshal(b, &part); err != nil {
			return "", err
		}
		thought := slices.Contains([]string{`"reasoning"`, `"thinking"`, `"reasoning_text"`}, string(part.Type))
		if part.Type != nil && string(part.Type) != `"text"` {
			part.Content = nil // of a tool's result
		}
		for _, text := range []json.RawMessage{part.Text, part.Refusal, part.Value, part.Content, part.Msg} {
			if len(text) > 0 && !thought {
				return flexible(text, depth+1)
			}
		}
		return "", nil
	}
	return string(b), nil
}

// arguments of a tool call are a string that contains JSON. Some endpoints send the JSON itself.
type arguments string

func (a *arguments) UnmarshalJSON(b []byte) error {
	switch {
	case string(b) == "null":
		return nil
	case b[0] == '"':
		return (*pieceText)(a).UnmarshalJSON(b)
	}
	*a = arguments(b)
	return nil
}

// callParts are parts of calls. A part that cannot be read is a call without a name that has the part's text as
// arguments, so that it is refused and not lost.
type callParts []callPart

func (l *callParts) UnmarshalJSON(b []byte) error {
	var text string
	switch {
	case !reported(b):
		return nil
	case json.Unmarshal(b, &text) == nil && json.Valid([]byte(text)):
		b = []byte(text) // the list was written as a text
	}
	var list []json.RawMessage
	if json.Unmarshal(b, &list) != nil {
		list = []json.RawMessage{b}
	}
	for _, raw := range list {
		var p callPart
		if json.Unmarshal(raw, &p) != nil {
			p = callPart{Function: functionOut{Arguments: arguments(raw)}}
		}
		*l = append(*l, p)
	}
	return nil
}

// reasonField is a finish reason, which null leaves open. SGLang has written it as the type of an object.
type reasonField struct {
	flexText
	none bool
}

func (f *reasonField) UnmarshalJSON(b []byte) error {
	f.none = string(b) == "null"
	var of struct {
		Type json.RawMessage `json:"type"`
	}
	if json.Unmarshal(b, &of) == nil && of.Type != nil {
		b = of.Type
	}
	return f.flexText.UnmarshalJSON(b)
}
