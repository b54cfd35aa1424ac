// Package peerfolder finds third-party programs, from npm and PyPI, that a folder of this repository lists for tests.
// Tests are skipped if they are not installed, and fail in CI.
package peerfolder

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Folder is a folder with package.json and requirements.txt.
type Folder struct {
	// Path is the path of the folder, and Name its path in the repository.
	Path, Name string
	// Of names what the peers implement, such as "the Model Context Protocol".
	Of string
	// Probe is an npm package whose folder exists if the packages are installed.
	Probe string
}

// Node returns the command of Node.js and the path of a script in the folder. It first checks that the packages are
// installed.
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
// the folder. As with Node.js, a Python must be in the search path, too.
func (f Folder) Python(t testing.TB, script string) (python, path string) {
	t.Helper()
	python = filepath.Join(f.Path, "venv", "bin", "python")
	_, err := exec.LookPath("python3")
	if _, missing := os.Stat(python); err == nil {
		err = missing
	}
	f.skip(t, err, "with Python 3.10 or later: python3 -m venv "+f.Name+"/venv && "+f.Name+"/venv/bin/pip install -r "+f.Name+"/requirements.txt")
	return python, filepath.Join(f.Path, script)
}

// Browser checks that one of these browsers is installed, and the programs in web/inspector that open pages in it.
func Browser(t testing.TB, programs ...string) {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	f := Folder{Path: filepath.Join(filepath.Dir(file), "../../../web/inspector"), Name: "web/inspector", Of: "the page", Probe: "playwright-core"}
	f.Node(t)
	var err error
	for _, program := range programs {
		if _, err = exec.LookPath(program); err == nil {
			return
		}
	}
	f.skip(t, err, "apt-get install "+programs[0])
}

// Chromium is Browser for Chromium. Its headless shell takes two thirds of the processor time.
func Chromium(t testing.TB) {
	t.Helper()
	Browser(t, "chromium-headless-shell", "chromium")
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
