package cli_test

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
)

// Bounds of what one package of this module does before main, in allocations and bytes.
// A few small ones, such as errors and sync.OnceValue, are fine; a regular expression, a
// template or a schema is not.
const (
	maxInitAllocations = 64
	maxInitBytes       = 8 << 10
)

// The command starts without work of our packages: tables, regular expressions and
// templates are made when they are first used. It is counted in allocations, because
// times depend on the machine.
func TestPackagesDoNoWorkAtTheStart(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), arbor, "--version")
	cmd.Env = []string{"HOME=" + t.TempDir(), "GODEBUG=inittrace=1"}
	var trace strings.Builder
	cmd.Stderr = &trace
	require.NoError(t, cmd.Run())

	lines := regexp.MustCompile(`(?m)^init (\S+) @.*, (\d+) bytes, (\d+) allocs$`).FindAllStringSubmatch(trace.String(), -1)
	seen := 0
	for _, m := range lines {
		if !strings.HasPrefix(m[1], "github.com/agentarbor/arbor/") {
			continue
		}
		seen++
		bytes := must.Get(strconv.Atoi(m[2]))
		allocations := must.Get(strconv.Atoi(m[3]))
		if bytes > maxInitBytes || allocations > maxInitAllocations {
			t.Errorf("package %s makes %d allocations of %d bytes before main; %d and %d are allowed: make what it needs at first use", m[1], allocations, bytes, maxInitAllocations, maxInitBytes)
		}
	}
	require.Positive(t, seen, "the trace names none of our packages: %s", trace.String())
}
