package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuoteArg(t *testing.T) {
	for in, want := range map[string]string{"s-1a": "s-1a", "my tree": "'my tree'", "it's": `'it'\''s'`, "": "''", "a\"$b": `'a"$b'`} {
		require.Equal(t, want, quoteArg(in))
	}
}
