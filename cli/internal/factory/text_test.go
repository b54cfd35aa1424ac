package factory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuoteArg(t *testing.T) {
	for in, want := range map[string]string{"s-1a": "s-1a", "my tree": "'my tree'", "it's": `'it'\''s'`, "": "''", "a\"$b": `'a"$b'`} {
		require.Equal(t, want, QuoteArg(in))
	}
}

func TestWithoutPassword(t *testing.T) {
	for in, want := range map[string]string{
		"sessions.db": "sessions.db",
		"postgres://ann:s3cret@db.example.com:5432/x":     "postgres://ann@db.example.com:5432/x",
		"postgres://:s3cret@db.example.com/x":             "postgres://db.example.com/x",
		"postgres://ann@h/x?password=s3cret&sslmode=full": "postgres://ann@h/x?sslmode=full",
		"postgres://h/x?sslpassword=s3cret":               "postgres://h/x",
		"postgres://ann:s3%zzcret@h/x":                    "postgres://…",
		"rediss://:s3cret@h:6379/0":                       "rediss://h:6379/0",
	} {
		require.Equal(t, want, WithoutPassword(in))
	}
}
