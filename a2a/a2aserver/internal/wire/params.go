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

// rewriter brings a JSON document into the form that the SDK's types read: the fields of a
// shape under their camelCase names, once each, with values of the type that they must
// have. Protocol Buffers let clients write fields in snake_case, enums and numbers in two
// forms each and bytes in two alphabets (ProtoJSON); encoding/json takes keys in any
// case, the last of several, and of a wrong type only the first it meets. What a shape leaves
// free (metadata, data parts) is copied byte by byte. Fields that it does not know are
// dropped, as A2A 1.0, section 5.7, asks.
type rewriter struct {
	src   []byte // valid JSON
	pos   int
	out   bytes.Buffer
	depth int
	query bool // the values come from a URL, where all are strings
}

// checkJSON tells whether a body is one JSON document in UTF-8 and nothing else.
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

// rewrite returns a document in the form of a shape. The document must have passed checkJSON.
func rewrite(doc []byte, s *shape) ([]byte, error) {
	w := &rewriter{src: doc}
	w.out.Grow(len(doc))
	w.space()
	if err := w.value("", s); err != nil {
		return nil, err
	}
	return w.out.Bytes(), nil
}

// skip returns the value that stands next, whatever it is.
func (w *rewriter) skip() []byte {
	start := w.pos
	for depth := 0; ; {
		switch w.src[w.pos] {
		case '{', '[':
			depth++
			w.pos++
		case '}', ']':
			depth--
			w.pos++
		case ' ', '\t', '\r', '\n', ',', ':':
			w.pos++
			continue
		default:
			w.token()
		}
		if depth == 0 {
			return w.src[start:w.pos]
		}
	}
}

func (w *rewriter) space() {
	for w.pos < len(w.src) && strings.IndexByte(" \t\r\n", w.src[w.pos]) >= 0 {
		w.pos++
	}
}

// token returns the string, number or word that stands next, as it is written.
func (w *rewriter) token() []byte {
	start := w.pos
	if w.src[w.pos] == '"' {
		for w.pos++; w.src[w.pos] != '"'; w.pos++ {
			if w.src[w.pos] == '\\' {
				w.pos++
			}
		}
		w.pos++
		return w.src[start:w.pos]
	}
	for w.pos < len(w.src) && strings.IndexByte(" \t\r\n,:]}", w.src[w.pos]) < 0 {
		w.pos++
	}
	return w.src[start:w.pos]
}

// unquoteJSON returns what a JSON string says.
func unquoteJSON(raw []byte) string {
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var s string
	_ = json.Unmarshal(raw, &s) // raw is a part of valid JSON
	return s
}

// enter begins an object or an array.
func (w *rewriter) enter(field string) error {
	if w.depth++; w.depth > maxDepth {
		return &violation{field, fmt.Sprintf("values are nested more than %d deep", maxDepth), sdk.ErrInvalidRequest}
	}
	w.pos++
	w.space()
	return nil
}

// more moves past a comma, or past the end of the object or array.
func (w *rewriter) more() bool {
	w.space()
	c := w.src[w.pos]
	w.pos++
	if c == ',' {
		w.space()
		return true
	}
	w.depth--
	return false
}

// value rewrites the value that stands next; a nil shape copies it.
func (w *rewriter) value(field string, s *shape) error {
	if s == nil || s.kind == kindAny {
		return w.free(field)
	}
	c := w.src[w.pos]
	switch s.kind {
	case kindObject:
		if c != '{' {
			return &violation{field, "must be an object", nil}
		}
		if s.members == nil {
			return w.free(field)
		}
		return w.object(field, s)
	case kindArray:
		if c != '[' {
			return &violation{field, "must be an array", nil}
		}
		return w.array(field, s)
	}
	if c == '{' || c == '[' {
		return &violation{field, "must be " + s.kind.String(), nil}
	}
	return w.scalar(field, s, w.token())
}

func (w *rewriter) array(field string, s *shape) error {
	if err := w.enter(field); err != nil {
		return err
	}
	w.out.WriteByte('[')
	for i := 0; w.src[w.pos] != ']'; i++ {
		if i > 0 {
			w.out.WriteByte(',')
		}
		if err := w.value(field+"["+strconv.Itoa(i)+"]", s.elem); err != nil {
			return err
		}
		if !w.more() {
			w.out.WriteByte(']')
			return nil
		}
	}
	w.more()
	w.out.WriteByte(']')
	return nil
}

// key reads a member's name and the colon.
func (w *rewriter) key() (string, []byte) {
	raw := w.token()
	w.space()
	w.pos++
	w.space()
	return unquoteJSON(raw), raw
}

func (w *rewriter) object(field string, s *shape) error {
	if err := w.enter(field); err != nil {
		return err
	}
	w.out.WriteByte('{')
	seen := make(map[string]string) // by their names in camelCase, as they were written
	count := 0                      // of the fields that one may have only one of
	first := true
	for more := w.src[w.pos] != '}'; more; {
		key, _ := w.key()
		f, known := s.field(key)
		name := key
		if known {
			name = f.name
		}
		at := strings.TrimPrefix(field+"."+clipKey(name), ".")
		if before, twice := seen[name]; twice && before != key {
			return &violation{at, fmt.Sprintf("is there twice, as %s and as %s", before, key), nil}
		} else if twice {
			return &violation{at, "is there twice", nil}
		}
		seen[name] = key
		if !known {
			// Its insides are looked at all the same: nothing that is malformed gets through.
			mark := w.out.Len()
			if err := w.free(at); err != nil {
				return err
			}
			w.out.Truncate(mark)
		} else if bytes.HasPrefix(w.src[w.pos:], []byte("null")) {
			if f.shape.kind == kindAny {
				return &violation{at, "must not be null", nil}
			}
			w.token() // as if it were not there
		} else {
			if !first {
				w.out.WriteByte(',')
			}
			first = false
			if slices.Contains(s.oneOf, f.name) {
				count++
			}
			w.out.WriteByte('"')
			w.out.WriteString(f.name)
			w.out.WriteString(`":`)
			if err := w.value(at, f.shape); err != nil {
				return err
			}
		}
		more = w.more()
	}
	if len(seen) == 0 {
		w.more()
	}
	w.out.WriteByte('}')
	if s.oneOf != nil && count != 1 {
		return &violation{field, "must have exactly one of " + strings.Join(s.oneOf, ", "), nil}
	}
	return nil
}

// free copies the next value and looks only at what no reader agrees upon: keys that are
// there twice.
func (w *rewriter) free(field string) error {
	switch w.src[w.pos] {
	case '[':
		if err := w.enter(field); err != nil {
			return err
		}
		w.out.WriteByte('[')
		for i := 0; w.src[w.pos] != ']'; i++ {
			if i > 0 {
				w.out.WriteByte(',')
			}
			if err := w.free(field); err != nil {
				return err
			}
			if !w.more() {
				w.out.WriteByte(']')
				return nil
			}
		}
		w.more()
		w.out.WriteByte(']')
	case '{':
		if err := w.enter(field); err != nil {
			return err
		}
		w.out.WriteByte('{')
		var seen map[string]struct{}
		for i := 0; w.src[w.pos] != '}'; i++ {
			key, raw := w.key()
			if _, twice := seen[key]; twice {
				return &violation{field, fmt.Sprintf("the key %q is there twice in one object", clipKey(key)), nil}
			}
			if seen == nil {
				seen = make(map[string]struct{})
			}
			seen[key] = struct{}{}
			if i > 0 {
				w.out.WriteByte(',')
			}
			w.out.Write(raw)
			w.out.WriteByte(':')
			if err := w.free(field); err != nil {
				return err
			}
			if !w.more() {
				w.out.WriteByte('}')
				return nil
			}
		}
		w.more()
		w.out.WriteByte('}')
	default:
		w.out.Write(w.token())
	}
	return nil
}
