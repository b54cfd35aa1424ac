package event

import (
	"encoding/json"
	"strconv"
	"strings"
)

// plainNumbers replaces numbers inside a value of JSON's types by float64 if that does not change them, and returns
// the value. A number that no float64 can represent, such as 1e400, becomes a string, and large is set to true.
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

// decimal is a number as digits × 10^exponent, without zeros at either end. Equal numbers have equal decimals.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

func decimalOf(number string) (d decimal) {
	number, d.negative = strings.CutPrefix(number, "-")
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	d.exponent, _ = strconv.Atoi(exponent) // an exponent that does not fit in an int does not fit in a float64 either
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	d.digits = strings.TrimRight(digits, "0")
	d.exponent += len(digits) - len(d.digits) - len(fraction)
	if d.digits == "" {
		d.exponent = 0
	}
	return d
}
