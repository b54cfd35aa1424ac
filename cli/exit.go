package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/agentarbor/arbor/access/usersfile"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/runner"
)

// The exit statuses of the command.
const (
	StatusAnswered    = 0
	StatusFindings    = 1   // an evaluation is below what was asked of it, a session differs, a tree may route badly, sessions stay where none is to be
	StatusUsage       = 2   // bad input or configuration
	StatusFailed      = 3   // the model or a tool failed or had no answer, or calls were wrong again and again
	StatusLimit       = 4   // a limit of the turn was reached
	StatusApproval    = 5   // the turn waits for an approval, or for something else that is done elsewhere
	StatusBusy        = 6   // another turn holds the session
	StatusInterrupted = 130 // by a signal, or because nobody reads the output
)

// usageError is a mistake of whoever called the command, or in its
// configuration.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// statusError ends the command with a status after all messages were printed.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// status returns the exit status for an error.
func status(err error) int {
	var (
		said  statusError
		usage usageError
		tree  *agent.TreeError
		files *agentfile.Error
	)
	switch {
	case err == nil:
		return StatusAnswered
	case errors.As(err, &said):
		return int(said)
	case errors.Is(err, context.Canceled), errors.Is(err, syscall.EPIPE):
		return StatusInterrupted
	case errors.As(err, &usage), errors.As(err, &tree), errors.As(err, &files), errors.Is(err, agent.ErrBadInput), errors.Is(err, runner.ErrNoApproval):
		return StatusUsage
	case errors.Is(err, agent.ErrLimit), errors.Is(err, agent.ErrTransferLimit):
		return StatusLimit
	case errors.Is(err, agent.ErrSessionBusy), errors.Is(err, agent.ErrConflict):
		return StatusBusy
	}
	return StatusFailed
}

// finish tells the user about an error and returns the status.
func (p *program) finish(err error) int {
	p.report(err)
	return status(err)
}

// report writes an error to standard error: one line, or one line a problem.
func (p *program) report(err error) {
	var (
		said  statusError
		tree  *agent.TreeError
		files *agentfile.Error
		users *usersfile.Error
		what  string
	)
	switch {
	case err == nil, errors.As(err, &said), errors.Is(err, syscall.EPIPE):
		return
	case errors.Is(err, context.Canceled):
		p.say("interrupted")
		return
	case errors.As(err, &files):
		what = "agents' files"
	case errors.As(err, &users):
		what = "users file"
	case errors.As(err, &tree):
		what = "tree of agents"
	}
	lines := problemLines(err)
	if what != "" {
		lines = append([]string{render.Count(len(lines), "problem") + " in the " + what}, lines...)
	}
	p.sayTo(p.Stderr, lines...)
}

// say writes one line about the command itself to standard error. It may be called
// from any goroutine.
func (p *program) say(format string, args ...any) {
	p.sayTo(p.Stderr, fmt.Sprintf(format, args...))
}

// sayTo writes lines about the command itself, the first with its name. It may be called from any
// goroutine.
func (p *program) sayTo(w io.Writer, lines ...string) {
	var b strings.Builder
	for i, line := range lines {
		if i == 0 {
			line = p.name + ": " + line
		}
		b.WriteString(visible.Line(line) + "\n")
	}
	p.saying.Lock()
	defer p.saying.Unlock()
	_, _ = io.WriteString(w, b.String()) // there is nowhere else to tell of an error
}
