package session

import (
	"os"
	"sync"
)

// Self returns the calling process as an owner, to be used as Acquire of a [Write]. It is computed once.
//
// Host is the host's name. On Linux, a hash of the kernel's current boot and of the PID namespace follows it. Two
// containers that share a database file but not their PIDs are therefore different hosts, and so is one host before
// and after a restart, because a PID of one means nothing in the other.
func Self() Owner { return self() }

var self = sync.OnceValue(func() Owner {
	o := Owner{Host: hostName(), PID: os.Getpid()}
	o.Started, _ = processStart(o.PID)
	return o
})

// Alive reports whether the owner may still be running. It returns false only if a process of this host has certainly
// ended: no process has its PID, the process with that PID started at another time, or the process has exited and its
// parent has not waited for it. Alive cannot check processes of other hosts and returns true for them. Their leases
// expire after [LeaseTTL].
func Alive(o Owner) bool {
	me := Self()
	if o == me || o.Host != me.Host || o.PID <= 0 {
		return true
	}
	if !pidExists(o.PID) {
		return false
	}
	started, running := processStart(o.PID)
	return running && (started == 0 || o.Started == 0 || started == o.Started)
}
