package schema

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// maxLevels is the number of levels that encoding/json reads.
const maxLevels = 10_000

// Decode decodes JSON as [plainjson.Strict] does. An error continues a sentence such as "the arguments are".
func Decode(input json.RawMessage) (any, error) {
	doc, err := plainjson.Strict(input, maxLevels)
	switch {
	case errors.Is(err, plainjson.ErrTwice):
		return nil, fmt.Errorf("ambiguous: %w", err)
	case err != nil:
		return nil, fmt.Errorf("not JSON: %v", err)
	}
	return doc, nil
}
