// Package replace replaces the content of a file.
package replace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// File replaces the content of the file at a path, which need not exist: completely or, with an error, not at all. When
// it returns nil, the content survives a crash of the machine. The folder must exist. File replaces a symbolic link at
// the path, not its target. A process that dies may leave a file whose name begins with a dot.
func File(path string, content []byte, perm fs.FileMode) error {
	err := write(path, content, perm)
	if cause, ok := errors.AsType[syscall.Errno](err); ok { // the name of the temporary file says nothing to people
		err = &fs.PathError{Op: "write", Path: path, Err: cause}
	}
	return err
}

func write(path string, content []byte, perm fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && perm != 0o600 {
		err = f.Chmod(perm)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	return Sync(filepath.Dir(path))
}

// rename renames a file. On Windows an open file cannot be replaced, so rename tries again for up to a second.
func rename(from, to string) error {
	err := os.Rename(from, to)
	for wait := time.Millisecond; err != nil && runtime.GOOS == "windows" && wait < time.Second; wait *= 2 {
		time.Sleep(wait)
		err = os.Rename(from, to)
	}
	return err
}

// Sync makes the names of the files in a folder survive a crash of the machine. If the file system does not support
// this, Sync does nothing.
func Sync(dir string) error {
	if runtime.GOOS == "windows" { // Windows has no such call
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
