//go:build !unix || solaris || aix

package usersfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// lock prevents other processes from changing the files of a folder until the caller calls unlock.
func lock(dir string) (unlock func(), err error) {
	path := filepath.Join(dir, ".users.lock")
	for range 100 {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			_ = f.Close()
			return func() { _ = os.Remove(path) }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, fmt.Errorf("another process is changing the users: if none is, remove %s", path)
}
