//go:build unix && !solaris && !aix

package usersfile

import (
	"errors"
	"os"
	"syscall"
)

// lock prevents other processes from changing the files of a folder until the caller calls unlock, or this process ends.
// It locks the folder, because the files are replaced.
func lock(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX)
		if err == nil {
			return func() { _ = d.Close() }, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			_ = d.Close()
			return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
		}
	}
}
