package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRequirementsNameTests checks that docs/requirements.md names tests and
// transcripts that exist, and that a requirement without one is called open.
func TestRequirementsNameTests(t *testing.T) {
	page, err := os.ReadFile("../../../docs/requirements.md")
	require.NoError(t, err)
	reference := regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)(?:/([a-z-]+))?`")
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| S") && !strings.HasPrefix(line, "| C-") {
			continue
		}
		rows++
		shown := line[strings.LastIndex(strings.TrimRight(line, " |\n"), "|"):]
		refs := reference.FindAllStringSubmatch(shown, -1)
		if len(refs) == 0 {
			require.Contains(t, shown, "Open:", "%s", line)
		}
		for _, ref := range refs {
			require.True(t, hasTest(t, ref[1], ref[2]), "%s is nowhere in %s", ref[2], ref[1])
			if ref[2] == "TestTranscripts" && ref[3] != "" {
				require.FileExists(t, filepath.Join("../../../runner/testdata/transfer", ref[3]+".txtar"))
			}
		}
	}
	require.Positive(t, rows)
}

func hasTest(t *testing.T, folder, name string) bool {
	files, err := filepath.Glob(filepath.Join("../../..", folder, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(source), "\nfunc "+name+"(t *testing.T)") {
			return true
		}
	}
	return false
}
