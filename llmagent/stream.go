package llmagent

import (
	"errors"
	"unicode/utf8"

	"github.com/agentarbor/arbor/event"
)

// stream is a text that a function writes in pieces. Without pieces it yields nothing.
type stream struct {
	s        *Step
	answer   *answer // nil before the first piece
	pending  []byte  // the bytes that are not shown yet: the beginning of an incomplete rune
	replayed bool    // the text is in the log already
	err      error
}

func (w *stream) Write(p []byte) (int, error) {
	switch {
	case len(p) == 0 || w.err != nil:
	case w.answer == nil:
		w.answer = &answer{x: &w.s.execution, attempt: w.s.inv.Attempt()}
		if _, w.replayed, w.err = replay[*event.Text](w.s, "say something"); w.err == nil {
			w.s.openStream = w
		}
	case w.s.openStream != w:
		w.err = errors.New("llmagent: another method of the Step has closed the stream")
	}
	if w.err != nil {
		return 0, w.err
	}
	w.pending = append(w.pending, p...)
	return len(p), w.flush(len(w.pending) - incompleteRune(w.pending))
}

// incompleteRune returns the length of the incomplete rune at the end of the text, or 0.
func incompleteRune(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// flush shows the first n of the pending bytes.
func (w *stream) flush(n int) error {
	if n > 0 && !w.replayed && w.answer.delta(&w.answer.text, string(w.pending[:n])) != nil {
		w.err = w.s.stop()
	}
	w.pending = w.pending[n:]
	return w.err
}

func (w *stream) Close() error {
	if w.answer == nil || w.s.openStream != w {
		return w.err
	}
	w.s.openStream = nil
	if w.flush(len(w.pending)) == nil && !w.replayed {
		w.err = w.s.send(&event.Event{ID: w.answer.text.id, Data: &event.Text{Content: w.answer.text.String()}})
	}
	return w.err
}
