package agentgraph

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPages compares the page about the format with the codes and the keys.
func TestPages(t *testing.T) {
	page, err := os.ReadFile("../docs/agentgraph-format.md")
	require.NoError(t, err)
	_, problems, ok := strings.Cut(string(page), "\n## Problems\n")
	require.True(t, ok)
	problems, _, _ = strings.Cut(problems, "\n## ")
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(problems, -1) {
		rows = append(rows, m[1])
	}
	source, err := os.ReadFile("problem.go")
	require.NoError(t, err)
	var codes []string
	for _, m := range regexp.MustCompile(`(?m)^\tCode\w+ +Code = "(\w+)"`).FindAllSubmatch(source, -1) {
		codes = append(codes, string(m[1]))
	}
	require.Len(t, codes, 17)
	require.ElementsMatch(t, codes, rows)

	for prefix, table := range map[string]table{"metadata.": metadataKeys, "spec.": specKeys, "spec.agents[].": agentKeys, "spec.edges[].": edgeKeys, "spec.errorHandling.": errorKeys,
		"spec. ": arborSpecKeys, "spec.agents[]. ": arborAgentKeys, "spec.edges[]. ": arborEdgeKeys} {
		prefix = strings.TrimSuffix(prefix, " ") // of the tables of arbor/v1
		for _, key := range table.names() {
			if prefix+key != "spec.errorHandling" { // its own keys are listed
				require.Contains(t, string(page), "`"+prefix+key+"`")
			}
		}
	}
}
