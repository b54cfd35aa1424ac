package a2av0

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What needs no repair stays byte for byte, and what is no answer as well.
func TestRepaired(t *testing.T) {
	for in, want := range map[string]string{
		`{"jsonrpc":"2.0","id":"1","result":{"kind":"task", "id":"t"}}`:                                              "",
		`{"jsonrpc":"2.0","id":"1","result":{"kind":"message","parts":[{"kind" : "text","text":"\"kind\":\"x\""}]}}`: "",
		`<html>`: "",
		`[1]`:    "",
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"m"}}`:                                                                    `{"error":{"code":-32603,"message":"m"},"id":"","jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":"1","error":{"code":-32603,"message":"m","data":["x"]}}`:                                                        `{"error":{"code":-32603,"message":"m"},"id":"1","jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":"1","result":{"kind":"task","n":12345678901234567890,"history":[{"kind":"message","parts":[{"kind":"new"}]}]}}`: `{"id":"1","jsonrpc":"2.0","result":{"history":[{"kind":"message","parts":[]}],"kind":"task","n":12345678901234567890}}`,
	} {
		if want == "" {
			want = in
		}
		require.Equal(t, want, string(repair([]byte(in))))
	}
	require.Nil(t, repair([]byte(`{"jsonrpc":"2.0","id":"1","result":{"kind":"credit-update"}}`)))
}

func FuzzRepaired(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":7,"error":{"data":1},"result":{"parts":[{"kind":"x"},null],"kind":5}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		once := repair(in)
		require.Equal(t, string(once), string(repair(once)))
	})
}
