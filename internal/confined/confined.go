// Package confined reads the files in a folder, and nothing outside of it. A link that leads outside is an error. So is
// anything but a regular file, such as a pipe, which could block the reader.
package confined

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

var (
	// ErrOutside is the error for a link that leads outside of the folder, or is absolute.
	ErrOutside = errors.New("this is a link that escapes from the folder, or is absolute")
	// ErrFolder is the error for a folder where a file is expected.
	ErrFolder = errors.New("this is a folder, and a file is needed")
	// ErrIrregular is the error for a pipe, a device, or a socket.
	ErrIrregular = errors.New("this is not a regular file")
)

// Folder returns the files in a folder and below it. Each use opens the folder again, so the caller has nothing to
// close.
func Folder(dir string) fs.FS { return folder(dir) }

type folder string

// Open implements [fs.FS].
func (f folder) Open(name string) (fs.File, error) {
	return in(f, "open", name, func(root *os.Root) (fs.File, error) {
		info, err := root.Stat(name)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() && !info.Mode().IsRegular() {
			return nil, ErrIrregular
		}
		// The path may be another file by now, and opening it must not block either.
		file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		return file, nil
	})
}

// Stat implements [fs.StatFS].
func (f folder) Stat(name string) (fs.FileInfo, error) {
	return in(f, "stat", name, func(root *os.Root) (fs.FileInfo, error) { return root.Stat(name) })
}

// ReadDir implements [fs.ReadDirFS].
func (f folder) ReadDir(name string) ([]fs.DirEntry, error) {
	return in(f, "readdir", name, func(root *os.Root) ([]fs.DirEntry, error) { return fs.ReadDir(root.FS(), name) })
}

func in[T any](f folder, op, name string, do func(*os.Root) (T, error)) (out T, err error) {
	if !fs.ValidPath(name) {
		return out, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return out, err
	}
	defer func() { _ = root.Close() }()
	out, err = do(root)
	var path *fs.PathError
	switch {
	case err == nil:
		return out, nil
	case strings.HasSuffix(err.Error(), "path escapes from parent"): // the library does not export this error
		err = ErrOutside
	case errors.As(err, &path):
		err = path.Err
	}
	return out, &fs.PathError{Op: op, Path: name, Err: err}
}

// Read reads at most this number of bytes of the file at a path, which may be a link. If it is not a regular file, the
// error is [ErrFolder] or [ErrIrregular], without waiting.
func Read(path string, most int64) ([]byte, error) {
	if info, err := os.Stat(path); err == nil {
		if err := regular(info); err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err == nil {
		err = regular(info)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// ReadIn is [Read] for a file of a file system. An error is that of [Reason].
func ReadIn(fsys fs.FS, name string, most int64) ([]byte, error) {
	info, err := fs.Stat(fsys, name) // opening a pipe would wait for a writer
	if err == nil {
		err = regular(info)
	}
	if err != nil {
		return nil, Reason(err)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, Reason(err)
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, most))
}

// Reason returns what an error of a file system means for people, without the path. It wraps the error.
func Reason(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return reason{err, "there is no such file or folder"}
	case errors.Is(err, fs.ErrPermission):
		return reason{err, "permission denied: change the permissions, or use another path"}
	case errors.Is(err, syscall.EISDIR):
		return ErrFolder
	case errors.Is(err, syscall.ENOTDIR):
		return reason{err, "the path contains a file where a folder is needed"}
	}
	return err
}

type reason struct {
	error
	text string
}

func (r reason) Error() string { return r.text }
func (r reason) Unwrap() error { return r.error }

func regular(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return ErrFolder
	case !info.Mode().IsRegular():
		return ErrIrregular
	}
	return nil
}
