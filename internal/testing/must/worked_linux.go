package must

import (
	"syscall"
	"time"
)

// worked returns the processor's time that this thread has used.
func worked() time.Duration {
	const thread = 1 // RUSAGE_THREAD, which package syscall does not name
	var used syscall.Rusage
	if err := syscall.Getrusage(thread, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
