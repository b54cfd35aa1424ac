package yamldoc

import (
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/stretchr/testify/require"
)

func TestNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"1e3":                  "1e3",
		"1e-07":                "1e-07",
		"-1E+16":               "-1E+16",
		"18446744073709551616": "18446744073709551616",
		"-9223372036854775809": "-9223372036854775809",
		`"1e3"`:                "",
		"'1e3'":                "",
		"1e":                   "",
		"1e3x":                 "",
		"012e1":                "",
		"1e400":                "",
		"12:30":                "",
	} {
		f, err := parser.ParseBytes([]byte(text), 0)
		require.NoError(t, err)
		n, ok := f.Docs[0].Body.(*ast.StringNode)
		require.True(t, ok, "the parser has learnt to read %s", text)
		got, isNumber := number(n)
		require.Equal(t, want, string(got), text)
		require.Equal(t, want != "", isNumber, text)
	}
}
