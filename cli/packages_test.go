package cli_test

import (
	"go/parser"
	gotoken "go/token" // token is a constant of this package
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// The root imports the nouns, a noun imports what all nouns share, and no arrow runs back up.
func TestNounsImportNoNoun(t *testing.T) {
	shared := []string{"watch", "revisions", "factory", "reload", "remote", "prompt", "turn"} // each imports only what stands before it
	files := must.Get(filepath.Glob("internal/*/*.go"))
	require.NotEmpty(t, files)
	for _, path := range files {
		file := must.Get(parser.ParseFile(gotoken.NewFileSet(), path, nil, parser.ImportsOnly))
		own := slices.Index(shared, filepath.Base(filepath.Dir(path)))
		for _, i := range file.Imports {
			_, name, below := strings.Cut(strings.Trim(i.Path.Value, `"`), "/cli/internal/")
			if at := slices.Index(shared, name); below {
				require.True(t, at >= 0 && (own < 0 || at < own), "%s imports %s", path, name)
			}
		}
	}
}

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
