// Package watch reports changes of a folder's content, for trees of agents that reload their files.
package watch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is the time without changes after which related changes are complete: those of an editor that saves by
	// renaming, or of several files.
	settle = 100 * time.Millisecond
	// latest is the maximal time to wait if the folder changes all the time.
	latest = 2 * time.Second
	// maxEntries and maxFile limit what is read. Trees of agents are smaller.
	maxEntries, maxFile = 20_000, 16 << 20
)

// digest is a hash of a folder's content.
type digest [sha256.Size]byte

// Folder is a watched folder. It is not safe for concurrent use.
type Folder struct {
	events <-chan fsnotify.Event
	errors <-chan error
	ours   func(path string) bool // reports whether an event concerns the folder
	look   func() (digest, error) // watches new folders, and returns the digest of the content
	last   digest
	close  func() error
}

// New starts watching the folder at a path with all folders below it. Only files with one of these suffixes count, such
// as ".md", and no hidden ones. The folder itself may be replaced, or be a link whose target changes.
func New(path string, ends ...string) (*Folder, error) {
	root, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	f := &Folder{events: w.Events, errors: w.Errors, close: w.Close,
		ours: func(path string) bool {
			return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, string(filepath.Separator))+string(filepath.Separator))
		},
		look: func() (digest, error) { return look(w, root, ends) }}
	if f.last, err = f.look(); err != nil {
		_ = w.Close()
		return nil, err
	}
	return f, nil
}

// Close ends the watch.
func (f *Folder) Close() error { return f.close() }

// Next waits until the content differs from that at the last return of Next, and nothing has changed for a moment: it
// reports changes at the same time as one. The error is that of the context, or the reason why the folder cannot be
// watched any more.
func (f *Folder) Next(ctx context.Context) error {
	var quiet *time.Timer
	var over <-chan time.Time
	var deadline time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, open := <-f.events:
			if !open {
				return errors.New("the watch has ended")
			}
			if !f.ours(e.Name) || e.Op == fsnotify.Chmod {
				continue
			}
		case _, open := <-f.errors: // for example, events were lost
			if !open {
				return errors.New("the watch has ended")
			}
		case <-over:
			over = nil
			now, err := f.look()
			if err != nil {
				return err
			}
			if now != f.last {
				f.last = now
				return nil
			}
			continue
		}
		if over == nil {
			deadline = time.Now().Add(latest)
			quiet = time.NewTimer(settle)
			over = quiet.C
			continue
		}
		quiet.Reset(min(settle, time.Until(deadline)))
	}
}

// look watches all current folders, and then reads the files, so that it misses no change in between. A missing folder
// has no content.
func look(w *fsnotify.Watcher, root string, ends []string) (sum digest, err error) {
	for _, path := range w.WatchList() { // another folder may now have the path
		_ = w.Remove(path)
	}
	if err := w.Add(filepath.Dir(root)); err != nil {
		return sum, err
	}
	all, fsys, entries := sha256.New(), os.DirFS(root), 0
	if err := w.Add(root); err != nil {
		return sum, ignoreGone(err)
	}
	var files []string
	err = fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if entries++; entries > maxEntries {
			return fmt.Errorf("the folder holds more than %d files", maxEntries)
		}
		switch {
		case err != nil:
			return ignoreGone(err)
		case path != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir():
			return ignoreGone(w.Add(filepath.Join(root, filepath.FromSlash(path))))
		case slices.Contains(ends, strings.ToLower(filepath.Ext(path))):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return sum, err
	}
	for _, path := range files {
		fmt.Fprintf(all, "%q\n", path)
		if info, err := fs.Stat(fsys, path); err != nil || !info.Mode().IsRegular() { // opening a pipe would block
			continue
		}
		file, err := fsys.Open(path)
		if err != nil {
			continue
		}
		content := sha256.New()
		_, err = io.Copy(content, io.LimitReader(file, maxFile))
		_ = file.Close()
		fmt.Fprintf(all, "%x %v\n", content.Sum(nil), err)
	}
	all.Sum(sum[:0])
	return sum, nil
}

// ignoreGone ignores that a file or a folder was removed meanwhile, or cannot be read: loading the folder reports it.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
