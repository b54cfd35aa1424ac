package telemetry

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// docs/telemetry.md names every attribute and every metric, and no others.
func TestThePageIsComplete(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/telemetry.md"))
	named := make(map[string]bool)
	for _, m := range regexp.MustCompile("`((?:gen_ai|arbor|error|user|http)\\.[a-z_.]+)`").FindAllStringSubmatch(string(page), -1) {
		named[m[1]] = true
	}
	all := func(string) bool { return true }
	want := append(constants(t, "key", all), constants(t, "metric", all)...)
	var got []string
	for name := range named {
		got = append(got, name)
	}
	require.ElementsMatch(t, want, got)
}
