// Package folder stores the bytes of files in a folder, in addition to a store for
// everything else. It reads and writes nothing outside its folder.
//
// The folder contains a folder for each session key. That contains a folder for each
// session that was created with this key, and there each file is named by its digest.
// Bytes are written to a temporary file, which is renamed when they are on the disk. A
// fork shares bytes by hard links, which the file system must support: the file system
// deletes the bytes with the last link. Forking therefore costs a link for each file of the session.
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
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/replace"
	"github.com/agentarbor/arbor/session"
)

// Store is a [session.Store] that keeps files in a folder and everything else in another store. It is safe for
// concurrent use. Several processes can use one folder if they use the same store. The zero value is not usable; see
// [New].
type Store struct {
	underlying
	dir string
}

// underlying embeds a store without a field that the documentation shows.
type underlying = session.Store

var _ session.Store = (*Store)(nil)

// New returns a store that keeps files in the folder dir and everything else in store. It creates the folder if it is
// missing. Close also closes the other store. To follow sessions, wrap the result in a tail; do not pass a tail to
// New. The error says why the folder cannot be used.
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

// dirOf returns the folder of a session. Its name is a hash, because a key may contain any bytes and be longer than a
// file name.
func (s *Store) dirOf(key session.Key) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q%q%q", key.App, key.User, key.ID)))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16]))
}

// name returns the file name of a digest. seq is the length of the log when the file was stored.
func name(digest string, seq int64) string {
	return strings.Replace(pattern(digest), "*", strconv.FormatInt(seq, 10), 1)
}

// pattern returns the glob pattern of a digest's file names.
func pattern(digest string) string { return strings.Replace(digest, ":", "-", 1) + ".*" }

// find returns the session's files whose names match a pattern. The name of the folder may have any characters.
func (s *Store) find(key session.Key, pattern string) []string {
	dir := s.dirOf(key)
	found, _ := fs.Glob(os.DirFS(dir), "*/"+pattern) // it fails only on a malformed pattern
	for i, path := range found {
		found[i] = filepath.Join(dir, path)
	}
	return found
}

// PutBlob implements [session.Blobs]. It returns after the bytes are on the disk.
func (s *Store) PutBlob(ctx context.Context, key session.Key, lease session.Lease, data []byte) (string, error) {
	lease, err := s.Write(ctx, key, session.Write{Lease: lease})
	if err != nil { // the write fails if the lease is not the current one
		return "", err
	}
	digest := session.Digest(data)
	if len(s.find(key, pattern(digest))) > 0 {
		return digest, nil
	}
	dir := filepath.Join(s.dirOf(key), strconv.FormatInt(lease.Incarnation, 10))
	if err := write(dir, name(digest, lease.Head.Seq), data); err != nil {
		return "", fmt.Errorf("folder: store a file: %w", err)
	}
	return digest, nil
}

// write creates a file with all of its bytes, or does not create it.
func write(dir, name string, data []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := replace.File(filepath.Join(dir, name), data, 0o600); err != nil {
		return err
	}
	return errors.Join(replace.Sync(filepath.Dir(dir)), replace.Sync(filepath.Dir(filepath.Dir(dir))))
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

// Fork implements [session.Store]. It creates the links first, and removes them if the fork fails.
func (s *Store) Fork(ctx context.Context, of session.Key, seq int64, to session.Key, events ...*event.Event) (err error) {
	before, _ := os.ReadDir(s.dirOf(to)) // the files of a session that only had a lease, which the fork replaces
	dir := ""
	for _, path := range s.find(of, "sha256-*") {
		base := filepath.Base(path)
		at, err := strconv.ParseInt(base[strings.LastIndexByte(base, '.')+1:], 10, 64)
		if err != nil || at >= seq {
			continue
		}
		if dir == "" {
			if err = os.MkdirAll(s.dirOf(to), 0o700); err == nil {
				dir, err = os.MkdirTemp(s.dirOf(to), forkPrefix+"*")
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
		err = errors.Join(replace.Sync(dir), replace.Sync(s.dirOf(to)), replace.Sync(s.dir))
	}
	if err == nil {
		err = s.underlying.Fork(ctx, of, seq, to, events...)
	}
	if err != nil {
		return errors.Join(err, remove(dir))
	}
	// The fork is stored. Bytes that stay are named by no event, as after a Delete that could not remove them.
	_ = s.clear(to, slices.DeleteFunc(before, func(d fs.DirEntry) bool { return strings.HasPrefix(d.Name(), forkPrefix) }))
	return nil
}

const forkPrefix = "fork-"

// clear deletes folders of a session key.
func (s *Store) clear(key session.Key, dirs []fs.DirEntry) error {
	for _, dir := range dirs {
		if err := remove(filepath.Join(s.dirOf(key), dir.Name())); err != nil {
			return fmt.Errorf("folder: delete files: %w", err)
		}
	}
	return nil
}

// remove deletes a folder of files. It does nothing if dir is "".
func remove(dir string) error {
	if dir == "" {
		return nil
	}
	err := os.RemoveAll(dir)
	_ = os.Remove(filepath.Dir(dir)) // fails if the folder contains something else
	return err
}

// Delete implements [session.Store]. If the process dies meanwhile, bytes that no log names may stay in the folder.
func (s *Store) Delete(ctx context.Context, key session.Key) error {
	before, _ := os.ReadDir(s.dirOf(key)) // a session that is created again meanwhile keeps its files
	if err := s.underlying.Delete(ctx, key); err != nil {
		return err
	}
	return s.clear(key, before)
}
