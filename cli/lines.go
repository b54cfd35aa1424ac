package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/chzyer/readline"

	"github.com/agentarbor/arbor/internal/render"
)

// lines are what a person or a pipe says to chat, one after the other.
type lines interface {
	// next waits for a line. The error is io.EOF at the end, errInterrupt for an
	// interrupt at the prompt, or the context's.
	next(ctx context.Context) (string, error)
}

var errInterrupt = errors.New("interrupt at the prompt")

// lines returns a line editor if a person sits at both ends, else a plain
// reader. historyFile may be empty.
func (p *program) lines(historyFile string) (lines, error) {
	if p.Stdin == os.Stdin && isTerminal(p.Stdin) && p.lookOf(p.Stdout).Live {
		return p.newEditor(historyFile)
	}
	r := &pipedLines{r: bufio.NewReader(p.Stdin), ask: make(chan struct{}), got: make(chan gotLine)}
	go r.loop()
	p.atEnd(func() { close(r.ask) })
	return r, nil
}

// pipedLines reads one line each time it is asked, so that what follows stays
// unread. A goroutine does it, because a read cannot be cancelled; one that
// still waits at the end of the command ends with the process.
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

func (l *pipedLines) next(ctx context.Context) (string, error) {
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

// maxHistory is how many lines of earlier chats the editor recalls.
const maxHistory = 500

// editor is readline on the process's terminal.
type editor struct {
	rl      *readline.Instance
	prompt  string
	history *os.File // nil if none is kept
}

func (p *program) newEditor(historyFile string) (*editor, error) {
	prompt := p.lookOf(p.Stdout).Paint(render.Bold, "you") + "> "
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
	e := &editor{rl: rl, prompt: prompt}
	if historyFile != "" {
		e.recall(historyFile)
	}
	p.interrupts.restore(func() {
		rl.Terminal.Print(pasteOff)
		_ = rl.Terminal.ExitRawMode()
	})
	p.atEnd(func() {
		p.interrupts.restore(nil)
		_ = rl.Close()
		if e.history != nil {
			_ = e.history.Close()
		}
	})
	return e, nil
}

// recall loads the last lines of the history file and opens it for more. Only
// its owner can read it. Without the file the editor still works.
func (e *editor) recall(path string) {
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

// more asks whether to go on with what does not fit on the screen. Only q and the end of
// the input stop, and an interrupt.
func (e *editor) more(question string) bool {
	e.rl.SetPrompt(question)
	defer e.rl.SetPrompt(e.prompt)
	line, err := e.rl.Readline()
	return err == nil && !strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "q")
}

func (e *editor) next(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	e.rl.Terminal.Print(pasteOn)
	line, err := e.rl.Readline()
	e.rl.Terminal.Print(pasteOff)
	if errors.Is(err, readline.ErrInterrupt) {
		return "", errInterrupt
	}
	if err == nil && strings.TrimSpace(line) != "" {
		_ = e.rl.SaveHistory(line)
		if e.history != nil {
			_, _ = e.history.WriteString(line + "\n")
		}
	}
	return typed(line), err
}
