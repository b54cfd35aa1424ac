package sdkjson

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/internal/visible"
)

// Violation is an error of a field. Without a kind it is an sdk.ErrInvalidParams.
type Violation struct {
	Field string // where, such as "message.parts[0].text"; "" is the whole
	What  string // what is wrong, and what is allowed
	Kind  error  // nil: sdk.ErrInvalidParams
}

// Wrong returns a Violation without a kind.
func Wrong(field, what string) *Violation { return &Violation{Field: field, What: what} }

func (v *Violation) Error() string {
	if v.Field == "" {
		return v.What
	}
	return v.Field + ": " + v.What
}

func (v *Violation) Unwrap() error {
	if v.Kind != nil {
		return v.Kind
	}
	return sdk.ErrInvalidParams
}

// maxDepth bounds the nesting of values. Protocol Buffers, in which A2A is defined, also allow 100 levels.
const maxDepth = 100

// Parse parses a value as [plainjson.Strict] does.
func Parse(data []byte) (any, error) { return plainjson.Strict(data, maxDepth) }

// Fit converts a value of [Parse] to JSON that the SDK's types can decode: the fields of a
// shape under their camelCase names, once each, with values of their types. Protocol Buffers allow clients to write
// fields in snake_case, enums and numbers in two forms each, and bytes in two alphabets (ProtoJSON). encoding/json,
// however, ignores the case of names and reports only the first wrong type. Values that a shape does not restrict
// (metadata, data parts) stay unchanged. Unknown fields are dropped, as A2A 1.0, section 5.7, requires. The error is a
// *Violation. Fit may change v.
func (s *Shape) Fit(v any) ([]byte, error) { return fitter{}.json(v, s) }

// FitQuery is Fit for the parameters of a URL. It drops unknown parameters, and those without a value.
func (s *Shape) FitQuery(query url.Values) ([]byte, error) {
	o := make(map[string]any)
	for name, values := range query {
		if _, known := s.field(name); !known || slices.Equal(values, []string{""}) {
			continue
		}
		if len(values) > 1 {
			return nil, Wrong(name, "is set twice")
		}
		o[name] = values[0]
	}
	return fitter{query: true}.json(o, s)
}

// Mend is Fit for the answers of peers, which may be newer, older or less strict than the SDK. It drops what Fit refuses,
// keeps unknown names of enums, and replaces a part of an unknown kind by a note. It returns an error if nothing is left.
func (s *Shape) Mend(v any) ([]byte, error) { return fitter{mends: true}.json(v, s) }

// fitter converts values to the forms of shapes.
type fitter struct {
	query bool // the values come from a URL, and are all strings
	mends bool
}

func (f fitter) json(v any, s *Shape) ([]byte, error) {
	fitting, err := f.value("", v, s)
	if err != nil {
		return nil, err
	}
	return json.Marshal(fitting)
}

func (f fitter) value(field string, v any, s *Shape) (any, error) {
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
			return f.array(field, v, s)
		}
	default:
		return f.scalar(field, v, s)
	}
	return nil, s.typeError(field)
}

func (f fitter) array(field string, list []any, s *Shape) (any, error) {
	fitting := make([]any, 0, len(list))
	for i, v := range list {
		one, err := f.value(field+"["+strconv.Itoa(i)+"]", v, s.elem)
		object, isObject := v.(map[string]any)
		switch {
		case err == nil:
			fitting = append(fitting, one)
		case !f.mends:
			return nil, err
		case isObject && s.elem == partShape:
			fitting = append(fitting, map[string]any{"text": unknownPart(object)})
		}
	}
	return fitting, nil
}

// unknownPart returns the note that replaces a part.
func unknownPart(p map[string]any) string {
	text := "[part of an unknown kind"
	for _, name := range []string{"filename", "mediaType"} {
		if s, _ := p[name].(string); s != "" {
			text += " " + visible.Cut(s, 100)
		}
	}
	return text + "]"
}

func (f fitter) object(field string, o map[string]any, s *Shape) (any, error) {
	fitting := make(map[string]any)
	for _, written := range slices.Sorted(maps.Keys(o)) { // the same mistake is reported each time
		v := o[written]
		known, isKnown := s.field(written)
		if !isKnown {
			continue
		}
		name := known.name
		at := strings.TrimPrefix(field+"."+name, ".")
		var one any
		var err error
		if _, twice := o[name]; twice && written != name {
			err = Wrong(at, fmt.Sprintf("is set twice, as %s and as %s", name, written))
		} else if v == nil && known.shape.kind == kindAny {
			err = Wrong(at, "must not be null")
		} else if v == nil { // as if the field were missing
			continue
		} else {
			one, err = f.value(at, v, known.shape)
		}
		switch {
		case err == nil:
			fitting[name] = one
		case !f.mends:
			return nil, err
		}
	}
	return fitting, f.checkOneOf(field, fitting, s)
}

// checkOneOf returns an error unless an object has exactly one of the fields of which it must have one. When it mends, it
// drops the others.
func (f fitter) checkOneOf(field string, o map[string]any, s *Shape) error {
	count := 0
	for _, name := range s.oneOf {
		if _, there := o[name]; there {
			if count++; count > 1 && f.mends {
				delete(o, name)
				count--
			}
		}
	}
	if s.oneOf != nil && count != 1 {
		return Wrong(field, "must have exactly one of "+strings.Join(s.oneOf, ", "))
	}
	return nil
}
