package factory

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Interrupts turns signals into the end of a turn: the first signal cancels the
// turn under way, another one, or one without a turn, ends the program. The zero
// value handles no signals.
type Interrupts struct {
	exit func(status int)

	mu     sync.Mutex
	cancel context.CancelFunc // of the turn under way, nil if none
	hit    bool               // the turn was canceled
	ended  bool               // SIGTERM came: no turn begins any more
	undo   func()             // puts the terminal in order before the program ends
}

// WatchSignals handles SIGINT and SIGTERM until the process ends. It also
// takes SIGPIPE, so that writing to a closed pipe is an error and the turn can
// end properly, instead of the end of the process.
func WatchSignals(exit func(int)) *Interrupts {
	in := &Interrupts{exit: exit}
	// Room for a few, so that a quick second signal is not lost.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		for s := range signals {
			in.signal(s == syscall.SIGTERM)
		}
	}()
	return in
}

func (in *Interrupts) signal(term bool) {
	in.mu.Lock()
	in.ended = in.ended || term
	cancel, undo := in.cancel, in.undo
	again := in.hit
	in.hit = true
	in.mu.Unlock()
	if cancel != nil && !again {
		cancel()
		return
	}
	if undo != nil {
		undo()
	}
	in.exit(StatusInterrupted)
}

// Turn returns a context that the next signal cancels, and a func that must be
// called when the turn is over.
func (in *Interrupts) Turn(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.cancel, in.hit = cancel, in.ended
	if in.ended {
		cancel()
	}
	return ctx, func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.cancel, in.hit = nil, false
		cancel()
	}
}

// Over reports whether the program was asked to end, not just the turn.
func (in *Interrupts) Over() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.ended
}

// Restore sets what is to be done before a signal ends the program; nil is nothing.
func (in *Interrupts) Restore(undo func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.undo = undo
}
