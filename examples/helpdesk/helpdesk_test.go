package helpdesk_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/exampletest"
)

// TestExample runs the README's command, offline and with an endpoint.
func TestExample(t *testing.T) {
	env, requests := exampletest.Endpoint(t)
	for _, env := range [][]string{nil, env} {
		before := requests()
		var out, errs bytes.Buffer
		streams := cli.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: exampletest.Getenv(env)}
		status := cli.Run(t.Context(), []string{"run", ".", "I was charged twice", "--db", ":memory:"}, streams)
		require.Equal(t, cli.StatusAnswered, status, errs.String())
		require.Contains(t, out.String(), "support → billing")
		require.Equal(t, env == nil, strings.Contains(errs.String(), "no model is used"))
		require.Equal(t, env != nil, requests() > before)
	}
}
