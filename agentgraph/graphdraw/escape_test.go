package graphdraw

import (
	"bufio"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Texts are written as encoding/xml writes them.
func FuzzEscape(f *testing.F) {
	for _, seed := range []string{"", "a <b> & \"c\" 'd'", "\x00\x1f\t\n\r\x7f\x85", "\xff\xc3(", "\ufffd\ufffe\uffff\U0001F600\ud7ff\ue000", "]]>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want, got strings.Builder
		require.NoError(t, xml.EscapeText(&want, []byte(text)))
		b := bufio.NewWriter(&got)
		escape(b, text)
		require.NoError(t, b.Flush())
		require.Equal(t, want.String(), got.String())
	})
}
