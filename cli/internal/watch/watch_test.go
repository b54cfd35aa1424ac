package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// fake is a folder whose events and content a test says.
func fake() (f *Folder, events chan fsnotify.Event, content *digest) {
	events, content = make(chan fsnotify.Event), &digest{}
	return &Folder{events: events, errors: make(chan error), ours: func(path string) bool { return path != "other" },
		look: func() (digest, error) { return *content, nil }}, events, content
}

// What is written at once is one change, at the end of it; what changes nothing is none.
func TestOneChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, events, content := fake()
		changes, began := 0, time.Now()
		var at []time.Duration
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			for {
				if err := f.Next(ctx); err != nil {
					ended <- err
					return
				}
				changes++
				at = append(at, time.Since(began))
			}
		}()
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		write := func(name string, op fsnotify.Op) { events <- fsnotify.Event{Name: name, Op: op} }
		for i := range 5 { // half of a settling apart
			content[0] = byte(i + 1)
			write(fmt.Sprint(i), fsnotify.Write)
			pass(settle / 2)
		}
		pass(time.Second)
		require.Equal(t, 1, changes)
		require.Equal(t, 4*settle/2+settle, at[0])

		write("a", fsnotify.Create) // and nothing has changed
		pass(time.Second)
		content[0] = 50
		write("other", fsnotify.Write)
		write("a", fsnotify.Chmod)
		pass(time.Second)
		require.Equal(t, 1, changes)

		began, at = time.Now(), nil
		for range 100 { // somebody writes all the time
			write("log", fsnotify.Write)
			pass(settle / 2)
		}
		require.Equal(t, 2, changes)
		require.Equal(t, latest, at[0])
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// On a real disk every way of saving is noticed.
func TestFolder(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "desk")
	path := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	write := func(path, content string) { require.NoError(t, os.WriteFile(path, []byte(content), 0o600)) }
	require.NoError(t, os.Mkdir(root, 0o700))
	write(path("a.md"), "1")
	f := must.Get(New(root, ".md", ".yaml"))
	defer f.Close()
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"written", func() { write(path("a.md"), "2") }},
		{"renamed into place", func() {
			write(path("a.md~"), "3")
			require.NoError(t, os.Rename(path("a.md~"), path("a.md")))
		}},
		{"a folder with a file", func() {
			require.NoError(t, os.MkdirAll(path("b", "c"), 0o700))
			write(path("b", "c", "x.MD"), "1")
		}},
		{"in that folder", func() { write(path("b", "c", "x.MD"), "2") }},
		{"removed", func() { require.NoError(t, os.RemoveAll(path("b"))) }},
		{"the folder replaced", func() {
			require.NoError(t, os.Mkdir(filepath.Join(base, "new"), 0o700))
			write(filepath.Join(base, "new", "a.md"), "new")
			require.NoError(t, os.Rename(root, filepath.Join(base, "old")))
			require.NoError(t, os.Rename(filepath.Join(base, "new"), root))
		}},
		{"in the new folder", func() { write(path("a.md"), "newer") }},
		{"the folder gone", func() { require.NoError(t, os.RemoveAll(root)) }},
		{"a link in its place", func() { require.NoError(t, os.Symlink(filepath.Join(base, "old"), root)) }},
		{"behind the link", func() { write(filepath.Join(base, "old", "y.yaml"), "1") }},
	} {
		before := f.last
		write(filepath.Join(base, "beside.md"), c.name) // is not ours
		c.do()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		require.NoError(t, f.Next(ctx), c.name)
		require.NotEqual(t, before, f.last, c.name)
		cancel()
		for settled := false; !settled; { // a slow disk may let one change be seen in two parts
			now := must.Get(f.look())
			settled, f.last = now == f.last, now
		}
	}
	// Hidden files and others are not looked at.
	before := f.last
	write(path(".a.md"), "1")
	write(path("a.txt"), "1")
	now := must.Get(f.look())
	require.Equal(t, before, now)

	require.Error(t, must.Err(New(filepath.Join(base, "no", "such", "folder"))))
}
