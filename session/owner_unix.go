//go:build unix

package session

import (
	"errors"
	"syscall"
)

// pidExists asks with signal 0, which reaches nobody. A process of another user
// may not be asked, but it exists.
func pidExists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || !errors.Is(err, syscall.ESRCH)
}
