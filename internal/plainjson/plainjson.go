// Package plainjson encodes and decodes JSON so that texts keep their characters and numbers their digits.
package plainjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// ErrTwice reports an object that contains a key twice. Programs differ in which value they use, so a check could see
// another value than the one that is used.
var ErrTwice = errors.New("one object contains a key twice")

// Strict decodes exactly one JSON value, with numbers as json.Number. It refuses what programs read differently: text
// that is not UTF-8, and objects that contain a key twice ([ErrTwice], with the key). It also refuses more than
// the given levels of objects and lists in each other.
func Strict(data []byte, levels int) (v any, err error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the text is not UTF-8")
	}
	if err := Unmarshal(data, &v); err != nil {
		return nil, err
	}
	n, ok := keys(v, levels)
	switch {
	case !ok:
		return nil, fmt.Errorf("values are nested more than %d deep", levels)
	case n != colons(data):
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		key, _ := twice(dec)
		return nil, fmt.Errorf("%w: %.64q", ErrTwice, key)
	}
	return v, nil
}

// keys counts the keys of all objects in a value, which must not have more levels.
func keys(v any, levels int) (n int, ok bool) {
	ok = true
	inside := func(inner any) {
		if more, fits := keys(inner, levels-1); ok {
			n, ok = n+more, fits
		}
	}
	switch v := v.(type) {
	case map[string]any:
		n, ok = len(v), levels > 0
		for _, inner := range v {
			if ok {
				inside(inner)
			}
		}
	case []any:
		ok = levels > 0
		for _, inner := range v {
			if ok {
				inside(inner)
			}
		}
	}
	return n, ok
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
