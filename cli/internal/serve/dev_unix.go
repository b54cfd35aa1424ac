//go:build unix

package serve

import (
	"os/exec"
	"syscall"
)

// apart protects a program from the signals of the terminal, so that a browser remains open when the server ends.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
