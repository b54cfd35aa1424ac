package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/router"
)

func TestExample(t *testing.T) {
	var out strings.Builder
	require.NoError(t, converse(t.Context(), &out, "I want a refund", "Thank you", "My screen is black"))
	require.Equal(t, `I want a refund: front → billing (keyword "refund")
Thank you: front → billing (no rule matches: billing stays in charge)
My screen is black: front → support (a device)
`, out.String())
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
