package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGraphSummaryFallback: a fallback that was asked is shown with what became of it.
func TestGraphSummaryFallback(t *testing.T) {
	t.Parallel()
	graph := strings.Replace(triage, "  entrypoint", "  errorHandling: {fallbackAgent: general}\n  entrypoint", 1)
	f := files(t, map[string]string{"g.yaml": graph,
		"saves.yaml": "classifier: {output: {intent: billing}}\nbilling: {error: is down}\ngeneral: {output: sorry}\n",
		"fails.yaml": "classifier: {output: {intent: billing}}\nbilling: {error: is down}\ngeneral: {error: is down too}\n"})
	for mocks, want := range map[string]outcome{
		"saves.yaml": {0, "classifier  done       {\"intent\":\"billing\"}\nbilling     failed     is down\ngeneral     done       \"sorry\"\nstatus: recovered\n", ""},
		"fails.yaml": {3, "classifier  done       {\"intent\":\"billing\"}\nbilling     failed     is down\ngeneral     failed     is down too\nstatus: failed\n",
			"arbor: agent billing: is down; and the fallback general failed: is down too\n"},
	} {
		require.Equal(t, want, invocation{}.run(t, "graph", "run", f["g.yaml"], "--mock", f[mocks], "--input", "{}"))
	}
}

// TestGraphSummaryLongID: one long id does not push everything else off the screen.
func TestGraphSummaryLongID(t *testing.T) {
	t.Parallel()
	f := files(t, map[string]string{"g.yaml": strings.ReplaceAll(triage, "general", strings.Repeat("x", 500)),
		"m.yaml": "classifier: {output: {intent: billing}}\nbilling: {output: 1}\n" + strings.Repeat("x", 500) + ": {output: 1}\n"})
	got := invocation{}.run(t, "graph", "run", f["g.yaml"], "--mock", f["m.yaml"], "--input", "{}")
	require.Equal(t, 0, got.status, got.err)
	for line := range strings.Lines(got.out) {
		require.Less(t, len(line), 160)
	}
}
