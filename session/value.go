package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/plainjson"
)

// ErrWrongType is returned by [GetAs] if a value of the state does not have the requested type.
var ErrWrongType = errors.New("the state has a value of another type")

// GetAs reads a value of the state as a T. The function get reads the state: Get of a tools.Context, State of an
// agent.Session, or State of a [Fold].
//
// If the key is not set, ok is false and the error is nil. If the value cannot be converted to T without a loss, such
// as 1.5 to an int, the error is [ErrWrongType]. Integers keep all digits, also above 2^53; only a conversion to a
// float rounds. A T that is or contains a struct is read as encoding/json reads it; numbers in its fields of type any
// are json.Number.
//
// If T is any, a map[string]any or a []any, GetAs returns the value itself. It is shared, and callers must not change
// it.
func GetAs[T any](get func(key string) (any, bool), key string) (value T, ok bool, err error) {
	v, ok := get(key)
	if !ok {
		return value, false, nil
	}
	if value, ok := v.(T); ok {
		return value, true, nil
	}
	want := reflect.TypeFor[T]()
	_, quoted := v.(string)
	if err := plainjson.Unmarshal(jsonOf(v), &value); err != nil || v == nil || quoted && want == numberType { // json.Number accepts strings
		var none T
		return none, false, fmt.Errorf("%w: %q is %s", ErrWrongType, key, mismatch(v, want, err))
	}
	return value, true, nil
}

var numberType = reflect.TypeFor[json.Number]()

// jsonOf returns the JSON of a value of the state. A whole number has no exponent, so that it can be decoded as an
// integer.
func jsonOf(v any) json.RawMessage {
	if f, ok := v.(float64); ok && f == math.Trunc(f) && !math.IsInf(f, 0) {
		return strconv.AppendFloat(nil, f, 'f', -1, 64)
	}
	return event.EncodeJSON(v)
}

// mismatch describes the type that a value has and the type that was requested. It omits the value, which may be a
// secret.
func mismatch(v any, want reflect.Type, err error) string {
	kind := "a value of Go's type " + fmt.Sprintf("%T", v)
	switch v.(type) {
	case nil:
		kind = "null"
	case string:
		kind = "a string"
	case bool:
		kind = "a boolean"
	case map[string]any:
		kind = "an object"
	case []any:
		kind = "a list"
	case float64, json.Number:
		if kind = "a number"; want.Kind() >= reflect.Int && want.Kind() <= reflect.Float64 {
			return kind + " that does not fit " + want.String()
		}
	}
	if typ, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && typ.Field != "" {
		return fmt.Sprintf("%s that does not fit %s: its %s has to be %s", kind, want, typ.Field, typ.Type)
	}
	return fmt.Sprintf("%s, not %s", kind, want)
}
