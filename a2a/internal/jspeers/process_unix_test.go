//go:build unix

package jspeers_test

import (
	"os/exec"
	"syscall"
)

// ownGroup gives the process a group of its own, whose processes all end with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func endGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
