package event

import (
	"encoding/json"
	"strconv"
	"strings"
)

// plainNumbers makes float64 of the numbers that a float64 does not change, inside of a
// value of JSON's own types, and returns the value. A number that Go has no room for, such
// as 1e400, becomes a string, and large is set.
func plainNumbers(v any, large *bool) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			*large = true
			return v.String()
		}
		if decimalOf(strconv.FormatFloat(f, 'e', -1, 64)) == decimalOf(v.String()) {
			return f
		}
	case map[string]any:
		for key, inner := range v {
			v[key] = plainNumbers(inner, large)
		}
	case []any:
		for i, inner := range v {
			v[i] = plainNumbers(inner, large)
		}
	}
	return v
}

// decimal is a number as digits × 10^exponent, without zeros at either end. Equal
// numbers have equal decimals.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

func decimalOf(number string) (d decimal) {
	number, d.negative = strings.CutPrefix(number, "-")
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	d.exponent, _ = strconv.Atoi(exponent) // one beyond all ints is beyond all float64 too
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(digits, "0")
	d.exponent += len(digits) - len(d.digits) - len(fraction)
	if d.digits == "" {
		d.exponent = 0
	}
	return d
}
