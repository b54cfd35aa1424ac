//go:build !unix

package session

// pidExists returns true, because this system does not report it without privileges. Leases end when they expire.
func pidExists(int) bool { return true }
