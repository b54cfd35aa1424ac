package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// Decode returns the values of a JSON text in the form of expressions: 64-bit integers are int, all other numbers are
// float64. It returns nil for a text that is not JSON.
func Decode(text []byte) any {
	var v any
	if plainjson.Unmarshal(text, &v) != nil {
		return nil
	}
	c := copier{left: math.MaxInt}
	v, _ = c.copy(v, 0) // a value of JSON can be copied
	return v
}

// Copy returns a copy of a JSON value in the form of [Decode]. Numbers may be json.Number or of any Go number type.
// Values of other types, cycles and copies of more than 64 MiB are errors.
func Copy(v any) (any, error) {
	c := copier{left: 4 * maxMemory}
	return c.copy(v, 0)
}

const (
	sizeOfValue = 16     // bytes of an interface value in a list
	sizeOfPair  = 48     // of a value in a map, roughly
	maxDepth    = 10_000 // as in encoding/json
)

// copier copies values of JSON.
type copier struct {
	left   int  // the remaining bytes of the copy
	finite bool // numbers must be finite
}

func (c *copier) take(bytes int) error {
	if c.left -= bytes; c.left < 0 {
		return errMemory
	}
	return nil
}

func (c *copier) copy(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("values are nested more than %d levels deep", maxDepth)
	}
	switch v := v.(type) {
	case nil, bool, int:
		return v, nil
	case string:
		return v, c.take(len(v))
	case float64:
		if c.finite && (math.IsNaN(v) || math.IsInf(v, 0)) {
			return nil, errInfinite
		}
		return v, nil
	case json.Number:
		return c.number(v)
	case []any:
		return c.list(v, depth)
	case map[string]any:
		return c.mapping(v, depth)
	}
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return int(r.Int()), nil
	case r.CanUint() && r.Uint() <= math.MaxInt64:
		return int(r.Uint()), nil
	case r.CanUint():
		return float64(r.Uint()), nil
	case r.CanFloat():
		return c.copy(r.Float(), depth)
	}
	return nil, fmt.Errorf("a value has the Go type %T, which is not one of JSON", v)
}

func (c *copier) number(n json.Number) (any, error) {
	if i, err := n.Int64(); err == nil {
		return int(i), nil
	}
	f, err := n.Float64() // infinite if it is too large
	if err != nil && !math.IsInf(f, 0) {
		return nil, fmt.Errorf("%q is not a number", string(n))
	}
	return c.copy(f, 0)
}

func (c *copier) list(v []any, depth int) (any, error) {
	if v == nil {
		return nil, nil
	}
	if err := c.take(len(v) * sizeOfValue); err != nil {
		return nil, err
	}
	out := make([]any, len(v))
	for i := range v {
		var err error
		if out[i], err = c.copy(v[i], depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *copier) mapping(v map[string]any, depth int) (any, error) {
	if v == nil {
		return nil, nil
	}
	if err := c.take(len(v) * sizeOfPair); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(v))
	for k, inner := range v {
		err := c.take(len(k))
		if err == nil {
			out[k], err = c.copy(inner, depth+1)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

var (
	errMemory   = errors.New("it makes too much data")
	errInfinite = errors.New("a number becomes infinite, or none at all")
)
