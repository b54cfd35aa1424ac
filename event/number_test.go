package event_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
)

// Numbers of the state and of metadata are float64, as in all JSON that Go reads, except
// those that a float64 would change.
func TestNumbersKeepTheirDigits(t *testing.T) {
	for text, want := range map[string]any{
		"0": 0.0, "-0": 0.0, "7": 7.0, "-1.5": -1.5, "2.50": 2.5, "1e3": 1000.0, "1E-2": 0.01, "0.1": 0.1, "0.00": 0.0, "0e9": 0.0,
		"100000000000000000000":               1e20,
		"1e22":                                1e22,
		"9007199254740992":                    9007199254740992.0,
		"9007199254740993":                    json.Number("9007199254740993"),
		"-9223372036854775808":                json.Number("-9223372036854775808"),
		"18446744073709551615":                json.Number("18446744073709551615"),
		"0.1234567890123456789":               json.Number("0.1234567890123456789"),
		"1e400":                               "1e400", // which Go has no room for
		"1e-400":                              json.Number("1e-400"),
		"1e99999999999999999999":              "1e99999999999999999999",
		`[1,{"a":9007199254740993}]`:          []any{1.0, map[string]any{"a": json.Number("9007199254740993")}},
		`"9007199254740993"`:                  "9007199254740993",
		`{"9007199254740993":"a \" 1e400\\"}`: map[string]any{"9007199254740993": `a " 1e400\`},
	} {
		require.Equal(t, want, event.DecodeValue([]byte(text)), text)
		for field, of := range map[string]string{
			"delta":    `{"seq":1,"id":"e","type":"state","delta":{"k":` + text + `}}`,
			"metadata": `{"seq":1,"id":"e","type":"user","content":"hi","metadata":{"k":` + text + `}}`,
		} {
			var e event.Event
			require.NoError(t, e.UnmarshalJSON([]byte(of)))
			var got map[string]any
			if field == "delta" {
				got = e.Data.(*event.State).Delta
			} else {
				got = e.Data.(*event.User).Metadata
			}
			require.Equal(t, map[string]any{"k": want}, got, text)
			again, err := e.MarshalJSON()
			require.NoError(t, err)
			var second event.Event
			require.NoError(t, second.UnmarshalJSON(again))
			require.Equal(t, e, second, text)
		}
	}
}
