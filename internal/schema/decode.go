package schema

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// Decode decodes JSON as [plainjson.Strict] does. An error continues a sentence such as "the arguments are".
func Decode(input json.RawMessage) (any, error) {
	doc, err := plainjson.Strict(input, 10_000) // as many levels as encoding/json reads
	switch {
	case errors.Is(err, plainjson.ErrTwice):
		return nil, fmt.Errorf("ambiguous: %w", err)
	case err != nil:
		return nil, fmt.Errorf("not JSON: %v", err)
	}
	return doc, nil
}
