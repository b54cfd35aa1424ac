package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/runner"
)

// A program registers the guards that its files name, and what runners need besides; the command
// sees through what a file puts around a router or a remote agent.
func TestPropertiesInFiles(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"front.yaml": {Data: []byte("kind: Router\ndefault: solo\nguards: [no-cards]\nbudgets: {session: {cost: 0.5}}\nspecialists:\n  - {agent: solo}\n  - {agent: far}\n")},
		"solo.md":    {Data: []byte("---\nbudgets: {tokens: 90000}\n---\n")},
		"far.md":     {Data: []byte("---\na2a: http://127.0.0.1:1\nguards: [no-cards]\n---\n")},
	}
	say := func(opts []cli.Option, args ...string) (status int, out, errs string) {
		var stdout, stderr bytes.Buffer
		streams := cli.Streams{Stdout: &stdout, Stderr: &stderr}
		status = cli.Run(t.Context(), args, streams, append(opts, cli.WithFiles(files, "front.yaml"))...)
		return status, stdout.String(), stderr.String()
	}
	guards := []cli.Option{cli.WithGuards(agent.Guard{Name: "no-cards"})}
	status, _, errs := say(nil, "tree")
	require.Equal(t, cli.StatusUsage, status)
	require.Contains(t, errs, `front.yaml:3: there is no guard "no-cards"`)
	status, out, errs := say(guards, "lint")
	require.Equal(t, 0, status, errs)
	require.Equal(t, "ok: 3 agents, 1 router with 0 rules\n", out)
	_, out, _ = say(guards, "tree")
	require.Contains(t, out, "else → solo")
	require.Contains(t, out, "http://127.0.0.1:1")

	// A budget of cost needs prices, from a file or from the program.
	status, _, errs = say(guards, "run", "hi", "--db", ":memory:")
	require.Equal(t, cli.StatusUsage, status)
	require.Contains(t, errs, "has no price, so the budget of cost cannot be enforced; set the price with --prices FILE")
	prices := filepath.Join(t.TempDir(), "prices.yaml")
	require.NoError(t, os.WriteFile(prices, []byte("offline: {input: 1, output: 1}\n"), 0o600))
	status, out, errs = say(guards, "run", "hi", "--db", ":memory:", "--prices", prices)
	require.Equal(t, 0, status, errs)
	require.Contains(t, out, "solo: ")
	status, _, errs = say(append(guards, cli.WithRunnerOptions(runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Tokens: 1}}))), "run", "hi", "--db", ":memory:", "--prices", prices)
	require.Equal(t, cli.StatusLimit, status, errs)
	status, _, errs = say(guards, "run", "hi", "--db", ":memory:", "--prices", prices+"x")
	require.Equal(t, cli.StatusUsage, status)
	require.Contains(t, errs, "--prices")
}
