package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/exampletest"
	"github.com/agentarbor/arbor/llm/offline"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestEndpoint(t *testing.T) {
	env, requests := exampletest.Endpoint(t)
	out, errs, err := exampletest.Run(t, env)
	require.NoError(t, err, errs)
	require.Contains(t, out, `billing: refund_charge returned "Charge ch_1004 is refunded.".`)
	require.NotZero(t, requests())
}

// The conversation crosses to the other tree, waits there for the user's approval, and
// continues with it.
func TestExample(t *testing.T) {
	var out strings.Builder
	require.NoError(t, converse(t.Context(), &out, offline.New(), "I was charged twice, please refund charge ch_1004", "yes"))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Equal(t, "user: I was charged twice, please refund charge ch_1004", lines[0])
	require.Equal(t, "support → billing (charged, twice)", lines[1])
	require.Regexp(t, `^billing: The tool refund_charge wants to run with .*"ch_1004".*yes.*no`, lines[2])
	require.Equal(t, []string{"user: yes", `billing: refund_charge returned "Charge ch_1004 is refunded.".`}, lines[len(lines)-2:])
}

// What the other tree is not for stays in this one.
func TestOwnSpecialist(t *testing.T) {
	var out strings.Builder
	require.NoError(t, converse(t.Context(), &out, offline.New(), "My router is slow"))
	require.Contains(t, out.String(), "support → tech (")
}
