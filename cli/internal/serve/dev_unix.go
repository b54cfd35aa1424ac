//go:build unix

package serve

import (
	"os/exec"
	"syscall"
)

// apart keeps a program from the signals of the terminal: a browser stays when the server ends.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
