package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/schema"
)

// Arg is a condition on an argument of a call, for a [Rule]. All fields that are set must match. Arguments are compared
// as values: a number is written without exponent and trailing zeros before it is compared, and a text that is a number
// also counts as a number. So 5000, 5e3, 5000.0 and "5000" are equal. Texts are compared in the Unicode form NFC.
//
// To be safe, an argument that cannot be compared matches: one that is missing or null, an empty list, and for Above
// and Below a value that is not a number. A list matches if one of its items does.
type Arg struct {
	// Matches is a regular expression of Go that the argument must contain a match of. The argument is a text, a
	// number, true or false, or the JSON of an object with sorted keys.
	Matches string
	// Above and Below are bounds: the argument must be greater than Above and less than Below. A bound is a number of
	// Go, a json.Number, or a text with a number. It is taken in decimal: 0.1 is exactly a tenth.
	Above, Below any
	// In lists values. The argument must be one of them.
	In []any
	// NotIn lists values. The argument must not be one of them. To let only known values pass without a question, list
	// them here; that is safer than to list the others in In.
	NotIn []any
	// Trim removes white space from both ends of texts before they are compared.
	Trim bool
	// Optional makes a missing argument not match.
	Optional bool
}

type compiledArg struct {
	Arg
	name         string
	pattern      *regexp.Regexp
	above, below *big.Rat
	in, notIn    map[string]bool
}

// Check returns an error if the condition is invalid.
func (a Arg) Check() error {
	_, err := a.compile("argument")
	return err
}

func (a Arg) compile(name string) (c compiledArg, err error) {
	c = compiledArg{Arg: a, name: name}
	switch {
	case name == "":
		return c, errors.New("the argument has no name")
	case a.Matches == "" && a.Above == nil && a.Below == nil && a.In == nil && a.NotIn == nil && !a.Optional:
		return c, errors.New("the condition is empty")
	}
	if a.Matches != "" {
		if c.pattern, err = regexp.Compile(norm.NFC.String(a.Matches)); err != nil {
			return c, err
		}
	}
	if c.above, err = bound(a.Above); err != nil {
		return c, err
	}
	if c.below, err = bound(a.Below); err != nil {
		return c, err
	}
	if c.above != nil && c.below != nil && c.above.Cmp(c.below) >= 0 {
		return c, fmt.Errorf("no number is above %v and below %v", a.Above, a.Below)
	}
	if c.in, err = c.set(a.In, math.MaxInt); err == nil {
		c.notIn, err = c.set(a.NotIn, 1)
	}
	return c, err
}

// bound returns a bound as a number, or nil for a bound that is not set.
func bound(v any) (*big.Rat, error) {
	if v == nil {
		return nil, nil
	}
	if n, _ := number(decoded(v)); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("%v is not a decimal number of at most %d places", v, maxPlaces)
}

// decoded returns a value in the form in which arguments are decoded, or nil if it has no JSON form.
func decoded(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	d, err := schema.Decode(b)
	if err != nil {
		return nil
	}
	return d
}

// set returns the spellings of listed values, at most most of each. It returns nil for a nil list.
func (c *compiledArg) set(list []any, most int) (map[string]bool, error) {
	if list == nil {
		return nil, nil
	}
	set := map[string]bool{}
	for _, v := range list {
		d := decoded(v)
		all, readable := c.spellings(d)
		if _, list := d.([]any); list || !readable || d == nil {
			return nil, fmt.Errorf("%v cannot be compared", v)
		}
		for _, s := range all[:min(most, len(all))] {
			set[s] = true
		}
	}
	return set, nil
}

// holds reports whether the arguments of a call match. foreign reports whether the rule does not apply to calls without
// the argument.
func (c *compiledArg) holds(args any, foreign func() bool) bool {
	var found []any
	if missing := look(args, c.name, &found); missing && !c.Optional && (len(found) > 0 || !foreign()) {
		return true
	}
	return slices.ContainsFunc(found, c.meets)
}

// look adds the values at a path to found, and reports whether one is missing. It ignores the case of keys, because Go
// programs do so when they decode JSON.
func look(v any, path string, found *[]any) (missing bool) {
	if list, ok := v.([]any); ok {
		missing = len(list) == 0
		for _, item := range list {
			missing = look(item, path, found) || missing
		}
		return missing
	}
	object, ok := v.(map[string]any)
	switch {
	case v == nil || path != "" && !ok:
		return true
	case path == "":
		*found = append(*found, v)
		return false
	}
	head, rest, _ := strings.Cut(path, ".")
	missing = true
	for key, value := range object {
		for whole, rest := range map[string]string{head: rest, path: ""} { // a key may contain dots
			if strings.EqualFold(key, whole) && !look(value, rest, found) && key == whole {
				missing = false
			}
		}
	}
	return missing
}

// meets reports whether a value matches, or cannot be compared.
func (c *compiledArg) meets(v any) bool {
	n, isNumber := number(v)
	all, readable := c.spellings(v)
	if isNumber && n == nil || !readable {
		return true
	}
	return (c.above == nil || n == nil || n.Cmp(c.above) > 0) && (c.below == nil || n == nil || n.Cmp(c.below) < 0) &&
		(c.pattern == nil || slices.ContainsFunc(all, c.pattern.MatchString)) &&
		(c.in == nil || slices.ContainsFunc(all, func(s string) bool { return c.in[s] })) &&
		(c.notIn == nil || !c.notIn[all[0]])
}

// spellings returns a value as texts: first the value itself, then the forms that a program may get from it that parses
// numbers in texts, or rounds to float64. It reports false if a number in the value has too many digits.
func (c *compiledArg) spellings(v any) ([]string, bool) {
	var all []string
	switch v := v.(type) {
	case string:
		text := norm.NFC.String(v)
		if c.Trim {
			text = strings.TrimSpace(text)
		}
		all = append(all, text)
	case json.Number:
	default:
		v, readable := plain(v)
		return []string{string(event.EncodeJSON(v))}, readable
	}
	n, isNumber := number(v)
	if n != nil {
		rounded, _ := n.Float64()
		all = append(all, written(n))
		if !math.IsInf(rounded, 0) {
			all = append(all, strconv.FormatFloat(rounded, 'f', -1, 64))
		}
	}
	return all, n != nil || !isNumber
}

// plain returns a value in which all numbers and texts have one form. It reports false if a number has too many digits.
func plain(v any) (any, bool) {
	readable := true
	inner := func(v any) any {
		p, ok := plain(v)
		readable = readable && ok
		return p
	}
	switch v := v.(type) {
	case json.Number:
		n, _ := number(v)
		if n == nil {
			return v, false
		}
		return json.Number(written(n)), true
	case string:
		return norm.NFC.String(v), true
	case []any:
		list := slices.Clone(v)
		for i := range list {
			list[i] = inner(list[i])
		}
		return list, readable
	case map[string]any:
		object := maps.Clone(v)
		for key := range object {
			object[key] = inner(object[key])
		}
		return object, readable
	}
	return v, true
}

// maxPlaces is the maximum exponent of numbers that are compared, and half the maximum length of their texts.
const maxPlaces = 1000

// number returns the number that a value is, or that a text contains. It returns nil for any other value, and for a
// number of too many digits, for which isNumber is true.
func number(v any) (n *big.Rat, isNumber bool) {
	var text string
	switch v := v.(type) {
	case json.Number:
		text, isNumber = string(v), true
	case string:
		text = strings.TrimSpace(v)
		if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') || !json.Valid([]byte(text)) {
			return nil, false
		}
		isNumber = true
	default:
		return nil, false
	}
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		if exponent, err := strconv.Atoi(text[at+1:]); err != nil || max(exponent, -exponent) > maxPlaces {
			return nil, true
		}
	}
	if len(text) > 2*maxPlaces {
		return nil, true
	}
	n, _ = new(big.Rat).SetString(text)
	return n, true
}

// written returns a number without exponent and trailing zeros.
func written(n *big.Rat) string {
	places, _ := n.FloatPrec()
	return n.FloatString(places)
}
