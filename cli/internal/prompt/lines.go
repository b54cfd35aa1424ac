// Package prompt reads lines from a person or a pipe. It prints the messages of others above the line that is being
// typed.
package prompt

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/chzyer/readline"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/remote"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/session"
)

// Lines reads the lines that a person or a pipe sends to chat.
type Lines interface {
	// Next waits for a line. The error is io.EOF at the end, ErrInterrupt for an interrupt at the prompt, or the
	// context's.
	Next(ctx context.Context) (string, error)
}

var ErrInterrupt = errors.New("interrupt at the prompt")

// New returns a line editor if both streams are terminals, and otherwise a plain reader. historyFile may be empty.
func New(f *factory.Factory, historyFile string) (Lines, error) {
	if f.Stdin == os.Stdin && factory.IsTerminal(f.Stdin) && f.TerminalOf(f.Stdout).Live {
		return newEditor(f, historyFile)
	}
	r := &pipedLines{r: bufio.NewReader(f.Stdin), ask: make(chan struct{}), got: make(chan gotLine)}
	go r.loop()
	f.AtEnd(func() { close(r.ask) })
	return r, nil
}

// pipedLines reads one line per call, so that later input remains unread. It reads in a goroutine, because a read
// cannot be cancelled; a goroutine that still waits ends with the process.
type pipedLines struct {
	r   *bufio.Reader
	ask chan struct{}
	got chan gotLine
}

type gotLine struct {
	text string
	err  error
}

func (l *pipedLines) loop() {
	for range l.ask {
		text, err := l.r.ReadString('\n')
		if err == io.EOF && text != "" {
			err = nil
		}
		l.got <- gotLine{strings.TrimRight(text, "\r\n"), err}
	}
}

func (l *pipedLines) Next(ctx context.Context) (string, error) {
	select {
	case l.ask <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	select {
	case got := <-l.got:
		return got.text, got.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// maxHistory is the number of lines of earlier chats that the editor recalls.
const maxHistory = 500

// Editor is readline on the process's terminal.
type Editor struct {
	rl      *readline.Instance
	prompt  string
	history *os.File // nil if no history is kept
}

func newEditor(f *factory.Factory, historyFile string) (*Editor, error) {
	prompt := f.TerminalOf(f.Stdout).Paint(render.Bold, "you") + "> "
	rl, err := readline.NewEx(&readline.Config{
		Prompt:                 prompt,
		Stdin:                  readline.NewCancelableStdin(&pasted{r: readline.Stdin}),
		HistoryLimit:           maxHistory,
		DisableAutoSaveHistory: true,
		InterruptPrompt:        "^C",
		EOFPrompt:              "",
	})
	if err != nil {
		return nil, err
	}
	e := &Editor{rl: rl, prompt: prompt}
	if historyFile != "" {
		e.recall(historyFile)
	}
	f.Interrupts.Restore(func() {
		rl.Terminal.Print(pasteOff)
		_ = rl.Terminal.ExitRawMode()
	})
	f.AtEnd(func() {
		f.Interrupts.Restore(nil)
		_ = rl.Close()
		if e.history != nil {
			_ = e.history.Close()
		}
	})
	return e, nil
}

// recall loads the last lines of the history file and opens it for appending. Only the owner can read the file. The
// editor also works without it.
func (e *Editor) recall(path string) {
	if data, err := os.ReadFile(filepath.Clean(path)); err == nil {
		past := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		for _, line := range past[max(0, len(past)-maxHistory):] {
			_ = e.rl.SaveHistory(line)
		}
	}
	if f, err := os.OpenFile(filepath.Clean(path), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		_ = f.Chmod(0o600)
		e.history = f
	}
}

// stdout returns a writer that prints above the line that is being typed.
func (e *Editor) stdout() io.Writer { return e.rl.Stdout() }

func (e *Editor) Stderr() io.Writer { return e.rl.Stderr() }

// More asks whether to show more. q, an interrupt and the end of the input mean no.
func (e *Editor) More(question string) bool {
	e.rl.SetPrompt(question)
	defer e.rl.SetPrompt(e.prompt)
	line, err := e.rl.Readline()
	return err == nil && !strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "q")
}

func (e *Editor) Next(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	e.rl.Terminal.Print(pasteOn)
	line, err := e.rl.Readline()
	e.rl.Terminal.Print(pasteOff)
	if errors.Is(err, readline.ErrInterrupt) {
		return "", ErrInterrupt
	}
	if err == nil && strings.TrimSpace(line) != "" {
		_ = e.rl.SaveHistory(line)
		if e.history != nil {
			_, _ = e.history.WriteString(line + "\n")
		}
	}
	return typed(line), err
}

// In bracketed paste mode, which xterm and most other terminals support, a terminal puts marks around pasted text, so
// that its line ends do not send it line by line.
const (
	pasteOn, pasteOff = "\x1b[?2004h", "\x1b[?2004l"
	pasteBegins       = "\x1b[200~"
	pasteEnds         = "\x1b[201~"
	// lineEnd replaces a pasted line end in the line editor and its history.
	lineEnd = "␤"
)

// pasted reads a terminal's input. In pasted text it replaces line ends by lineEnd and tabs by a space, and drops other
// control characters except escapes. It keeps the marks, which the line editor ignores.
type pasted struct {
	r      io.Reader
	inside bool
	mark   int // the number of bytes read of the next mark
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

// typed returns a line of the editor with its line ends.
func typed(line string) string { return strings.ReplaceAll(line, lineEnd, "\n") }

// Printer returns a printer of events to use while a person may be typing.
func Printer(f *factory.Factory, in Lines) *render.Printer {
	var w io.Writer = f.Stdout
	terminal := f.TerminalOf(f.Stdout)
	terminal.Live = false
	if e, ok := in.(*Editor); ok { // it redraws its line below the printed text
		w = e.stdout()
	}
	return render.Transcript(&wholeLines{w: w}, terminal)
}

// wholeLines writes only complete lines, because an editor redraws its line after each write.
type wholeLines struct {
	w    io.Writer
	rest []byte
}

func (l *wholeLines) Write(b []byte) (int, error) {
	if l.rest = append(l.rest, b...); !bytes.HasSuffix(l.rest, []byte("\n")) {
		return len(b), nil
	}
	_, err := l.w.Write(l.rest)
	l.rest = l.rest[:0]
	return len(b), err
}

// Follow calls hear for each event that is stored in a session after a position, until the context ends. wait returns
// after the last call.
func Follow(ctx context.Context, f *factory.Factory, of factory.Feed, after int64, hear func(*event.Event)) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for entry, err := range of.Tail(ctx, session.Position{Seq: after}.String()) {
			if err != nil {
				if ctx.Err() == nil && !remote.Missing(err) { // the session does not exist yet
					f.Say("what others do is not shown any more: %s", err)
				}
				return
			}
			if !entry.Event.Partial {
				hear(entry.Event)
			}
		}
	}()
	return func() { <-done }
}
