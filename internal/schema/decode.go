package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Decode reads the JSON of arguments, with numbers as json.Number. An object that holds a key twice
// is an error: programs differ in which of the values they take, and whoever looks at a value
// must see the one that is used.
func Decode(input json.RawMessage) (any, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	if err != nil {
		return nil, fmt.Errorf("the arguments are not JSON: %v", err)
	}
	if keys(doc) != colons(input) {
		return nil, errors.New("the arguments hold a key twice in one object")
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

// colons counts the colons in valid JSON that are not in texts: there is one for each key.
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
