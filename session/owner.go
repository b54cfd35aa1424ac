package session

import (
	"os"
	"sync"
)

// Self returns the calling process as an owner: the value for Acquire in a [Write].
// It is computed once and cached.
//
// Host is the host's name and, on Linux, a mark of the kernel's current boot and
// of the PID namespace. Two containers that share a file but not their PIDs are
// therefore two hosts, and so is one host before and after a restart: a PID of
// the other means nothing here.
func Self() Owner { return self() }

var self = sync.OnceValue(func() Owner {
	o := Owner{Host: hostName(), PID: os.Getpid()}
	o.Started, _ = processStart(o.PID)
	return o
})

// Alive reports whether the owner may still be running. It is false only for a process of this host that has
// certainly ended: no process has its PID, the process with that PID started at another time, or it has exited and
// its parent has not collected it. Processes of other hosts cannot be checked and count as alive; their leases end by
// [LeaseTTL].
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
