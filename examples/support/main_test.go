package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/exampletest"
)

// TestMain makes each turn of the test a process of its own.
func TestMain(m *testing.M) { exampletest.Main(m, main) }

func support(t *testing.T, home string, args ...string) (stdout, stderr string) {
	t.Helper()
	return supportWith(t, []string{"HOME=" + home}, args...)
}

func supportWith(t *testing.T, env []string, args ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, err := exampletest.Run(t, env, args...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == cli.StatusApproval {
		err = nil
	}
	require.NoError(t, err, stderr)
	return stdout, stderr
}

// TestEndpoint: the endpoint's answers are the offline model's, and nobody is told that no model is used.
func TestEndpoint(t *testing.T) {
	env, requests := exampletest.Endpoint(t)
	out, errs := supportWith(t, append(env, "HOME="+t.TempDir()), "run", "I'm being charged twice for my subscription", "--session", "s1")
	want, err := os.ReadFile(filepath.Join("testdata", "charged_twice.golden"))
	require.NoError(t, err)
	require.Equal(t, string(want), out)
	require.Empty(t, errs)
	require.Equal(t, 3, requests())
}

// The example's first command without any endpoint: a transfer, a call, two rows
// of the database, a sentence made from them, and one line that no model is
// used.
func TestChargedTwice(t *testing.T) {
	home := t.TempDir()
	out, errs := support(t, home, "run", "I'm being charged twice for my subscription", "--session", "s1")
	want, err := os.ReadFile(filepath.Join("testdata", "charged_twice.golden"))
	require.NoError(t, err)
	require.Equal(t, string(want), out)
	require.Equal(t, 1, strings.Count(errs, "\n"), errs)
	require.True(t, strings.HasPrefix(errs, "support: no model is used"), errs)

	// The next message, in a new process, is the specialist's.
	out, errs = support(t, home, "run", "Please refund charge ch_1004", "--session", "s1")
	require.Contains(t, out, "refund_charge(charge_id=\"ch_1004\") → waits for approval")
	_, call, found := strings.Cut(errs, "--approve ")
	require.True(t, found, errs)
	call, _, _ = strings.Cut(call, ",")

	// And the refund is made by whoever approves it, in yet another one, once.
	out, _ = support(t, home, "resume", "--session", "s1", "--approve", call)
	require.Equal(t, "  refund_charge → Charge ch_1004 is refunded.\n"+
		"billing: refund_charge returned \"Charge ch_1004 is refunded.\".\n", out)
	out, _ = support(t, home, "resume", "--session", "s1", "--approve", call)
	require.Equal(t, "  refund_charge → Charge ch_1004 is refunded.\n", out)
}

func TestRouting(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"what did I order":                       "support → billing",
		"my Wi-Fi router is slow":                "tech → network",
		"the migration of my database failed":    "tech → database",
		"single sign-on fails with a bad token":  "tech → auth",
		"please change my email address":         "support → account",
		"hello, is anybody there":                "support: I am the offline model",
		"refund the charge ch_9999 that I found": "waits for approval",
	} {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			out, _ := support(t, t.TempDir(), "run", message, "--db", ":memory:")
			require.Contains(t, out, want)
		})
	}
}

func TestTreeIsSound(t *testing.T) {
	out, errs := support(t, t.TempDir(), "lint")
	require.Equal(t, "ok: 7 agents\n", out)
	require.Empty(t, errs)
}
