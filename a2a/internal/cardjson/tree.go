package cardjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf16"

	"github.com/gowebpki/jcs"

	"github.com/agentarbor/arbor/internal/plainjson"
)

const (
	maxSize  = 4 << 20
	maxDepth = 64
)

// ErrJSON is wrapped by the errors for a document that is not a JSON object, or that parsers might interpret
// differently.
var ErrJSON = errors.New("not an agent card")

// Parse parses a JSON object as [plainjson.Strict] does. It refuses documents of more than 4 MiB or more than 64 levels.
func Parse(doc []byte) (map[string]any, error) {
	if len(doc) > maxSize {
		return nil, fmt.Errorf("%w: the document is larger than %d bytes", ErrJSON, maxSize)
	}
	v, err := plainjson.Strict(doc, maxDepth)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJSON, err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%w: the document is not a JSON object", ErrJSON)
	}
	return m, nil
}

// Canonical returns the canonical form of a tree (RFC 8785). The library encodes only strings and numbers, because its
// time for an object grows with the square of the number of members.
func Canonical(tree map[string]any) ([]byte, error) {
	var b bytes.Buffer
	err := canonical(&b, tree)
	return b.Bytes(), err
}

func canonical(b *bytes.Buffer, v any) error {
	separator := ""
	switch v := v.(type) {
	case map[string]any:
		b.WriteByte('{')
		for _, name := range slices.SortedFunc(maps.Keys(v), compareUTF16) {
			b.WriteString(separator)
			separator = ","
			if err := canonical(b, name); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := canonical(b, v[name]); err != nil {
				return err
			}
		}
		b.WriteByte('}')
		return nil
	case []any:
		b.WriteByte('[')
		for _, element := range v {
			b.WriteString(separator)
			separator = ","
			if err := canonical(b, element); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	}
	alone, err := json.Marshal([]any{v}) // the library accepts no bare scalar
	if err == nil {
		alone, err = jcs.Transform(alone)
	}
	if err != nil {
		return err
	}
	b.Write(alone[1 : len(alone)-1])
	return nil
}

// compareUTF16 compares names in the order of RFC 8785, section 3.2.3.
func compareUTF16(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}
