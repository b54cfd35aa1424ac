package tools

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWorkflow: the parts of the workflow together run every step, and name no other.
func TestWorkflow(t *testing.T) {
	read := func(names ...string) string {
		text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, names...)...))
		require.NoError(t, err)
		return string(text)
	}
	list, _, ok := strings.Cut(read(".ci", "steps"), "\n)\n")
	require.True(t, ok)
	var steps, parts []string
	for _, m := range regexp.MustCompile(`(?m)^\t"(\w+) +\d+"$`).FindAllStringSubmatch(list, -1) {
		steps = append(steps, m[1])
	}
	for _, m := range regexp.MustCompile(`(?m)^ {10}- ([a-z ]+)$`).FindAllStringSubmatch(read(".github", "workflows", "ci.yml"), -1) {
		for _, step := range strings.Fields(m[1]) {
			if step != "prepare" && step != "image" {
				parts = append(parts, step)
			}
		}
	}
	require.ElementsMatch(t, steps, append(parts, "prepare"))
}
