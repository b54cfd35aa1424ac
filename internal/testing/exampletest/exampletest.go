// Package exampletest runs the examples in tests, offline and against an endpoint on loopback.
package exampletest

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
)

// Endpoint serves the offline model until the test ends. It returns the three variables that select it, and a function
// that returns the number of requests. The endpoint refuses every other key and model.
func Endpoint(t testing.TB) (env []string, requests func() int) {
	const key = "a-key"
	model := offline.New()
	server, err := endpoint.Start(endpoint.Models(model), endpoint.WithAPIKey(key), endpoint.WithRecording())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return []string{"OPENAI_BASE_URL=" + server.URL(), "OPENAI_API_KEY=" + key, "OPENAI_MODEL=" + model.Name()},
		func() int { return len(server.Requests()) }
}

// Setenv sets the three variables in the process of the test, until the test ends. Without env they are empty.
func Setenv(t testing.TB, env ...string) {
	for _, name := range []string{"OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"} {
		t.Setenv(name, Getenv(env)(name))
	}
}

// Getenv returns a function that looks up the variables.
func Getenv(env []string) func(name string) string {
	return func(name string) string {
		for _, v := range env {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

const program = "ARBOR_EXAMPLE_PROGRAM"

// Main is for TestMain. It runs main in a process that [Run] has started, and the tests in any other process.
func Main(m *testing.M, main func()) {
	if os.Getenv(program) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Run runs the example in its own process, with only these variables. The error is that of package exec.
func Run(t testing.TB, env []string, args ...string) (stdout, stderr string, err error) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append([]string{program + "=1"}, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}
