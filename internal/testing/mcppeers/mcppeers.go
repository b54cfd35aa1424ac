// Package mcppeers contains third-party servers and clients of the Model Context Protocol, from npm and PyPI, for tests
// of packages that implement it. Tests are skipped if they are not installed, and fail in CI.
package mcppeers

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/agentarbor/arbor/internal/testing/peerfolder"
)

// Folder returns the folder of the peers.
func Folder() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

func folder() peerfolder.Folder {
	return peerfolder.Folder{Path: Folder(), Name: "internal/testing/mcppeers", Of: "the Model Context Protocol", Probe: "@modelcontextprotocol/sdk"}
}

// Node returns the command of Node.js and the path of a script in the folder. It first checks that the packages are
// installed.
func Node(t testing.TB, script ...string) (node, path string) {
	t.Helper()
	return folder().Node(t, script...)
}

// Python returns the command of the Python that has the packages, and the path of a script in
// the folder.
func Python(t testing.TB, script string) (python, path string) {
	t.Helper()
	return folder().Python(t, script)
}
