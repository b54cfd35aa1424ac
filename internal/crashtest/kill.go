package crashtest

import (
	"fmt"
	"os"
	"sync/atomic"
)

// KillPoint is where a process kills itself: when something has happened for the N-th time in it.
// The zero value lets it live.
type KillPoint struct {
	On string // one of kinds
	N  int
}

// What happens in a process.
const (
	OnEvent   = "event"   // somebody gets an event, or a delta of one
	OnCall    = "call"    // a model is asked, or a tool runs, and has not answered
	OnWrite   = "write"   // the store is about to be written: lease, events, or the lease's end
	OnWritten = "written" // the store was written, and nobody knows yet
)

var kinds = [...]string{OnEvent, OnCall, OnWrite, OnWritten}

func (p KillPoint) String() string {
	if p.N == 0 {
		return "at the end"
	}
	return fmt.Sprintf("%s %d", p.On, p.N)
}

// Odometer counts what happens in a process, and ends the process at its point. The zero value ends
// none. It is safe for concurrent use.
type Odometer struct {
	kill   KillPoint
	counts [len(kinds)]atomic.Int64
}

// Pass says that something happens now.
func (o *Odometer) Pass(on string) {
	for i, kind := range kinds {
		if kind != on {
			continue
		}
		if n := o.counts[i].Add(1); o.kill.On == on && n == int64(o.kill.N) {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill()
			}
			select {}
		}
	}
}

// points returns all places at which a process that did the same could be killed.
func (o *Odometer) points() (all []KillPoint) {
	for i, on := range kinds {
		for n := range int(o.counts[i].Load()) {
			all = append(all, KillPoint{on, n + 1})
		}
	}
	return all
}
