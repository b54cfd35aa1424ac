package expression

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// Values are those of JSON in Go: nil, bool, string, []any, map[string]any, and
// numbers. A whole number is an int64, or a uint64 above the largest int64; any
// other number is a float64.

// canonical turns the other forms that a number can have in Go into these. It
// looks at one value, not inside of it.
func canonical(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string, []any, map[string]any, int64:
		return v, nil
	case float64:
		return v, nil
	case int:
		return int64(v), nil
	case uint64:
		return unsigned(v), nil
	case json.Number:
		return parseNumber(string(v))
	case int8:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case uint:
		return unsigned(uint64(v)), nil
	case uint8:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case float32:
		return float64(v), nil
	}
	return nil, fmt.Errorf("a value has the Go type %T, which is not one of JSON", v)
}

func unsigned(v uint64) any {
	if v <= math.MaxInt64 {
		return int64(v)
	}
	return v
}

func parseNumber(s string) (any, error) {
	n := json.Number(s)
	if i, err := n.Int64(); err == nil {
		return i, nil
	}
	if !strings.ContainsAny(s, ".eE") {
		var u uint64
		if err := json.Unmarshal([]byte(s), &u); err == nil {
			return u, nil
		}
	}
	f, err := n.Float64()
	if err != nil {
		return nil, fmt.Errorf("%q is not a number that can be kept", s)
	}
	return f, nil
}

// describe says what a value is, for messages.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "missing"
	case bool:
		return fmt.Sprintf("the value %t", v)
	case string:
		if len(v) > 40 {
			return "a text"
		}
		return fmt.Sprintf("the text %q", v)
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return fmt.Sprintf("the number %v", v)
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "nil"
	case bool:
		return "bool"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "map"
	case float64:
		return "float"
	}
	return "int"
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// compareNumbers compares exactly, where a conversion to float64 would lose the
// last digits of large whole numbers. ok is false if one of them is no number.
func compareNumbers(a, b any) (order int, ok bool) {
	if fa, isFloat := a.(float64); isFloat {
		if fb, both := b.(float64); both {
			return compareFloats(fa, fb), true
		}
		order, ok = compareNumbers(b, a)
		return -order, ok
	}
	switch a := a.(type) {
	case int64:
		switch b := b.(type) {
		case int64:
			switch {
			case a < b:
				return -1, true
			case a > b:
				return 1, true
			}
			return 0, true
		case uint64:
			return -1, true // it is above every int64
		case float64:
			if b >= 1<<63 {
				return -1, true
			}
			if b < -1<<63 {
				return 1, true
			}
			whole := math.Trunc(b)
			if order, _ := compareNumbers(a, int64(whole)); order != 0 {
				return order, true
			}
			return compareFloats(whole, b), true
		}
	case uint64:
		switch b := b.(type) {
		case int64:
			return 1, true
		case uint64:
			switch {
			case a < b:
				return -1, true
			case a > b:
				return 1, true
			}
			return 0, true
		case float64:
			if b >= 1<<64 {
				return -1, true
			}
			if b < 1<<63 {
				return 1, true
			}
			return compareNumbers(a, uint64(b)) // it has no fraction up here
		}
	}
	return 0, false
}

func compareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// isNaN reports whether a value is the number that is none. JSON has none, but Go
// values can hold one.
func isNaN(v any) bool {
	f, ok := v.(float64)
	return ok && math.IsNaN(f)
}
