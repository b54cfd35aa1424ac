package sdkjson

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scalar converts a string, number, boolean or null to the form of a shape.
func (f fitter) scalar(field string, v any, s *Shape) (any, error) {
	text, isText := v.(string)
	switch s.kind {
	case kindAny:
		return v, nil
	case kindString:
		if isText && int64(len(text)) < s.min {
			return nil, Wrong(field, "must not be empty")
		}
		if isText {
			return v, nil
		}
	case kindBool:
		if f.query && (text == "true" || text == "false") {
			return text == "true", nil
		}
		if _, ok := v.(bool); ok {
			return v, nil
		}
	case kindTime:
		if new(time.Time).UnmarshalText([]byte(text)) == nil {
			return v, nil
		}
	case kindBytes:
		// Clients may use either alphabet of RFC 4648, padded or not.
		standard := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
		if data, err := base64.RawStdEncoding.DecodeString(standard); err == nil && isText {
			return data, nil
		}
	case kindInt:
		return s.int(field, v)
	case kindEnum:
		if number, ok := v.(json.Number); ok {
			if i, err := strconv.Atoi(number.String()); err == nil && i >= 0 && i < len(s.names) {
				text = s.names[i]
			}
		}
		if !slices.Contains(s.names, text) && !(f.mends && isText) {
			return nil, Wrong(field, s.Choices())
		}
		return text, nil
	}
	return nil, s.typeError(field)
}

// int converts a whole number of 32 bits, which may be written as a string.
func (s *Shape) int(field string, v any) (any, error) {
	text, _ := v.(string)
	if number, ok := v.(json.Number); ok {
		text = number.String()
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n != math.Trunc(n) || n < math.MinInt32 || n > math.MaxInt32 || strings.ContainsAny(text, "xX_nN") {
		return nil, s.typeError(field)
	}
	if int64(n) < s.min || s.max != 0 && int64(n) > s.max {
		return nil, Wrong(field, s.Bounds())
	}
	return int64(n), nil
}
