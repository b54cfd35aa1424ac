package session_test

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// stateOf is a state as it is read from a log.
func stateOf(t *testing.T, values string) func(string) (any, bool) {
	var e event.Event
	require.NoError(t, e.UnmarshalJSON([]byte(`{"seq":1,"id":"e","type":"state","delta":`+values+`}`)))
	var f session.Fold
	f.Apply(&e)
	return f.State
}

func requireAs[T any](t *testing.T, get func(string) (any, bool), key string, want T) {
	t.Helper()
	got, ok, err := session.GetAs[T](get, key)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, want, got)
}

func refusedAs[T any](t *testing.T, get func(string) (any, bool), key, says string) {
	t.Helper()
	got, ok, err := session.GetAs[T](get, key)
	require.ErrorIs(t, err, session.ErrWrongType)
	require.EqualError(t, err, "the state has a value of another type: "+says)
	require.False(t, ok)
	require.Zero(t, got)
}

func TestGetAs(t *testing.T) {
	type order struct {
		ID    int64
		Paid  bool
		Notes map[string]any
		Inner struct{ N int8 }
	}
	get := stateOf(t, `{"name":"Ann","n":7,"half":1.5,"yes":true,"max":9223372036854775807,"beyond":9223372036854775808,"odd":9007199254740993,
		"list":[1,2],"ids":[9007199254740993],"whole":1e3,"huge":10000000000000000000000,"empty":"","card":"4111","long":0.1234567890123456789,
		"order":{"ID":9007199254740993,"Paid":true,"Notes":{"x":9007199254740995}},"wrong":{"Inner":{"N":4111}}}`)

	requireAs(t, get, "name", "Ann")
	requireAs(t, get, "empty", "")
	requireAs(t, get, "yes", true)
	requireAs(t, get, "n", 7)
	requireAs(t, get, "n", uint8(7))
	requireAs(t, get, "n", 7.0)
	requireAs(t, get, "n", float32(7))
	requireAs(t, get, "n", json.Number("7"))
	requireAs(t, get, "whole", int64(1000))
	requireAs(t, get, "half", 1.5)
	requireAs(t, get, "half", json.Number("1.5"))
	requireAs(t, get, "max", int64(math.MaxInt64))
	requireAs(t, get, "max", json.Number("9223372036854775807"))
	requireAs(t, get, "beyond", uint64(1<<63))
	requireAs(t, get, "odd", int64(9007199254740993))
	requireAs(t, get, "odd", 9007199254740992.0) // the nearest that there is
	requireAs(t, get, "long", 0.1234567890123456789)
	requireAs(t, get, "long", json.Number("0.1234567890123456789"))
	requireAs(t, get, "list", []int{1, 2})
	requireAs(t, get, "list", []any{1.0, 2.0})
	requireAs(t, get, "ids", []int64{9007199254740993})
	requireAs(t, get, "ids", []any{json.Number("9007199254740993")})
	requireAs[any](t, get, "odd", json.Number("9007199254740993"))
	requireAs(t, get, "order", order{ID: 9007199254740993, Paid: true, Notes: map[string]any{"x": json.Number("9007199254740995")}})
	requireAs(t, get, "order", &order{ID: 9007199254740993, Paid: true, Notes: map[string]any{"x": json.Number("9007199254740995")}})
	huge, _ := new(big.Int).SetString("10000000000000000000000", 10)
	requireAs(t, get, "huge", huge)
	requireAs(t, get, "huge", json.Number("10000000000000000000000"))

	_, ok, err := session.GetAs[int](get, "nothing")
	require.NoError(t, err, "that there is none is no error")
	require.False(t, ok)

	refusedAs[int](t, get, "name", `"name" is a string, not int`)
	refusedAs[string](t, get, "n", `"n" is a number, not string`)
	refusedAs[int](t, get, "half", `"half" is a number that does not fit int`)
	refusedAs[uint](t, get, "yes", `"yes" is a boolean, not uint`)
	refusedAs[int64](t, get, "beyond", `"beyond" is a number that does not fit int64`)
	refusedAs[int8](t, get, "whole", `"whole" is a number that does not fit int8`)
	refusedAs[[]string](t, get, "list", `"list" is a list, not []string`)
	refusedAs[json.Number](t, get, "card", `"card" is a string, not json.Number`)
	refusedAs[order](t, get, "wrong", `"wrong" is an object that does not fit session_test.order: its Inner.N has to be int8`)
	refusedAs[map[string]int](t, get, "order", `"order" is an object, not map[string]int`)
}

// A function that has something that is not JSON's, such as the state of a test, is read
// in the same way.
func TestGetAsOfOtherValues(t *testing.T) {
	get := func(key string) (any, bool) {
		v, ok := map[string]any{"int": 41, "nil": nil, "raw": json.RawMessage(`{"a":1}`), "func": func() {}, "nan": math.NaN()}[key]
		return v, ok
	}
	requireAs(t, get, "int", 41)
	requireAs(t, get, "int", 41.0)
	requireAs(t, get, "raw", map[string]int{"a": 1})
	refusedAs[*int](t, get, "nil", `"nil" is null, not *int`)
	refusedAs[int](t, get, "func", `"func" is a value of Go's type func(), not int`)
	refusedAs[float32](t, get, "nan", `"nan" is a number that does not fit float32`)
}
