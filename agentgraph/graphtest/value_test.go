package graphtest

import (
	"testing"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/stretchr/testify/require"
)

func TestSameJSON(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[1,2]}`, ` {"b":[1.0,2e0], "a":10e-1}`, true},
		{`{"a":1}`, `{"a":1,"b":null}`, false},
		{`{"a":null}`, `{"b":null}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`[1]`, `[1,1]`, false},
		{`9007199254740993`, `9007199254740992`, false},
		{`18446744073709551615`, `18446744073709551615`, true},
		{`18446744073709551615`, `18446744073709551616`, false},
		{`0.1`, `0.10`, true},
		{`0.1`, `0.1000000000000000055511151231257827`, false},
		{`1e1000000000`, `1e1000000000`, true},
		{`1e1000000000`, `2e1000000000`, false},
		{`-0`, `0`, true},
		{`1`, `"1"`, false},
		{`null`, `false`, false},
		{`"a"`, `"\u0061"`, true},
		{`true`, `true`, true},
		{`{}`, `[]`, false},
	} {
		got := must.Get(sameJSON([]byte(tt.a), []byte(tt.b)))
		require.Equal(t, tt.want, got, "%s %s", tt.a, tt.b)
		back := must.Get(sameJSON([]byte(tt.b), []byte(tt.a)))
		require.Equal(t, tt.want, back, "%s %s", tt.b, tt.a)
	}
	_, err := sameJSON([]byte("1 2"), []byte("1"))
	require.Error(t, err)
	_, err = sameJSON([]byte("1"), []byte("{"))
	require.Error(t, err)
}
