package wire

import (
	"encoding/json"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rewriteQuery makes a document in the form of a shape of the parameters of a URL. Parameters
// that the shape does not have are left out; so are those without a value.
func rewriteQuery(query url.Values, s *shape) ([]byte, error) {
	values := make(map[string]string)
	for _, key := range slices.Sorted(maps.Keys(query)) {
		f, known := s.field(key)
		if !known || len(query[key]) == 1 && query[key][0] == "" {
			continue
		}
		if _, twice := values[f.name]; twice || len(query[key]) > 1 {
			return nil, &violation{f.name, "is there twice in the query", nil}
		}
		values[f.name] = query[key][0]
	}
	doc, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	w := &rewriter{src: doc, query: true}
	if err := w.value("", s); err != nil {
		return nil, err
	}
	return w.out.Bytes(), nil
}

// scalar rewrites a string, number or word.
func (w *rewriter) scalar(field string, s *shape, raw []byte) error {
	wrong := &violation{field, "must be " + s.kind.String(), nil}
	quoted := raw[0] == '"'
	switch s.kind {
	case kindString:
		if !quoted {
			return wrong
		}
		if int64(len(raw)-2) < s.min {
			return &violation{field, "must not be empty", nil}
		}
		w.out.Write(raw)
	case kindBool:
		if w.query && quoted {
			raw = []byte(unquoteJSON(raw))
		}
		if word := string(raw); word != "true" && word != "false" {
			return wrong
		}
		w.out.Write(raw)
	case kindTime:
		if !quoted {
			return wrong
		}
		if _, err := time.Parse(time.RFC3339, unquoteJSON(raw)); err != nil {
			return wrong
		}
		w.out.Write(raw)
	case kindBytes:
		if !quoted {
			return wrong
		}
		data, ok := standardBase64(unquoteJSON(raw))
		if !ok {
			return wrong
		}
		w.out.WriteByte('"')
		w.out.WriteString(data)
		w.out.WriteByte('"')
	case kindInt:
		return w.int(field, s, raw)
	case kindEnum:
		return w.enum(field, s, raw)
	}
	return nil
}

// int rewrites a whole number of 32 bits, which may be in quotes.
func (w *rewriter) int(field string, s *shape, raw []byte) error {
	wrong := &violation{field, "must be " + s.kind.String(), nil}
	word := string(raw)
	if raw[0] == '"' {
		word = unquoteJSON(raw)
	} else if !isNumber(raw) {
		return wrong
	}
	n, err := strconv.ParseFloat(word, 64)
	if err != nil || n != math.Trunc(n) || n < math.MinInt32 || n > math.MaxInt32 || strings.ContainsAny(word, "xX_nN") {
		return wrong
	}
	if int64(n) < s.min || s.max != 0 && int64(n) > s.max {
		return &violation{field, s.bounds(), nil}
	}
	w.out.WriteString(strconv.FormatInt(int64(n), 10))
	return nil
}

// enum rewrites a name, or the number of one.
func (w *rewriter) enum(field string, s *shape, raw []byte) error {
	name := ""
	switch {
	case raw[0] == '"':
		name = unquoteJSON(raw)
	case isNumber(raw):
		if i, err := strconv.Atoi(string(raw)); err == nil && i >= 0 && i < len(s.names) {
			name = s.names[i]
		}
	}
	if !slices.Contains(s.names, name) {
		return &violation{field, "must be one of " + strings.Join(s.names[1:], ", "), nil}
	}
	w.out.WriteString(strconv.Quote(name))
	return nil
}

func isNumber(raw []byte) bool { return raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' }

// standardBase64 makes of either alphabet of RFC 4648, padded or not, the one that
// encoding/json reads.
func standardBase64(s string) (string, bool) {
	out := make([]byte, 0, len(s)+2)
	for _, c := range []byte(strings.TrimRight(s, "=")) {
		switch {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '+', c == '/':
		case c == '-':
			c = '+'
		case c == '_':
			c = '/'
		case c == '\r' || c == '\n': // MIME breaks lines
			continue
		default:
			return "", false
		}
		out = append(out, c)
	}
	if len(out)%4 == 1 {
		return "", false
	}
	for len(out)%4 != 0 {
		out = append(out, '=')
	}
	return string(out), true
}

// clipKey shortens a name of the client's for an error.
func clipKey(key string) string {
	if len(key) > 64 {
		return strings.ToValidUTF8(key[:64], "") + "…"
	}
	return key
}
