// Package folder keeps the bytes of files in a folder, beside any store that keeps the
// logs. It imports session. It reads and writes nothing outside of its folder.
//
// The folder has a folder for each session and in it one for each time that a session of
// this name was made, in which each file is named by its digest. Bytes are written to a
// temporary file, which gets its name when they are on the disk. A fork shares bytes by
// links, so that the file system, which must have them, knows when nobody needs
// bytes any more; so forking costs a link for each file of the session.
package folder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Store is a store whose files are in a folder, and everything else in another store. It
// is safe for concurrent use, and several processes can use one folder with one
// store. The zero value is not usable.
type Store struct {
	underlying
	dir string
}

// underlying is how a store is embedded without showing in the documentation.
type underlying = session.Store

var _ session.Store = (*Store)(nil)

// New makes a store of a folder, which is made if it is missing, and another store, which
// it owns from then on: Close closes it too. Wrap the result in a tail, not the other way
// round. The error says what is wrong with the folder.
func New(dir string, store session.Store) (*Store, error) {
	switch {
	case store == nil:
		return nil, errors.New("folder: the store is nil")
	case dir == "":
		return nil, errors.New("folder: the path of the folder is empty")
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(abs, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("folder: %w", err)
	}
	return &Store{store, abs}, nil
}

// of returns the folder of a session. A key may have any bytes, and be longer than a name.
func (s *Store) of(key session.Key) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q%q%q", key.App, key.User, key.ID)))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16]))
}

// name is the file of a digest that was put when the log was at a position, or before.
func name(digest string, seq int64) string {
	return strings.Replace(pattern(digest), "*", strconv.FormatInt(seq, 10), 1)
}

// pattern finds the file of a digest.
func pattern(digest string) string { return strings.Replace(digest, ":", "-", 1) + ".*" }

// find returns the files of a session whose names have a pattern.
func (s *Store) find(key session.Key, pattern string) []string {
	found, _ := filepath.Glob(filepath.Join(s.of(key), "*", pattern)) // no pattern of ours is malformed
	return found
}

// PutBlob implements [session.Blobs]. It returns when the bytes are on the disk.
func (s *Store) PutBlob(ctx context.Context, key session.Key, lease session.Lease, data []byte) (string, error) {
	lease, err := s.Write(ctx, key, session.Write{Lease: lease})
	if err != nil { // which says whether it is the current one
		return "", err
	}
	digest := session.Digest(data)
	if len(s.find(key, pattern(digest))) > 0 {
		return digest, nil
	}
	dir := filepath.Join(s.of(key), strconv.FormatInt(lease.Incarnation, 10))
	if err := write(dir, name(digest, lease.Head.Seq), data); err != nil {
		return "", fmt.Errorf("folder: store a file: %w", err)
	}
	return digest, nil
}

// write makes a file that is there with all of its bytes, or not at all.
func write(dir, name string, data []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	return errors.Join(sync(dir), sync(filepath.Dir(dir)), sync(filepath.Dir(filepath.Dir(dir))))
}

// sync makes the names in a folder last.
func sync(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Blob implements [session.Blobs].
func (s *Store) Blob(ctx context.Context, key session.Key, digest string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if session.IsDigest(digest) {
		for _, path := range s.find(key, pattern(digest)) {
			data, err := os.ReadFile(path)
			switch {
			case errors.Is(err, fs.ErrNotExist): // it was deleted meanwhile
			case err != nil:
				return nil, fmt.Errorf("folder: read a file: %w", err)
			default:
				return session.WholeBlob(key, digest, data)
			}
		}
	}
	return nil, session.NoBlob(key, digest)
}

// Fork implements [session.Store]. The links are made first, and taken away if there is
// no fork.
func (s *Store) Fork(ctx context.Context, of session.Key, seq int64, to session.Key, events ...*event.Event) (err error) {
	dir := ""
	for _, path := range s.find(of, "sha256-*") {
		base := filepath.Base(path)
		at, err := strconv.ParseInt(base[strings.LastIndexByte(base, '.')+1:], 10, 64)
		if err != nil || at >= seq {
			continue
		}
		if dir == "" {
			if err = os.MkdirAll(s.of(to), 0o700); err == nil {
				dir, err = os.MkdirTemp(s.of(to), "fork-*")
			}
		}
		if err == nil {
			err = os.Link(path, filepath.Join(dir, base))
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return errors.Join(fmt.Errorf("folder: share a file with a fork: %w", err), remove(dir))
		}
	}
	if dir != "" {
		err = errors.Join(sync(dir), sync(s.of(to)), sync(s.dir))
	}
	if err == nil {
		err = s.underlying.Fork(ctx, of, seq, to, events...)
	}
	if err != nil {
		return errors.Join(err, remove(dir))
	}
	return nil
}

// remove removes a folder of files, "" being none.
func remove(dir string) error {
	if dir == "" {
		return nil
	}
	err := os.RemoveAll(dir)
	_ = os.Remove(filepath.Dir(dir)) // unless there is something else in it
	return err
}

// Delete implements [session.Store]. If the process dies in it, bytes may be left that no
// log names.
func (s *Store) Delete(ctx context.Context, key session.Key) error {
	before, _ := filepath.Glob(filepath.Join(s.of(key), "*")) // not those of a session that is made anew meanwhile
	if err := s.underlying.Delete(ctx, key); err != nil {
		return err
	}
	for _, dir := range before {
		if err := remove(dir); err != nil {
			return fmt.Errorf("folder: delete files: %w", err)
		}
	}
	return nil
}
