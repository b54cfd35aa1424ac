//go:build !unix

package session

// pidExists cannot tell here without privileges, so leases end by time.
func pidExists(int) bool { return true }
