// Package plainjson encodes and decodes JSON so that texts keep their characters and numbers their digits.
package plainjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Marshal is json.Marshal without HTML escapes.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// Unmarshal is json.Unmarshal, but decodes numbers as json.Number where v does not define their type.
func Unmarshal(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err := dec.Decode(v)
	if _, end := dec.Token(); err == nil && end == io.EOF {
		return nil
	}
	if !json.Valid(data) {
		return json.Unmarshal(data, v) // returns the syntax error
	}
	return err
}

// Member is a member of a JSON object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Members returns the members of a JSON object in their order, also those with the same name. After an error, which says
// why the text is not one object, it returns the members that could be read.
func Members(object []byte) (all []Member, err error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	switch open, err := dec.Token(); {
	case err != nil:
		return nil, err
	case open != json.Delim('{'):
		return nil, errors.New("an object begins with {")
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return all, err
		}
		m := Member{Name: name.(string)}
		if err := dec.Decode(&m.Value); err != nil {
			return all, err
		}
		all = append(all, m)
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return all, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return all, errors.New("more than one JSON value")
	}
	return all, nil
}

// ErrTwice reports an object that contains a key twice. Programs differ in which value they use, so a check could see
// another value than the one that is used.
var ErrTwice = errors.New("one object contains a key twice")

// Strict decodes exactly one JSON value, with numbers as json.Number. It refuses what programs read differently: text
// that is not UTF-8, and objects that contain a key twice ([ErrTwice], with the key), and numbers
// with an exponent of more than three digits, which are infinite or zero to most. It also refuses more than the given
// levels of objects and lists in each other.
func Strict(data []byte, levels int) (v any, err error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the text is not UTF-8")
	}
	if err := Unmarshal(data, &v); err != nil {
		return nil, err
	}
	n, err := keys(v, levels)
	switch {
	case errors.Is(err, errDeep):
		return nil, fmt.Errorf("%w %d deep", err, levels)
	case err != nil:
		return nil, err
	case n != colons(data):
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		key, _ := twice(dec)
		return nil, fmt.Errorf("%w: %.64q", ErrTwice, key)
	}
	return v, nil
}

var errDeep = errors.New("values are nested more than")

// keys counts the keys of all objects in a value, which must not have more levels or huge numbers.
func keys(v any, levels int) (n int, err error) {
	inside := func(inner any) {
		if err == nil {
			var more int
			more, err = keys(inner, levels-1)
			n += more
		}
	}
	switch v := v.(type) {
	case json.Number:
		if _, exponent, _ := strings.Cut(strings.ToLower(v.String()), "e"); len(strings.TrimLeft(exponent, "+-0")) > 3 {
			return 0, fmt.Errorf("the exponent of the number %.64s has more than three digits", v)
		}
	case map[string]any:
		if n = len(v); levels <= 0 {
			return 0, errDeep
		}
		for _, inner := range v {
			inside(inner)
		}
	case []any:
		if levels <= 0 {
			return 0, errDeep
		}
		for _, inner := range v {
			inside(inner)
		}
	}
	return n, err
}

// colons counts the colons in valid JSON outside of strings: there is one per key.
func colons(data []byte) (n int) {
	inText := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '\\':
			i++
		case c == '"':
			inText = !inText
		case c == ':' && !inText:
			n++
		}
	}
	return n
}

// twice reads a value of valid JSON and returns the first key that one of its objects contains twice.
func twice(dec *json.Decoder) (key string, found bool) {
	open, _ := dec.Token()
	if _, ok := open.(json.Delim); !ok {
		return "", false
	}
	seen := make(map[string]bool)
	for dec.More() {
		if open == json.Delim('{') {
			token, _ := dec.Token()
			if key = token.(string); seen[key] {
				return key, true
			}
			seen[key] = true
		}
		if key, found = twice(dec); found {
			return key, true
		}
	}
	_, _ = dec.Token() // its end
	return "", false
}
