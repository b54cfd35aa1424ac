package nearest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"db", "", 2}, {"sesion", "session", 1}, {"jsno", "json", 1}, {"format", "format", 0}, {"äb", "bä", 1}} {
		require.Equal(t, tt.want, distance([]rune(tt.a), []rune(tt.b)))
		require.Equal(t, tt.want, distance([]rune(tt.b), []rune(tt.a)))
	}
}

func TestOf(t *testing.T) {
	known := []string{"billing", "fail-fast", "tech", "teck", "ab"}
	for name, want := range map[string]string{
		"Biling ": "billing", "fail_fast": "fail-fast", "failfast": "fail-fast", "tecl": "tech", "a": "ab", "support": "", "": "", "b": "ab",
		strings.Repeat("billing", 20): "", "billing_agent": "",
	} {
		require.Equal(t, want, Of(name, known), name)
	}
	require.Equal(t, "billing", Within("billing_agent", known, 6))
	require.Equal(t, `; did you mean "a \"b\""?`, Hint(`a "b`, []string{`a "b"`}))
	require.Empty(t, Hint("x", []string{"billing", strings.Repeat("x", 300)}))
}
