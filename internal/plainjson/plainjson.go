// Package plainjson encodes and decodes JSON so that texts keep their characters and numbers their digits.
package plainjson

import (
	"bytes"
	"encoding/json"
	"io"
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
