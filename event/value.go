package event

import (
	"slices"
	"strconv"
	"unicode/utf8"
)

// value reads a value as DecodeValue does.
func (f *fields) value(levels int) (v any, ok bool) {
	if f.at >= len(f.data) {
		return nil, false
	}
	switch f.data[f.at] {
	case '"':
		text, ok := f.str()
		if !ok || text.form == surrogates {
			return nil, false
		}
		return f.scan.text(text), true
	case 't':
		return true, f.literal("true")
	case 'f':
		return false, f.literal("false")
	case 'n':
		return nil, f.literal("null")
	case '{':
		values := make(map[string]any)
		return values, f.each('{', '}', levels, func() bool {
			name, ok := f.str()
			if !ok || name.form == surrogates || !f.is(':') {
				return false
			}
			key := f.nameOf(name)
			values[key], ok = f.value(levels - 1)
			return ok
		})
	case '[':
		list := []any{}
		ok := f.each('[', ']', levels, func() bool {
			v, ok := f.value(levels - 1)
			list = append(list, v)
			return ok
		})
		return list, ok
	}
	text, short, ok := f.scan.number()
	if !ok || !short {
		return nil, false
	}
	n, err := strconv.ParseFloat(string(text), 64)
	return n, err == nil
}

// nameOf returns a text that is likely to occur again.
func (f *fields) nameOf(text span) string {
	if f.names == nil || text.form != plainForm || text.size() > maxName {
		return f.scan.text(text)
	}
	name := f.data[text.from:text.to]
	i := f.names.index(name)
	if f.names[i] != string(name) {
		f.names[i] = string(name)
	}
	return f.names[i]
}

// appendValue writes a value of at most so many levels as EncodeJSON does, if it is one
// that can be read from JSON.
func appendValue(out []byte, v any, levels int) (_ []byte, ok bool) {
	switch v := v.(type) {
	case nil:
		return append(out, "null"...), true
	case bool:
		return strconv.AppendBool(out, v), true
	case string:
		return appendString(out, v), true
	case int:
		return strconv.AppendInt(out, int64(v), 10), true
	case float64:
		return appendFloat(out, v)
	case map[string]any:
		return appendValues(out, v, levels)
	case []any:
		if v == nil {
			return append(out, "null"...), true
		}
		out = append(out, '[')
		for i, inner := range v {
			if i > 0 {
				out = append(out, ',')
			}
			if levels == 0 {
				return out, false
			}
			if out, ok = appendValue(out, inner, levels-1); !ok {
				return out, false
			}
		}
		return append(out, ']'), levels > 0
	}
	return out, false
}

func appendValues(out []byte, values map[string]any, levels int) (_ []byte, ok bool) {
	if values == nil {
		return append(out, "null"...), true
	}
	if levels == 0 {
		return out, false
	}
	var few [8]string
	keys := few[:0]
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for i, key := range keys {
		out = append(appendString(append(out, `{,`[min(i, 1)]), key), ':')
		if out, ok = appendValue(out, values[key], levels-1); !ok {
			return out, false
		}
	}
	if len(keys) == 0 {
		out = append(out, '{')
	}
	return append(out, '}'), true
}

// appendString writes a string as package json does without its escapes for HTML.
func appendString(out []byte, s string) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		r, n := rune(c), 1
		if c >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(s[i:])
			if r != '\u2028' && r != '\u2029' && (r != utf8.RuneError || n > 1) {
				i += n
				continue
			}
		}
		out = append(append(out, s[done:i]...), '\\')
		switch r {
		case '"', '\\':
			out = append(out, c)
		case '\b':
			out = append(out, 'b')
		case '\f':
			out = append(out, 'f')
		case '\n':
			out = append(out, 'n')
		case '\r':
			out = append(out, 'r')
		case '\t':
			out = append(out, 't')
		default:
			out = append(out, 'u', hex[r>>12], hex[r>>8&15], hex[r>>4&15], hex[r&15])
		}
		i += n
		done = i
	}
	return append(append(out, s[done:]...), '"')
}
