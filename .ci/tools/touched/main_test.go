package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, value := range map[string]string{"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
		"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"} {
		t.Setenv(name, value)
	}
	write := func(names ...string) {
		for _, name := range names {
			require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
			text := "package " + filepath.Base(filepath.Dir(name))
			switch {
			case strings.HasSuffix(name, "go.mod"):
				text = "module example.com/m\n\ngo 1.26\n"
			case strings.HasPrefix(name, "user"):
				text += "\n\nimport _ \"example.com/m/a\"\n"
			}
			require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		}
	}
	run := func(args ...string) {
		_, err := output("git", args...)
		require.NoError(t, err)
	}
	commit := func(names ...string) {
		write(names...)
		run("add", "-A")
		run("commit", "-qm", "x")
	}
	touches := func(packages, importers, modules string) {
		t.Helper()
		c, err := find()
		require.NoError(t, err)
		require.Equal(t, []string{packages, importers, modules}, []string{strings.Join(c.packages, " "), strings.Join(c.importers, " "), strings.Join(c.modules, " ")})
	}
	run("init", "-qb", "main")
	commit("go.mod", "a/a.go", "b/b.go", "user/user.go", "usertest/x_test.go", "internal/testing/doctest/x_test.go", "engine/go.mod", "engine/y/y.go", ".ci/run")
	commit("b/b2.go")
	touches("./b", "", "")
	run("checkout", "-qb", "change")
	commit("a/testdata/deep/x.txt", "a/a_test.go")
	touches("./a", "", "")
	commit("a/a3.go")
	touches("./a", "./user ./usertest", "")
	commit("docs/page.md")
	require.NoError(t, os.Remove("engine/y/y.go"))
	write("web/src/x.ts", ".ci/run2", "engine/z/z.go")
	touches("./a ./internal/testing/doctest", "./user ./usertest", ".ci/tools engine")
}
