// Package mcppeers has servers and clients of the Model Context Protocol that others wrote,
// from npm and PyPI, for tests of packages that speak it. Tests are skipped where they are not
// installed, and fail in CI.
package mcppeers

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Folder is where the peers are.
func Folder() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// Node returns the command of Node.js and the path of a script in the folder, after a look
// for the packages.
func Node(t testing.TB, script ...string) (node, path string) {
	t.Helper()
	node, err := exec.LookPath("node")
	path = filepath.Join(append([]string{Folder()}, script...)...)
	if _, missing := os.Stat(filepath.Join(Folder(), "node_modules", "@modelcontextprotocol", "sdk")); err == nil {
		err = missing
	}
	skip(t, err, "peers of the Model Context Protocol are not installed; with Node.js 20 or later: npm --prefix internal/mcppeers ci --ignore-scripts")
	return node, path
}

// Python returns the command of the Python that has the packages, and the path of a script in
// the folder.
func Python(t testing.TB, script string) (python, path string) {
	t.Helper()
	python = filepath.Join(Folder(), "venv", "bin", "python")
	_, err := os.Stat(python)
	skip(t, err, "peers of the Model Context Protocol are not installed; with Python 3.10 or later: python3 -m venv internal/mcppeers/venv && internal/mcppeers/venv/bin/pip install -r internal/mcppeers/requirements.txt")
	return python, filepath.Join(Folder(), script)
}

func skip(t testing.TB, err error, missing string) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal(missing)
	default:
		t.Skip(missing)
	}
}
