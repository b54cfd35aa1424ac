package crashtest

import (
	"fmt"
	"os"
	"sync/atomic"
)

// killPoint is the point at which a process kills itself: when something happens in it for the N-th time. The zero
// value means never.
type killPoint struct {
	On string // one of the constants below
	N  int
}

// What can happen in a process.
const (
	OnEvent   = "event"   // an event, or a delta of one, is delivered
	onCall    = "call"    // a model is asked, or a tool runs, and has not answered
	onWrite   = "write"   // before a write of the store: lease, events, or the lease's end
	onWritten = "written" // after a write of the store, before anything depends on it
)

var kinds = [...]string{OnEvent, onCall, onWrite, onWritten}

func (p killPoint) String() string {
	if p.N == 0 {
		return "at the end"
	}
	return fmt.Sprintf("%s %d", p.On, p.N)
}

// Odometer counts what happens in a process, and kills the process at its point. The zero value kills nothing. It is
// safe for concurrent use.
type Odometer struct {
	kill   killPoint
	counts [len(kinds)]atomic.Int64
}

// Pass reports that something happens now.
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

// points returns all points at which a process with the same counts can be killed.
func (o *Odometer) points() (all []killPoint) {
	for i, on := range kinds {
		for n := range int(o.counts[i].Load()) {
			all = append(all, killPoint{on, n + 1})
		}
	}
	return all
}
