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

// each rewrites the object or array that stands next. It calls read for each of its members,
// which writes a comma before what it writes.
func (w *rewriter) each(field string, read func(i int) error) error {
	if w.depth++; w.depth > maxDepth {
		return &violation{field, fmt.Sprintf("values are nested more than %d deep", maxDepth), sdk.ErrInvalidRequest}
	}
	start, end := w.src[w.pos], byte(']')
	if start == '{' {
		end = '}'
	}
	w.out.WriteByte(start)
	w.pos++
	w.space()
	for i := 0; w.src[w.pos] != end; i++ {
		if err := read(i); err != nil {
			return err
		}
		w.space()
		if w.src[w.pos] == ',' {
			w.pos++
			w.space()
		}
	}
	w.pos++
	w.depth--
	w.out.WriteByte(end)
	return nil
}

// comma separates a member from the one before it. No value ends as an object or array begins.
func (w *rewriter) comma() {
	if last := w.out.Bytes()[w.out.Len()-1]; last != '{' && last != '[' {
		w.out.WriteByte(',')
	}
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
	return w.each(field, func(i int) error {
		w.comma()
		return w.value(field+"["+strconv.Itoa(i)+"]", s.elem)
	})
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
	seen := make(map[string]string) // by their names in camelCase, as they were written
	count := 0                      // of the fields that one may have only one of
	err := w.each(field, func(int) error {
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
		switch isNull := bytes.HasPrefix(w.src[w.pos:], []byte("null")); {
		case !known: // its insides are read all the same: nothing that is malformed gets through
			mark := w.out.Len()
			err := w.free(at)
			w.out.Truncate(mark)
			return err
		case isNull && f.shape.kind == kindAny:
			return &violation{at, "must not be null", nil}
		case isNull:
			w.token() // as if it were not there
			return nil
		}
		if slices.Contains(s.oneOf, f.name) {
			count++
		}
		w.comma()
		w.out.WriteString(strconv.Quote(f.name) + ":")
		return w.value(at, f.shape)
	})
	if err == nil && s.oneOf != nil && count != 1 {
		return &violation{field, "must have exactly one of " + strings.Join(s.oneOf, ", "), nil}
	}
	return err
}

// free copies the next value and looks only at what no reader agrees upon: keys that are
// there twice.
func (w *rewriter) free(field string) error {
	switch w.src[w.pos] {
	case '[':
		return w.each(field, func(int) error {
			w.comma()
			return w.free(field)
		})
	case '{':
		seen := make(map[string]bool)
		return w.each(field, func(int) error {
			key, raw := w.key()
			if seen[key] {
				return &violation{field, fmt.Sprintf("the key %q is there twice in one object", clipKey(key)), nil}
			}
			seen[key] = true
			w.comma()
			w.out.Write(raw)
			w.out.WriteByte(':')
			return w.free(field)
		})
	}
	w.out.Write(w.token())
	return nil
}
