//go:build !unix

package serve

import "os/exec"

// apart does nothing: here a signal of the terminal is for one program.
func apart(*exec.Cmd) {}
