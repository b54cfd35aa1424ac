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

// maxDepth bounds how deep the values of a request are nested. Protocol Buffers, in which
// A2A is defined, stop at 100 too.
const maxDepth = 100

// object is a JSON object with its members in their order, also those whose name occurs twice.
// The other values that [parse] returns are []any, string, json.Number, bool and nil.
type object []member

type member struct {
	name  string
	value any
}

// checkJSON returns an error unless a body is one JSON document in UTF-8 and nothing else.
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

// parse reads a document that has passed checkJSON.
func parse(doc []byte) any {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	return next(d)
}

// next reads the next value. The document is valid, so that no call returns an error.
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

// fit returns a parsed value as JSON that the SDK's types read: the fields of a shape under their
// camelCase names, once each, with values of their types. Protocol Buffers let clients write fields
// in snake_case, enums and numbers in two forms each and bytes in two alphabets (ProtoJSON), while
// encoding/json takes names in any case, the last of several, and reports only the first wrong type.
// Values that a shape leaves free (metadata, data parts) stay as they are. Unknown fields are
// dropped, as A2A 1.0, section 5.7, asks.
func fit(v any, s *shape) ([]byte, error) {
	fitting, err := new(fitter).value("", v, s)
	if err != nil {
		return nil, err
	}
	return json.Marshal(fitting)
}

type fitter struct {
	depth int
	query bool // the values come from a URL, where all are strings
}

// enter is called before the members of an object or array are read, and depth is lowered after them.
func (f *fitter) enter(field string) error {
	if f.depth++; f.depth > maxDepth {
		return &violation{field, fmt.Sprintf("values are nested more than %d deep", maxDepth), sdk.ErrInvalidRequest}
	}
	return nil
}

// value returns a value in the form of a shape.
func (f *fitter) value(field string, v any, s *shape) (any, error) {
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
	return nil, s.wrong(field)
}

func (f *fitter) each(list []any, field string, read func(i int) (any, error)) (any, error) {
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

func (f *fitter) object(field string, o object, s *shape) (any, error) {
	if err := f.enter(field); err != nil {
		return nil, err
	}
	defer func() { f.depth-- }()
	seen := make(map[string]string) // by their names in camelCase, as they were written
	fitting := make(map[string]any)
	count := 0 // of the fields that one may have only one of
	for _, m := range o {
		known, isKnown := s.field(m.name)
		name := m.name
		if isKnown {
			name = known.name
		}
		at := strings.TrimPrefix(field+"."+clipKey(name), ".")
		if before, twice := seen[name]; twice && before != m.name {
			return nil, &violation{at, fmt.Sprintf("is there twice, as %s and as %s", before, m.name), nil}
		} else if twice {
			return nil, &violation{at, "is there twice", nil}
		}
		seen[name] = m.name
		switch {
		case !isKnown: // nothing malformed gets through
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

// free returns a value as it is, and refuses only names that occur twice in an object, about which
// no two readers agree.
func (f *fitter) free(field string, v any) (any, error) {
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
				return nil, &violation{field, fmt.Sprintf("the key %q is there twice in one object", clipKey(m.name)), nil}
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
