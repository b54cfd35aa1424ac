package factory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/agentarbor/arbor/event"
)

// Create makes a file that does not exist yet.
func Create(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return Usagef("%s exists already", path)
	} else if err != nil {
		return Usage(err)
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// Put writes a file of a session to a folder, and returns where it is. What is there
// stays: the file gets a number, unless it is the same.
func Put(ctx context.Context, blob func(ctx context.Context, digest string) ([]byte, error), dir string, f *event.File) (string, error) {
	data, err := blob(ctx, f.Digest)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", err
	}
	name := event.FileName(f.Name, "file") // whatever a log says
	ext := filepath.Ext(name)
	for n := 2; ; n++ {
		path := filepath.Join(dir, name)
		err := Create(path, data)
		if err == nil || !exists(path) {
			return path, err
		}
		if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, data) {
			return path, nil
		}
		name = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(event.FileName(f.Name, "file"), ext), n, ext)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
