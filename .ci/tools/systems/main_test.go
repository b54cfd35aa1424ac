package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A name that exists on one system only is found where it is missing, in packages and in their tests.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":          "module example.com/m\n\ngo 1.26\n",
		"kill.go":         "package m\n\nimport \"syscall\"\n\nvar _ = syscall.Kill\n",
		"sub/sub.go":      "package sub\n",
		"sub/sub_test.go": "package sub\n\nimport \"syscall\"\n\nvar _ = syscall.Kill\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	faults, err := check(dir, "windows")
	require.NoError(t, err)
	require.Equal(t, []string{"kill.go:5:17: undefined: syscall.Kill", "sub/sub_test.go:5:17: undefined: syscall.Kill"}, faults)
	faults, err = check(dir, "darwin")
	require.NoError(t, err)
	require.Empty(t, faults)
}
