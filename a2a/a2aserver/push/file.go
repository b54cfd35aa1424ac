package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/agentarbor/arbor/internal/replace"
)

// File is a Store in a file that only its owner can read. Every change writes a new file that replaces the old one
// atomically, so after a crash the file is the old or the new one. It is meant for hundreds of configs, not for
// millions. Only one process may use the file at a time.
type File struct {
	path string

	mu      sync.Mutex
	records map[recordKey]Record
}

// fileForm is the content of the file.
type fileForm struct {
	Version int      `json:"version"`
	Configs []Record `json:"configs"`
}

// NewFile opens the file. The file may be missing, but its folder must exist. If other users can read the file, NewFile
// returns an error, because the file contains secrets of clients.
func NewFile(path string) (*File, error) {
	s := &File{path: path, records: make(map[recordKey]Record)}
	info, err := os.Stat(filepath.Dir(path))
	if err == nil && !info.IsDir() {
		err = errors.New("its parent is not a folder")
	}
	if err != nil {
		return nil, fmt.Errorf("push: the file of push notification configs: %w", err)
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("push: the file of push notification configs: %w", err)
	case info.Mode().Perm()&0o077 != 0 && filepath.Separator == '/':
		return nil, fmt.Errorf("push: the file of push notification configs %s can be read by others (mode %04o): set it to 0600",
			path, info.Mode().Perm())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("push: the file of push notification configs: %w", err)
	}
	var f fileForm
	if err := json.Unmarshal(b, &f); err != nil || f.Version != 1 {
		// The error of the decoder may quote a secret.
		return nil, fmt.Errorf("push: %s is not a file of push notification configs of version 1", path)
	}
	for _, r := range f.Configs {
		s.records[r.key()] = r
	}
	return s, nil
}

// Put implements Store.
func (s *File) Put(_ context.Context, r Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change(func(m map[recordKey]Record) { m[r.key()] = r })
}

// Delete implements Store.
func (s *File) Delete(_ context.Context, r Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.records[r.key()]; !ok {
		return nil
	}
	return s.change(func(m map[recordKey]Record) { delete(m, r.key()) })
}

// All implements Store. It yields the oldest record first.
func (s *File) All(context.Context) iter.Seq2[Record, error] {
	s.mu.Lock()
	records := sortedRecords(s.records)
	s.mu.Unlock()
	return func(yield func(Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// change applies a change to a copy of the records, which replaces the records after it was written to the disk.
func (s *File) change(do func(map[recordKey]Record)) error {
	next := maps.Clone(s.records)
	do(next)
	b, err := json.MarshalIndent(fileForm{1, sortedRecords(next)}, "", "  ")
	if err != nil {
		return fmt.Errorf("push: push notification configs have no JSON form: %w", err)
	}
	if err := replace.File(s.path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("push: the file of push notification configs: %w", err)
	}
	s.records = next
	return nil
}

func sortedRecords(m map[recordKey]Record) []Record {
	return slices.SortedFunc(maps.Values(m), Record.compare)
}
