package agentgraph

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// TestPages compares the page about the format with the codes and the keys.
func TestPages(t *testing.T) {
	page := must.Get(os.ReadFile("../docs/agentgraph-format.md"))
	_, problems, ok := strings.Cut(string(page), "\n## Problems\n")
	require.True(t, ok)
	problems, _, _ = strings.Cut(problems, "\n## ")
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(problems, -1) {
		rows = append(rows, m[1])
	}
	source := must.Get(os.ReadFile("problem.go"))
	var codes []string
	for _, m := range regexp.MustCompile(`(?m)^\t[cC]ode\w+ +Code = "(\w+)"`).FindAllSubmatch(source, -1) {
		codes = append(codes, string(m[1]))
	}
	require.Len(t, codes, 17)
	require.ElementsMatch(t, codes, rows)

	var schema struct {
		Defs map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(Schema(), &schema))
	for name, prefix := range map[string]string{"metadata": "metadata.", "spec": "spec.", "agent": "spec.agents[].", "edge": "spec.edges[].",
		"errorHandling": "spec.errorHandling.", "arborSpec": "spec.", "arborAgent": "spec.agents[].", "arborEdge": "spec.edges[]."} {
		require.NotEmpty(t, schema.Defs[name].Properties)
		for key := range schema.Defs[name].Properties {
			if prefix+key != "spec.errorHandling" { // its own keys are listed
				require.Contains(t, string(page), "`"+prefix+key+"`")
			}
		}
	}
}
