//go:build !unix

package serve

import "os/exec"

// apart does nothing: on this system a signal of the terminal reaches only one program.
func apart(*exec.Cmd) {}
