package cli

import (
	"io"
	"strings"
)

// A terminal that is asked to (bracketed paste, a mode of xterm and most others) puts marks around what is
// pasted, so that its line ends do not send it line by line.
const (
	pasteOn, pasteOff = "\x1b[?2004h", "\x1b[?2004l"
	pasteBegins       = "\x1b[200~"
	pasteEnds         = "\x1b[201~"
	// lineEnd stands in the line editor, and in its history, for a line end that was pasted.
	lineEnd = "␤"
)

// pasted reads a terminal's input. Line ends within marks become lineEnd, tabs a space, and other control
// characters but escapes are left out; the marks stay, and the line editor ignores them.
type pasted struct {
	r      io.Reader
	inside bool
	mark   int // how many bytes of the next mark have come
	cr     bool
	ready  []byte
}

func (p *pasted) Read(b []byte) (int, error) {
	for len(p.ready) == 0 {
		n, err := p.r.Read(b)
		for _, c := range b[:n] {
			p.take(c)
		}
		if err != nil {
			return copy(b, p.ready), err
		}
	}
	n := copy(b, p.ready)
	p.ready = p.ready[n:]
	return n, nil
}

func (p *pasted) take(c byte) {
	mark := pasteBegins
	if p.inside {
		mark = pasteEnds
	}
	switch {
	case c == mark[p.mark]:
		p.mark++
	case c == mark[0]:
		p.mark = 1
	default:
		p.mark = 0
	}
	cr := p.cr
	p.cr = p.inside && c == '\r'
	switch {
	case p.mark == len(mark):
		p.inside, p.mark = !p.inside, 0
		p.ready = append(p.ready, c)
	case !p.inside || c >= ' ' && c != 0x7f || p.mark > 0:
		p.ready = append(p.ready, c)
	case c == '\r' || c == '\n' && !cr:
		p.ready = append(p.ready, lineEnd...)
	case c == '\t':
		p.ready = append(p.ready, ' ')
	}
}

// typed returns a line of the editor as the user meant it.
func typed(line string) string { return strings.ReplaceAll(line, lineEnd, "\n") }
