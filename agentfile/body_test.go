package agentfile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/internal/testing/must"
)

func TestWriteBody(t *testing.T) {
	for name, c := range map[string]struct{ old, read, text, want string }{
		"plain":             {"---\nname: a\n---\nOld.\n", "Old.", "New.\n\nMore.", "---\nname: a\n---\nNew.\n\nMore.\n"},
		"blank lines":       {"---\nname: a\n---\n\n\nOld.\n\n\n", "Old.", "\nNew.\n", "---\nname: a\n---\n\n\nNew.\n\n\n"},
		"no last newline":   {"---\nname: a\n---\nOld.", "Old.", "New.\n", "---\nname: a\n---\nNew."},
		"Windows":           {"\xef\xbb\xbf---\r\nname: a # x\r\n--- \r\n\r\nOld.\r\nTwo.\r\n", "Old.\nTwo.", "New.\nTwo.\r\nThree.", "\xef\xbb\xbf---\r\nname: a # x\r\n--- \r\n\r\nNew.\r\nTwo.\r\nThree.\r\n"},
		"no body":           {"---\nname: a\n---\n", "", "New.", "---\nname: a\n---\nNew.\n"},
		"nothing below":     {"---\nname: a\n---", "", "New.", "---\nname: a\n---\nNew.\n"},
		"blank lines alone": {"---\nname: a\n---\n\n", "", "New.", "---\nname: a\n---\n\nNew.\n"},
		"made empty":        {"---\nname: a\n---\nOld.\n", "Old.", " \n", "---\nname: a\n---\n\n"},
		"lines ---":         {"---\nname: a\n---\nOld.\n---\nTwo.\n", "Old.\n---\nTwo.", "---\nname: b\n---\nNew.", "---\nname: a\n---\n---\nname: b\n---\nNew.\n"},
		"spaces":            {"---\nname: a\n---\n  \n  Old.\n", "  Old.", "  New.", "---\nname: a\n---\n  \n  New.\n"},
		"the same twice":    {"---\nname: a\n---\nname: a\n", "name: a", "name: a", "---\nname: a\n---\nname: a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.md")
			require.NoError(t, os.WriteFile(file, []byte(c.old), 0o640))
			b, err := agentfile.ReadBody(file)
			require.NoError(t, err)
			require.Equal(t, c.read, b.Text)
			got, err := agentfile.WriteBody(file, agentfile.Body{Text: c.text, Version: b.Version})
			require.NoError(t, err)
			data := must.Get(os.ReadFile(file))
			require.Equal(t, c.want, string(data))
			again, err := agentfile.ReadBody(file)
			require.NoError(t, err)
			require.Equal(t, again, got)
			_, err = agentfile.WriteBody(file, agentfile.Body{Text: "Other.", Version: b.Version})
			if c.want != c.old {
				require.ErrorIs(t, err, agentfile.ErrChanged)
			}
			if info, err := os.Stat(file); runtime.GOOS != "windows" {
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
			}
		})
	}
}

// A link stays a link, and what cannot be written changes nothing.
func TestWriteBodyRefused(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "a.md"), filepath.Join(dir, "b.md")
	const old = "---\nname: a\n---\nOld.\n"
	require.NoError(t, os.WriteFile(file, []byte(old), 0o600))
	b, err := agentfile.ReadBody(file)
	require.NoError(t, err)
	for text, says := range map[string]string{"bad \xff": "not UTF-8", strings.Repeat("x", 1<<20): "larger than 1 MiB", "a\r\r\nb": "read as another one"} {
		_, err := agentfile.WriteBody(file, agentfile.Body{Text: text, Version: b.Version})
		require.ErrorContains(t, err, says)
	}
	data := must.Get(os.ReadFile(file))
	require.Equal(t, old, string(data))
	err = os.Symlink(file, link)
	if err == nil {
		_, err = os.ReadFile(link)
	}
	if err != nil {
		t.Skip("this system does not allow symbolic links")
	}
	_, err = agentfile.WriteBody(link, agentfile.Body{Text: "New.", Version: b.Version})
	require.NoError(t, err)
	data, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "---\nname: a\n---\nNew.\n", string(data))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, os.ModeSymlink, info.Mode().Type())
	all := must.Get(os.ReadDir(dir))
	require.Len(t, all, 2, "no other file stays")
	for name, text := range map[string]string{"none.md": "", "plain.md": "No front matter.\n"} {
		if text != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		_, err := agentfile.ReadBody(filepath.Join(dir, name))
		require.ErrorContains(t, err, name)
	}
}
