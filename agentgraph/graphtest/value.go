package graphtest

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// sameJSON reports whether two JSON values are equal. Numbers are compared by value: 1, 1.0 and 1e0 are equal. The
// error reports invalid JSON.
func sameJSON(a, b []byte) (bool, error) {
	var x, y any
	if err := errors.Join(plainjson.Unmarshal(a, &x), plainjson.Unmarshal(b, &y)); err != nil {
		return false, err
	}
	return same(x, y), nil
}

func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			w, there := b[k]
			if !there || !same(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(string(a), string(b))
	}
	return a == b
}

// sameNumber compares numbers exactly, except that it compares them as float64 if the exponent or the length would make
// that expensive.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	x, exact := rational(a)
	y, too := rational(b)
	if exact && too {
		return x.Cmp(y) == 0
	}
	f, err := strconv.ParseFloat(a, 64)
	g, err2 := strconv.ParseFloat(b, 64)
	return err == nil && err2 == nil && !math.IsInf(f, 0) && f == g
}

func rational(s string) (*big.Rat, bool) {
	if _, exp, ok := strings.Cut(strings.ToLower(s), "e"); ok {
		if n, err := strconv.Atoi(exp); err != nil || n > 400 || n < -400 {
			return nil, false
		}
	}
	if len(s) > 1000 {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}
