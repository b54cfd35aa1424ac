package redact_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/redact"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"the rule of billing, 3 of 12 words": "the rule of billing, 3 of 12 words",
		"https://me:pw@example.test/a/b?key=1#x failed":                          "https://example.test/a/b failed",
		"postgres://u:p@h:5432/db?sslmode=off":                                   "postgres://h:5432/db",
		"https://%zz:pw@h/":                                                      "https://[redacted]",
		"Authorization: Bearer abcdefgh":                                         "Authorization: [redacted] [redacted]",
		"sent Bearer abcdefgh.ijk-l to it":                                       "sent Bearer [redacted] to it",
		`{"api_key": "a b c", "n": 1}`:                                           `{"api_key": [redacted], "n": 1}`,
		"password=hunter2; next":                                                 "password=[redacted]; next",
		"MY_SECRET: x1":                                                          "MY_SECRET: [redacted]",
		"key sk-proj-abcdefgh12345 is wrong":                                     "key [redacted] is wrong",
		"ghp_abcdefghijklmnop1234, AKIAABCDEFGHIJKLMNOP":                         "[redacted], [redacted]",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln":                              "[redacted]",
		"0123456789abcdef0123456789abcdef":                                       "[redacted]",
		"https://example.test/hooks/sk-abcdefgh12345678":                         "https:[redacted]",
		"ask ann.b+c@example.co.uk about it":                                     "ask [redacted] about it",
		"turn 0b9c2c1e-5f0e-4b53-9d0a-6a4b8f0f9f11 of h0a1b2c3d-abcdefghijkl":    "turn 0b9c2c1e-5f0e-4b53-9d0a-6a4b8f0f9f11 of h0a1b2c3d-abcdefghijkl",
		"a-very-long-name-of-an-agent-with-many-words-1/and_its_path/to_nowhere": "a-very-long-name-of-an-agent-with-many-words-1/and_its_path/to_nowhere",
		"basic facts, a token of thanks":                                         "basic facts, a token of thanks",
	} {
		require.Equal(t, want, redact.Text(text), text)
		require.Equal(t, want, redact.Text(redact.Text(text)), "again: %s", text)
	}
}
