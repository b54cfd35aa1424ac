package openai

import (
	"context"
	"fmt"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/agentarbor/arbor/llm"
)

// phase is what an attempt waits for.
type phase int

const (
	phaseConnect phase = iota
	phaseFirstByte
	phaseIdle
	phaseAttempt
)

// limitError names the time limit that ended an attempt.
type limitError struct {
	phase phase
	limit time.Duration
}

func (e *limitError) Error() string {
	switch e.phase {
	case phaseConnect:
		return fmt.Sprintf("no connection within %v", e.limit)
	case phaseFirstByte:
		return fmt.Sprintf("no answer began within %v", e.limit)
	case phaseIdle:
		return fmt.Sprintf("the answer stalled: nothing came for %v", e.limit)
	}
	return fmt.Sprintf("the answer was not complete within %v", e.limit)
}

// watchdog cancels an attempt that waits longer than its current phase allows. It needs a timer, but no goroutine.
type watchdog struct {
	mu     sync.Mutex
	limits llm.Timeouts
	cancel context.CancelCauseFunc
	timer  *time.Timer
	phase  phase
	armed  bool
}

func newWatchdog(limits llm.Timeouts, cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{limits: limits, cancel: cancel}
	w.timer = time.AfterFunc(time.Hour, w.fire)
	w.timer.Stop()
	return w
}

func (w *watchdog) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed { // otherwise the wait has just ended
		w.cancel(&limitError{w.phase, w.limit()})
	}
}

func (w *watchdog) limit() time.Duration {
	switch w.phase {
	case phaseConnect:
		return w.limits.Connect
	case phaseFirstByte:
		return w.limits.First
	}
	return w.limits.Silence
}

// enter starts a wait.
func (w *watchdog) enter(p phase) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase = p
	if d := w.limit(); d > 0 {
		w.armed = true
		w.timer.Reset(d)
	} else {
		w.armed = false
		w.timer.Stop()
	}
}

// pause ends a wait.
func (w *watchdog) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	w.timer.Stop()
}

// shortenSilence lowers the longest wait from now on.
func (w *watchdog) shortenSilence(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, limit := range []*time.Duration{&w.limits.First, &w.limits.Silence} {
		if *limit <= 0 || d < *limit {
			*limit = d
		}
	}
}

func (w *watchdog) close() { w.pause() }

// trace measures the time for a connection separately from the time for an answer. A transport that reports no
// connection has no such phase.
func (w *watchdog) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { w.enter(phaseConnect) },
		GotConn: func(httptrace.GotConnInfo) { w.enter(phaseFirstByte) },
	})
}
