package peerfolder_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/peerfolder"
)

// TestOnlyPackages: packages without the program that runs them are not enough. CI runs all tests again with neither
// Node.js nor Python in the search path.
func TestOnlyPackages(t *testing.T) {
	f := peerfolder.Folder{Path: t.TempDir(), Name: "somewhere", Of: "a protocol", Probe: "client"}
	require.NoError(t, os.MkdirAll(filepath.Join(f.Path, "node_modules", f.Probe), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(f.Path, "venv", "bin"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(f.Path, "venv", "bin", "python"), nil, 0o700))
	t.Setenv("CI", "")
	t.Setenv("PATH", t.TempDir())
	for name, find := range map[string]func(t *testing.T){
		"node":   func(t *testing.T) { f.Node(t, "client.mjs") },
		"python": func(t *testing.T) { f.Python(t, "client.py") },
	} {
		skipped := false
		t.Run(name, func(t *testing.T) {
			defer func() { skipped = t.Skipped() }()
			find(t)
		})
		require.True(t, skipped, name)
	}
}
