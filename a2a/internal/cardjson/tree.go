package cardjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

const (
	maxSize  = 4 << 20
	maxDepth = 64
)

// ErrJSON is wrapped by the errors of a document that is no JSON object, or one
// that two readers might not understand in the same way.
var ErrJSON = errors.New("no agent card")

// Parse reads a JSON object as a tree of map[string]any, []any, string,
// json.Number, bool and nil. What readers are known to disagree about is
// refused: bytes that are not UTF-8, and names that an object has twice. So are
// documents of more than 4 MiB and of more than 64 levels.
func Parse(doc []byte) (map[string]any, error) {
	if len(doc) > maxSize {
		return nil, fmt.Errorf("%w: the document is larger than %d bytes", ErrJSON, maxSize)
	}
	if !utf8.Valid(doc) {
		return nil, fmt.Errorf("%w: the document is not UTF-8", ErrJSON)
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	v, err := parseValue(d, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJSON, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: something follows the object", ErrJSON)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%w: the document is no JSON object", ErrJSON)
	}
	return m, nil
}

func parseValue(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	open, ok := t.(json.Delim)
	if !ok {
		return t, nil
	}
	if depth++; depth > maxDepth {
		return nil, fmt.Errorf("more than %d levels", maxDepth)
	}
	if open == '[' {
		list := []any{}
		for d.More() {
			v, err := parseValue(d, depth)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	m := make(map[string]any)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name := t.(string) // the decoder takes nothing else here
		if _, twice := m[name]; twice {
			return nil, fmt.Errorf("an object has the name %q twice", name)
		}
		if m[name], err = parseValue(d, depth); err != nil {
			return nil, err
		}
	}
	_, err = d.Token()
	return m, err
}

// Write encodes a tree, with the names of objects in order and without HTML
// escapes.
func Write(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
