package sqlite_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/storetest"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// asNobody plays a role in another process, which is no root even if the test is,
// and returns the error's text, and what it printed.
func asNobody(t *testing.T, role, path string) (text, printed string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe") // whatever the permissions on the way to the test's program
	cmd.Env = append(os.Environ(), "ARBOR_TEST_ROLE="+role, "ARBOR_TEST_PLACE="+path, "ARBOR_TEST_NAME=s")
	cmd.Dir = "/"
	cmd.Stdin = strings.NewReader("\n")
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Run(), &exit, stderr.String())
	require.Equal(t, 1, exit.ExitCode(), stderr.String())
	return strings.TrimSpace(stderr.String()), stdout.String()
}

// openFolder returns a folder that another user can enter.
func openFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} { // the other user must get here
		require.NoError(t, os.Chmod(d, 0o755))
	}
	if os.Getuid() == 0 {
		for d := dir; d != "/"; d = filepath.Dir(d) {
			info := must.Get(os.Stat(d))
			if info.Mode().Perm()&1 == 0 {
				t.Skipf("another user cannot enter %s", d)
			}
		}
	}
	return dir
}

func TestPermissions(t *testing.T) {
	dir := openFolder(t)
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	folder := func(name string, mode os.FileMode) string {
		require.NoError(t, os.Mkdir(at(name), 0o755))
		t.Cleanup(func() { _ = os.Chmod(at(name), 0o755) })
		if mode == 0 {
			open(t, at(name, "x.db"))
		}
		require.NoError(t, os.Chmod(at(name), mode))
		return name
	}
	file := func(name string, fileMode, folderMode os.FileMode) string {
		require.NoError(t, os.Mkdir(at(name), 0o777))
		s := must.Get(sqlite.Open(at(name, "x.db")))
		require.NoError(t, s.Close())
		require.NoError(t, os.Chmod(at(name, "x.db"), fileMode))
		require.NoError(t, os.Chmod(at(name), folderMode))
		t.Cleanup(func() { _ = os.Chmod(at(name), 0o755) })
		return at(name, "x.db")
	}
	for _, tt := range []struct {
		name, path string
		says       []string
	}{
		{"a folder that may not be written", at(folder("sealed", 0o555), "x.db"), []string{"no file can be created in its folder", "permission"}},
		{"a folder that may not be entered", at(folder("closed", 0), "x.db"), []string{"no permission", "folders that lead to it"}},
		{"a file that may not be read", file("secret", 0, 0o777), []string{"check", "permissions"}},
		{"a file that may not be written", file("readonly", 0o444, 0o777), []string{"cannot be written", "check the permissions"}},
		{"a read-only file in a read-only folder", file("both", 0o444, 0o555), []string{"check", "permissions"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, _ := asNobody(t, "open", tt.path)
			require.Contains(t, text, tt.path)
			for _, s := range tt.says {
				require.Contains(t, text, s)
			}
			require.Equal(t, 1, strings.Count(text, "sqlite:"), text)
			require.NotContains(t, text, "\n")
		})
	}
}

// TestReadOnly: a file that this user cannot write is read, with what is still in its write-ahead log, and each
// write is refused.
func TestReadOnly(t *testing.T) {
	for name, folderMode := range map[string]os.FileMode{"file": 0o777, "file and folder": 0o555} {
		for _, atRest := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, at rest %t", name, atRest), func(t *testing.T) {
				dir := openFolder(t)
				path := filepath.Join(dir, "x.db")
				s := open(t, path)
				lease := must.Get(sessiontest.Acquire(t.Context(), s, session.ID("s"), session.Self()))
				require.NoError(t, sessiontest.Append(t.Context(), s, session.ID("s"), 0, lease, storetest.Batch(0, 3)...))
				if atRest {
					require.NoError(t, s.Close())
				}
				for _, suffix := range []string{"", "-wal", "-shm"} {
					if err := os.Chmod(path+suffix, 0o444); !atRest {
						require.NoError(t, err)
					}
				}
				require.NoError(t, os.Chmod(dir, folderMode))
				t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
				text, printed := asNobody(t, "read", path)
				require.Equal(t, "ready\n1\n2\n3\n", printed, text)
				require.Equal(t, 2, strings.Count(text, "opened read-only"), text)
				require.Equal(t, 2, strings.Count(text, "permission denied"), text)
			})
		}
	}
}

// TestReadOnlyMistakes: a file that is missing, another program's, or of another version is not read.
func TestReadOnlyMistakes(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing.db")
	_, err := sqlite.Open(missing, sqlite.ReadOnly())
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoFileExists(t, missing)
	require.NoError(t, os.WriteFile(missing, nil, 0o600))
	_, err = sqlite.Open(missing, sqlite.ReadOnly())
	require.ErrorContains(t, err, "it has no sessions yet")
}

// smallDisk mounts a file system of its own, which only root may.
func smallDisk(t *testing.T, size string, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, "size="+size); errors.Is(err, syscall.EPERM) {
		t.Skip("no right to mount a file system")
	} else {
		require.NoError(t, err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	return dir
}

func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, "1m", 0)
	path := filepath.Join(dir, "x.db")
	s := open(t, path)
	key := session.ID("s")
	lease := must.Get(sessiontest.Acquire(t.Context(), s, key, session.Self()))
	filler := filepath.Join(dir, "filler")
	require.NoError(t, os.WriteFile(filler, make([]byte, 500<<10), 0o600))
	var seq int64
	var err error
	for err == nil {
		require.Less(t, seq, int64(100), "the disk never got full")
		big := storetest.Text(seq+1, strings.Repeat("x", 20<<10))
		if err = sessiontest.Append(t.Context(), s, key, seq, lease, storetest.Text(seq+1, "small"), withSeq(big, seq+2)); err == nil {
			seq += 2
		}
	}
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "the disk is full: make room")
	require.NotErrorIs(t, err, agent.ErrConflict)
	require.Len(t, storetest.Contents(t, s, key), int(seq), "the batch that failed left nothing")

	_, err = sqlite.Open(filepath.Join(dir, "new.db"))
	require.ErrorContains(t, err, "new.db")
	require.ErrorContains(t, err, "disk")

	require.NoError(t, os.Remove(filler)) // and all is well again
	require.NoError(t, sessiontest.Append(t.Context(), s, key, seq, lease, storetest.Batch(seq, 3)...))
	require.Len(t, storetest.Contents(t, s, key), int(seq)+3)
}

func withSeq(e *event.Event, seq int64) *event.Event {
	e.Seq = seq
	return e
}

func TestReadOnlyFileSystem(t *testing.T) {
	dir := smallDisk(t, "8m", 0)
	path := filepath.Join(dir, "x.db")
	s := must.Get(sqlite.Open(path))
	require.NoError(t, s.Close())
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	for path, says := range map[string]string{path: "permissions of the file, of its folder and of the file system", filepath.Join(dir, "new.db"): "read-only file system"} {
		_, err := sqlite.Open(path)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, says)
	}
}
