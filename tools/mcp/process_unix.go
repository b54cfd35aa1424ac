//go:build unix

package mcp

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the subprocess in its own process group. An interrupt in the terminal then reaches only this process,
// and endGroup also kills the processes that the server started.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func endGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
