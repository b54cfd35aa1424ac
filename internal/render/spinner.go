package render

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/agentarbor/arbor/internal/visible"
)

// Spinner shows on the current line of a terminal that work is in progress. A nil Spinner shows nothing. Hide it before
// any other output to the same terminal.
type Spinner struct {
	w        io.Writer
	terminal Terminal

	mu    sync.Mutex
	label string
	stop  chan struct{} // not nil while a goroutine draws
	done  chan struct{}
}

var frames = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// spinnerDelay prevents flicker during quick answers.
const (
	spinnerDelay = 150 * time.Millisecond
	spinnerTick  = 100 * time.Millisecond
)

func NewSpinner(w io.Writer, l Terminal) *Spinner {
	if !l.Live {
		return nil
	}
	return &Spinner{w: w, terminal: l}
}

// Show starts drawing, or changes the label.
func (s *Spinner) Show(label string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.label = visible.Cut(visible.Line(label), 60)
	if s.stop != nil {
		return
	}
	s.stop, s.done = make(chan struct{}), make(chan struct{})
	go s.draw(s.stop, s.done)
}

func (s *Spinner) draw(stop, done chan struct{}) {
	defer close(done)
	wait := time.NewTimer(spinnerDelay)
	defer wait.Stop()
	for i := 0; ; i++ {
		select {
		case <-stop:
			if i > 0 {
				fmt.Fprint(s.w, "\r\x1b[K")
			}
			return
		case <-wait.C:
		}
		s.mu.Lock()
		label := s.label
		s.mu.Unlock()
		fmt.Fprintf(s.w, "\r\x1b[K%c %s", frames[i%len(frames)], s.terminal.Paint(faint, label))
		wait.Reset(spinnerTick)
	}
}

// Hide erases the line and returns after the last drawing.
func (s *Spinner) Hide() {
	if s == nil {
		return
	}
	s.mu.Lock()
	stop, done := s.stop, s.done
	s.stop, s.done = nil, nil
	s.mu.Unlock()
	if stop != nil {
		close(stop)
		<-done
	}
}
