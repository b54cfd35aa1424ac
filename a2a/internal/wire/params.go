package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// maxDepth bounds the nesting of a request's values. Protocol Buffers, in which A2A is defined, also allow 100 levels.
const maxDepth = 100

// object is a JSON object with its members in order, including duplicate names. The other values that [parse] returns
// are []any, string, json.Number, bool and nil.
type object []member

type member struct {
	name  string
	value any
}

// checkJSON returns an error unless a body is exactly one JSON document in UTF-8.
func checkJSON(body []byte) error {
	if len(bytes.TrimLeft(body, " \t\r\n")) == 0 {
		return fmt.Errorf("%w: the body is empty; it must be a JSON object", sdk.ErrParseError)
	}
	if !utf8.Valid(body) {
		return fmt.Errorf("%w: the body is not UTF-8", sdk.ErrParseError)
	}
	var syntax *json.SyntaxError
	var raw json.RawMessage
	if err := json.Unmarshal(body, &raw); errors.As(err, &syntax) {
		return fmt.Errorf("%w: the body is not one JSON document: at byte %d: %w", sdk.ErrParseError, syntax.Offset, err)
	} else if err != nil {
		return fmt.Errorf("%w: the body is not one JSON document", sdk.ErrParseError)
	}
	return nil
}

// parse parses a document that has passed checkJSON.
func parse(doc []byte) any {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	return next(d)
}

// next parses the next value. The document is valid, so that no call returns an error.
func next(d *json.Decoder) any {
	token, _ := d.Token()
	switch token {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			list = append(list, next(d))
		}
		_, _ = d.Token()
		return list
	case json.Delim('{'):
		o := object{}
		for d.More() {
			name, _ := d.Token()
			o = append(o, member{name.(string), next(d)})
		}
		_, _ = d.Token()
		return o
	}
	return token
}

// normalize converts a parsed value to JSON that the SDK's types can decode: the fields of a shape under their camelCase
// names, once each, with values of their types. Protocol Buffers allow clients to write fields in snake_case, enums and
// numbers in two forms each, and bytes in two alphabets (ProtoJSON). encoding/json, however, ignores the case of names,
// takes the last of duplicate ones, and reports only the first wrong type. Values that a shape does not restrict
// (metadata, data parts) stay unchanged. Unknown fields are dropped, as A2A 1.0, section 5.7, requires.
func normalize(v any, s *shape) ([]byte, error) {
	fitting, err := new(normalizer).value("", v, s)
	if err != nil {
		return nil, err
	}
	return json.Marshal(fitting)
}

type normalizer struct {
	depth int
	query bool // the values come from a URL, and are all strings
}

// enter counts a level of nesting. It is called before the members of an object or array are converted; the caller
// lowers depth afterwards.
func (f *normalizer) enter(field string) error {
	if f.depth++; f.depth > maxDepth {
		return &violation{field, fmt.Sprintf("values are nested more than %d deep", maxDepth), sdk.ErrInvalidRequest}
	}
	return nil
}

// value converts a value to the form of a shape.
func (f *normalizer) value(field string, v any, s *shape) (any, error) {
	switch v := v.(type) {
	case object:
		switch {
		case s.kind == kindAny, s.kind == kindObject && s.members == nil:
			return f.free(field, v)
		case s.kind == kindObject:
			return f.object(field, v, s)
		}
	case []any:
		switch s.kind {
		case kindAny:
			return f.free(field, v)
		case kindArray:
			return f.each(v, field, func(i int) (any, error) {
				return f.value(field+"["+strconv.Itoa(i)+"]", v[i], s.elem)
			})
		}
	default:
		return f.scalar(field, v, s)
	}
	return nil, s.typeError(field)
}

func (f *normalizer) each(list []any, field string, read func(i int) (any, error)) (any, error) {
	if err := f.enter(field); err != nil {
		return nil, err
	}
	defer func() { f.depth-- }()
	for i := range list {
		var err error
		if list[i], err = read(i); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (f *normalizer) object(field string, o object, s *shape) (any, error) {
	if err := f.enter(field); err != nil {
		return nil, err
	}
	defer func() { f.depth-- }()
	seen := make(map[string]string) // camelCase names and how they were written
	fitting := make(map[string]any)
	count := 0 // number of fields of oneOf
	for _, m := range o {
		known, isKnown := s.field(m.name)
		name := m.name
		if isKnown {
			name = known.name
		}
		at := strings.TrimPrefix(field+"."+clipKey(name), ".")
		if before, twice := seen[name]; twice && before != m.name {
			return nil, &violation{at, fmt.Sprintf("is set twice, as %s and as %s", before, m.name), nil}
		} else if twice {
			return nil, &violation{at, "is set twice", nil}
		}
		seen[name] = m.name
		switch {
		case !isKnown: // unknown fields are checked too
			if _, err := f.free(at, m.value); err != nil {
				return nil, err
			}
			continue
		case m.value == nil && known.shape.kind == kindAny:
			return nil, &violation{at, "must not be null", nil}
		case m.value == nil: // as if the field were missing
			continue
		}
		if slices.Contains(s.oneOf, name) {
			count++
		}
		var err error
		if fitting[name], err = f.value(at, m.value, known.shape); err != nil {
			return nil, err
		}
	}
	if s.oneOf != nil && count != 1 {
		return nil, &violation{field, "must have exactly one of " + strings.Join(s.oneOf, ", "), nil}
	}
	return fitting, nil
}

// free returns a value unchanged. It refuses duplicate names in an object, which parsers treat differently.
func (f *normalizer) free(field string, v any) (any, error) {
	switch v := v.(type) {
	case []any:
		return f.each(v, field, func(i int) (any, error) { return f.free(field, v[i]) })
	case object:
		if err := f.enter(field); err != nil {
			return nil, err
		}
		defer func() { f.depth-- }()
		free := make(map[string]any, len(v))
		for _, m := range v {
			if _, twice := free[m.name]; twice {
				return nil, &violation{field, fmt.Sprintf("the key %q occurs twice in one object", clipKey(m.name)), nil}
			}
			var err error
			if free[m.name], err = f.free(field, m.value); err != nil {
				return nil, err
			}
		}
		return free, nil
	}
	return v, nil
}
