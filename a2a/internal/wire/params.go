package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// maxDepth bounds the nesting of a request's values. Protocol Buffers, in which A2A is defined, also allow 100 levels.
const maxDepth = 100

// parse parses the body of a request, as [plainjson.Strict] does.
func parse(body []byte) (any, error) {
	if len(bytes.TrimLeft(body, " \t\r\n")) == 0 {
		return nil, fmt.Errorf("%w: the body is empty; it must be a JSON object", sdk.ErrParseError)
	}
	v, err := plainjson.Strict(body, maxDepth)
	if err != nil {
		return nil, fmt.Errorf("%w: the body cannot be read: %w", sdk.ErrParseError, err)
	}
	return v, nil
}

// normalize converts a parsed value to JSON that the SDK's types can decode: the fields of a shape under their camelCase
// names, once each, with values of their types. Protocol Buffers allow clients to write fields in snake_case, enums and
// numbers in two forms each, and bytes in two alphabets (ProtoJSON). encoding/json, however, ignores the case of names
// and reports only the first wrong type. Values that a shape does not restrict (metadata, data parts) stay unchanged.
// Unknown fields are dropped, as A2A 1.0, section 5.7, requires.
func normalize(v any, s *shape) ([]byte, error) {
	fitting, err := normalizer{}.value("", v, s)
	if err != nil {
		return nil, err
	}
	return json.Marshal(fitting)
}

type normalizer struct {
	query bool // the values come from a URL, and are all strings
}

// value converts a value to the form of a shape.
func (f normalizer) value(field string, v any, s *shape) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		switch {
		case s.kind == kindAny, s.kind == kindObject && s.members == nil:
			return v, nil
		case s.kind == kindObject:
			return f.object(field, v, s)
		}
	case []any:
		switch s.kind {
		case kindAny:
			return v, nil
		case kindArray:
			for i := range v {
				var err error
				if v[i], err = f.value(field+"["+strconv.Itoa(i)+"]", v[i], s.elem); err != nil {
					return nil, err
				}
			}
			return v, nil
		}
	default:
		return f.scalar(field, v, s)
	}
	return nil, s.typeError(field)
}

func (f normalizer) object(field string, o map[string]any, s *shape) (any, error) {
	fitting := make(map[string]any)
	count := 0                                            // number of fields of oneOf
	for _, written := range slices.Sorted(maps.Keys(o)) { // the same mistake is reported each time
		v := o[written]
		known, isKnown := s.field(written)
		if !isKnown {
			continue
		}
		name := known.name
		at := strings.TrimPrefix(field+"."+name, ".")
		if _, twice := o[name]; twice && written != name {
			return nil, &violation{at, fmt.Sprintf("is set twice, as %s and as %s", name, written), nil}
		}
		switch {
		case v == nil && known.shape.kind == kindAny:
			return nil, &violation{at, "must not be null", nil}
		case v == nil: // as if the field were missing
			continue
		}
		if slices.Contains(s.oneOf, name) {
			count++
		}
		var err error
		if fitting[name], err = f.value(at, v, known.shape); err != nil {
			return nil, err
		}
	}
	if s.oneOf != nil && count != 1 {
		return nil, &violation{field, "must have exactly one of " + strings.Join(s.oneOf, ", "), nil}
	}
	return fitting, nil
}
