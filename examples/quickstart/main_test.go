package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

func TestExample(t *testing.T) {
	out, errs, err := exampletest.Run(t, nil)
	require.NoError(t, err, errs)
	require.Regexp(t, `^support → billing \(charged, twice\)\nbilling: I am the offline model`, out)
}

func TestEndpoint(t *testing.T) {
	env, requests := exampletest.Endpoint(t)
	out, errs, err := exampletest.Run(t, env)
	require.NoError(t, err, errs)
	require.Contains(t, out, "support → billing (")
	require.Equal(t, 2, requests(), "one for each agent")
	_, errs, err = exampletest.Run(t, env[:2])
	require.Error(t, err)
	require.Contains(t, errs, "set OPENAI_MODEL")
}

// TestModules: an ordinary tree links the modules of the design card, or its tests do.
func TestModules(t *testing.T) {
	for module, args := range map[string][]string{
		"github.com/sashabaranov/go-openai": nil, "github.com/invopop/jsonschema": nil, "golang.org/x/sync": nil,
		"github.com/stretchr/testify": {"-test"},
	} {
		out, err := exec.CommandContext(t.Context(), "go", append(append([]string{"list", "-deps"}, args...), "-f", "{{with .Module}}{{.Path}}{{end}}", ".")...).Output()
		require.NoError(t, err)
		require.Contains(t, strings.Fields(string(out)), module)
	}
}
