//go:build unix

package session

import (
	"errors"
	"syscall"
)

// pidExists sends signal 0, which only checks that the process exists. It fails for a process of another user, but
// not with ESRCH.
func pidExists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || !errors.Is(err, syscall.ESRCH)
}
