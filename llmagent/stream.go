package llmagent

import (
	"errors"
	"unicode/utf8"

	"github.com/agentarbor/arbor/event"
)

// stream is a text that the function of an agent writes in pieces. Without pieces
// nothing is said.
type stream struct {
	s      *Step
	answer *answer // nil before the first piece
	rest   []byte  // the beginning of an incomplete rune
	silent bool    // the text was said before
	err    error
}

func (w *stream) Write(p []byte) (int, error) {
	switch {
	case len(p) == 0 || w.err != nil:
	case w.answer == nil:
		w.answer = &answer{x: &w.s.execution, attempt: w.s.inv.Attempt()}
		if _, w.silent, w.err = recalled[*event.Text](w.s, "say something"); w.err == nil {
			w.s.writing = w
		}
	case w.s.writing != w:
		w.err = errors.New("llmagent: the stream was ended by what the step has done since")
	}
	if w.err != nil {
		return 0, w.err
	}
	w.rest = append(w.rest, p...)
	return len(p), w.show(len(w.rest) - half(w.rest))
}

// half returns the length of the incomplete rune at the end of the text.
func half(text []byte) int {
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

// show shows the first bytes of what was written.
func (w *stream) show(n int) error {
	if n > 0 && !w.silent && w.answer.delta(&w.answer.text, string(w.rest[:n])) != nil {
		w.err = w.s.end()
	}
	w.rest = w.rest[n:]
	return w.err
}

func (w *stream) Close() error {
	if w.answer == nil || w.s.writing != w {
		return w.err
	}
	w.s.writing = nil
	if w.show(len(w.rest)) == nil && !w.silent {
		w.err = w.s.say(&event.Event{ID: w.answer.text.id, Data: &event.Text{Content: w.answer.text.String()}})
	}
	return w.err
}
