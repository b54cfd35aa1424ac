// Package peerfolder finds the programs of others, from npm and PyPI, that tests talk to: those that
// a folder of this repository lists. Tests are skipped where they are not installed, and fail in CI.
package peerfolder

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Folder is a folder with package.json and requirements.txt.
type Folder struct {
	// Path is where it is, and Name where it is in the repository.
	Path, Name string
	// Of says whose peers they are, such as "the Model Context Protocol".
	Of string
	// Probe is a package of npm whose folder is there if they were installed.
	Probe string
}

// Node returns the command of Node.js and the path of a script in the folder, after a look
// for the packages.
func (f Folder) Node(t testing.TB, script ...string) (node, path string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if _, missing := os.Stat(filepath.Join(f.Path, "node_modules", filepath.FromSlash(f.Probe))); err == nil {
		err = missing
	}
	f.skip(t, err, "with Node.js 20 or later: npm --prefix "+f.Name+" ci --ignore-scripts")
	return node, filepath.Join(append([]string{f.Path}, script...)...)
}

// Python returns the command of the Python that has the packages, and the path of a script in
// the folder.
func (f Folder) Python(t testing.TB, script string) (python, path string) {
	t.Helper()
	python = filepath.Join(f.Path, "venv", "bin", "python")
	_, err := os.Stat(python)
	f.skip(t, err, "with Python 3.10 or later: python3 -m venv "+f.Name+"/venv && "+f.Name+"/venv/bin/pip install -r "+f.Name+"/requirements.txt")
	return python, filepath.Join(f.Path, script)
}

func (f Folder) skip(t testing.TB, err error, install string) {
	t.Helper()
	switch missing := "peers of " + f.Of + " are not installed; " + install; {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatal(missing)
	default:
		t.Skip(missing)
	}
}
