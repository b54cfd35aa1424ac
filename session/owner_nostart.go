//go:build !linux && !windows

package session

// processStart returns no start time on this system. If another process gets the PID of an owner that died, Alive
// takes it for the owner, and the owner's lease ends when it expires.
func processStart(int) (started int64, running bool) { return 0, true }
