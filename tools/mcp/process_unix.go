//go:build unix

package mcp

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the subprocess a group of its own: an interrupt in the terminal is for
// this process alone, and what the server has started ends with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func endGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
