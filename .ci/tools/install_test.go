package tools

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// TestInstall follows the README's lines for installation on a machine without the repository and without a network: the
// module comes from a folder that is laid out as a proxy, made of the commit that is checked out. The modules that it
// requires are those that this machine has. The go command says what it would compile, and compiles nothing: in another
// folder it would compile every dependency again, for minutes, from the same files that the step build compiles.
func TestInstall(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	const path = "github.com/agentarbor/arbor"
	install, get := "go install "+path+"/cmd/arbor@latest", "go get "+path+"@latest"
	for _, line := range []string{install, get} {
		require.Contains(t, string(readme), line)
	}

	proxy := filepath.Join(t.TempDir(), filepath.FromSlash(path), "@v")
	require.NoError(t, os.MkdirAll(proxy, 0o700))
	version := module.Version{Path: path, Version: "v0.1.0"}
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	require.NoError(t, err)
	for name, text := range map[string]string{"list": version.Version + "\n", version.Version + ".mod": string(mod),
		version.Version + ".info": `{"Version":"` + version.Version + `","Time":"2026-01-01T00:00:00Z"}`} {
		require.NoError(t, os.WriteFile(filepath.Join(proxy, name), []byte(text), 0o600))
	}
	file, err := os.Create(filepath.Join(proxy, version.Version+".zip"))
	require.NoError(t, err)
	require.NoError(t, modzip.Create(file, version, tracked(t, filepath.Join("..", ".."))))
	info, err := file.Stat()
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(8<<20), "what everybody downloads has grown")
	require.NoError(t, file.Close())

	machine, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	require.NoError(t, err)
	cache, home := moduleCache(t, strings.TrimSpace(string(machine))), t.TempDir()
	env := append(os.Environ(), "HOME="+home, "GOPATH="+filepath.Join(home, "go"), "GOMODCACHE="+cache, "GOFLAGS=-modcacherw", "GOWORK=off",
		"GOPROXY=file://"+filepath.ToSlash(filepath.Join(proxy, "..", "..", "..", ".."))+",file://"+strings.TrimSpace(string(machine))+"/cache/download",
		"GOSUMDB=off", "GOTOOLCHAIN=local")
	goCommand := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = home, env
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "go %v: %s", args, out)
		return string(out)
	}
	words := func(line string) []string { return strings.Fields(line)[1:] }
	out := goCommand(append([]string{"install", "-n"}, words(install)[1:]...)...)
	require.Contains(t, out, path+"@"+version.Version)
	require.Contains(t, out, filepath.Join(home, "go", "bin", "arbor"))

	require.NoError(t, os.WriteFile(filepath.Join(home, "main.go"), []byte("package main\n\nimport _ \""+path+"/runner\"\n\nfunc main() {}\n"), 0o600))
	goCommand("mod", "init", "example.com/reader")
	goCommand(words(get)...)
	goCommand("mod", "tidy", "-e") // it also looks for what tests of dependencies import, which no test here needs
	require.Contains(t, goCommand("list", "-deps", "./..."), path+"/llm\n")
	require.Contains(t, goCommand("list", "-m", path), version.Version)
}

// source is a file of the repository that git knows; other modules in it are left out by package zip.
type source struct{ root, name string }

func (f source) Path() string                 { return f.name }
func (f source) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(f.root, f.name)) }
func (f source) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.root, f.name)) }

func tracked(t *testing.T, root string) (files []modzip.File) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate").Output()
	require.NoError(t, err)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if info, err := os.Lstat(filepath.Join(root, name)); err == nil && info.Mode().IsRegular() {
			files = append(files, source{root, name})
		}
	}
	return files
}

// moduleCache returns a folder that shows the modules of another, but for those of this repository, by links.
func moduleCache(t *testing.T, machine string) string {
	t.Helper()
	cache := t.TempDir()
	show := func(dir, without string) {
		require.NoError(t, os.MkdirAll(filepath.Join(cache, dir), 0o700))
		entries, err := os.ReadDir(filepath.Join(machine, dir))
		require.NoError(t, err)
		for _, e := range entries {
			if name := filepath.Join(dir, e.Name()); e.Name() != without {
				require.NoError(t, os.Symlink(filepath.Join(machine, name), filepath.Join(cache, name)))
			}
		}
	}
	mods, downloads := "github.com", filepath.Join("cache", "download")
	for dir, without := range map[string]string{mods: "agentarbor", downloads: "github.com", filepath.Join(downloads, "github.com"): "agentarbor"} {
		show(dir, without)
	}
	entries, err := os.ReadDir(machine)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Name() != "cache" && e.Name() != mods {
			require.NoError(t, os.Symlink(filepath.Join(machine, e.Name()), filepath.Join(cache, e.Name())))
		}
	}
	return cache
}
