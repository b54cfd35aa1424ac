package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/internal/testing/exampletest"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/router"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// Rules decide, whether the offline model answers or an endpoint does.
func TestExample(t *testing.T) {
	env, requests := exampletest.Endpoint(t)
	for _, env := range [][]string{nil, env} {
		out, errs, err := exampletest.Run(t, env)
		require.NoError(t, err, errs)
		require.Regexp(t, `^I want a refund: front → billing \(keyword "refund"\)
billing: .*
Thank you: front → billing \(no rule matches: billing stays in charge\)
billing: .*
My screen is black: front → support \(a device\)
support: .*
$`, out)
	}
	require.Equal(t, 3, requests(), "one for each message")
}

// The files say the same as the program, and have a way to a person besides.
func TestFiles(t *testing.T) {
	tree, err := agentfile.Load("desk/front.yaml", agentfile.WithModel(func(string) (llm.Model, error) { return offline.New(), nil }))
	require.NoError(t, err)
	require.NotNil(t, tree.Index().Root().Human())
	for message, want := range map[string]string{"I want a refund": "billing", "My screen is black": "support", "Thank you": "support", "I want to talk to a person": "human"} {
		d, err := tree.Root().(*router.Router).Explain(t.Context(), message, nil, nil)
		require.NoError(t, err)
		require.Equal(t, want, d.To, message)
	}
}
