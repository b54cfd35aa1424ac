package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Decode decodes JSON, with numbers as json.Number. An object that contains a key twice is an error: programs differ in
// which value they use, so a check could see another value than the one that is used. An error continues a sentence
// such as "the arguments are".
func Decode(input json.RawMessage) (any, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	if err != nil {
		return nil, fmt.Errorf("not JSON: %v", err)
	}
	if keys(doc) != colons(input) {
		return nil, errors.New("ambiguous: one object contains a key twice")
	}
	return doc, nil
}

// keys counts the keys of all objects in a value.
func keys(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		n = len(v)
		for _, inner := range v {
			n += keys(inner)
		}
	case []any:
		for _, inner := range v {
			n += keys(inner)
		}
	}
	return n
}

// colons counts the colons in valid JSON outside of strings: there is one per key.
func colons(input []byte) (n int) {
	inText := false
	for i := 0; i < len(input); i++ {
		switch c := input[i]; {
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
