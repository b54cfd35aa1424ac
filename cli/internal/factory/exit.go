package factory

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Output is what the command prints to people and programs, and where.
type Output struct {
	Streams
	Name   string      // of the program
	Out    *FirstError // Stdout
	JSON   bool        // --json is given
	saying sync.Mutex  // guards Stderr
}

// ShowQuestions prints questions to people, each of them complete.
func (o *Output) ShowQuestions(w io.Writer, asked []*event.Relay) {
	terminal := o.TerminalOf(w)
	var b strings.Builder
	for _, d := range asked {
		line, rows := render.Question(d, terminal.Columns)
		b.WriteString("  " + terminal.Paint(render.Bold, line) + "\n")
		for _, row := range rows {
			b.WriteString(row + "\n")
		}
	}
	o.saying.Lock()
	defer o.saying.Unlock()
	_, _ = io.WriteString(w, b.String()) // the output keeps its errors
}

// The exit statuses of the command.
const (
	StatusAnswered    = 0
	StatusFindings    = 1   // an evaluation is below its threshold, sessions differ, a tree may route badly
	StatusUsage       = 2   // bad input or configuration
	StatusFailed      = 3   // the model or a tool failed or had no answer, or the model repeated wrong calls
	StatusLimit       = 4   // a limit of the turn was reached
	StatusApproval    = 5   // the turn waits for an approval, or for something that is done elsewhere
	StatusBusy        = 6   // another turn holds the session
	StatusInterrupted = 130 // by a signal, or because the output was closed
)

// usageError is a mistake in the command line or in the configuration.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage turns an error into a usage error.
func Usage(err error) error { return usageError{err} }

// Usagef is fmt.Errorf for usage errors.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Exit ends the command with a status after all messages were printed.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Status returns the exit status for an error.
func Status(err error) int {
	var (
		said  Exit
		usage usageError
		tree  *agent.TreeError
		files *yamldoc.Error
	)
	switch {
	case err == nil:
		return StatusAnswered
	case errors.As(err, &said):
		return int(said)
	case errors.Is(err, context.Canceled), errors.Is(err, syscall.EPIPE):
		return StatusInterrupted
	case errors.Is(err, syscall.ENOSPC):
		return StatusFailed
	case errors.As(err, &usage), errors.As(err, &tree), errors.As(err, &files), errors.Is(err, agent.ErrBadInput), errors.Is(err, runner.ErrNoApproval):
		return StatusUsage
	case errors.Is(err, agent.ErrLimit), errors.Is(err, agent.ErrTransferLimit):
		return StatusLimit
	case errors.Is(err, agent.ErrSessionBusy), errors.Is(err, agent.ErrConflict):
		return StatusBusy
	}
	return StatusFailed
}

// Finish reports an error to the user and returns the status.
func (o *Output) Finish(err error) int {
	o.Report(err)
	return Status(err)
}

// Report writes an error to standard error: one line, or one line per problem.
func (o *Output) Report(err error) {
	var said Exit
	switch {
	case err == nil, errors.As(err, &said), errors.Is(err, syscall.EPIPE):
		return
	case errors.Is(err, context.Canceled):
		o.Say("interrupted")
		return
	}
	lines := ProblemLines(err)
	if all, what := ProblemsOf(err); all != nil {
		lines = append([]string{render.Count(len(lines), "problem") + " in the " + what}, lines...)
	}
	o.SayTo(o.Stderr, lines...)
}

// Say writes one line about the command itself to standard error. It is safe for concurrent use.
func (o *Output) Say(format string, args ...any) {
	o.SayTo(o.Stderr, fmt.Sprintf(format, args...))
}

// SayTo writes lines about the command itself, the first with its name. It is safe for concurrent use.
func (o *Output) SayTo(w io.Writer, lines ...string) {
	var b strings.Builder
	for i, line := range lines {
		if i == 0 {
			line = o.Name + ": " + line
		}
		b.WriteString(visible.Line(line) + "\n")
	}
	o.saying.Lock()
	defer o.saying.Unlock()
	_, _ = io.WriteString(w, b.String()) // there is no other place to report an error
}

// ProblemsOf returns the problems in an error and what has them. It returns none for any other error.
func ProblemsOf(err error) (all []yamldoc.Problem, what string) {
	var tree *agent.TreeError
	var files *yamldoc.Error
	switch {
	case errors.As(err, &files):
		return files.Problems, "files"
	case errors.As(err, &tree):
		for _, p := range tree.Problems {
			all = append(all, yamldoc.Problem{Message: p.String()})
		}
	}
	return all, "tree of agents"
}

// ProblemLines returns an error as lines, one per problem of files or of a tree.
func ProblemLines(err error) (lines []string) {
	all, _ := ProblemsOf(err)
	for _, p := range all {
		lines = append(lines, p.String())
	}
	if lines == nil {
		lines = []string{Plain(err, "")}
	}
	return lines
}

// Plain returns an error's text for people: without the name of a package at its start, without the kind of error that
// says only that the input is bad, and with a sentence for what the operating system reports about a file.
func Plain(err error, pkg string) string {
	text := strings.Replace(strings.TrimPrefix(err.Error(), pkg+": "), ": "+agent.ErrBadInput.Error(), "", 1)
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		text = strings.Replace(text, file.Error(), fileProblem(file), 1)
	}
	return strings.TrimSpace(text)
}

func fileProblem(err *fs.PathError) string {
	problem := err.Path + ": " + confined.Reason(err).Error()
	if folder := filepath.Dir(err.Path); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			problem += ", and no folder " + folder
		}
	}
	return problem
}

// Problems prints problems in lines, or with --json as an array, counts them, and returns the command's error.
func (o *Output) Problems(all any, lines []string) error {
	if o.JSON {
		render.JSON(o.Stdout, all)
	} else {
		for _, line := range lines {
			fmt.Fprintln(o.Stdout, visible.Line(line))
		}
	}
	o.Say("%s", render.Count(len(lines), "problem"))
	return Exit(StatusUsage)
}

// Cases loads all files of cases. The error has the problems of all files, or says why one cannot be read.
func Cases[T any](files []string, load func(file string) ([]T, error)) (all []T, err error) {
	var problems []yamldoc.Problem
	for _, file := range files {
		found, err := load(file)
		var bad *yamldoc.Error
		switch {
		case errors.As(err, &bad):
			problems = append(problems, bad.Problems...)
		case err != nil:
			return nil, Usage(err)
		}
		all = append(all, found...)
	}
	return all, yamldoc.AsError(problems)
}

// Warnings returns a logger that prints records from level warn on.
func (o *Output) Warnings() *slog.Logger { return slog.New(warningsOnly{sayer{o}}) }

// warningsOnly passes on records from level warn on.
type warningsOnly struct{ slog.Handler }

func (w warningsOnly) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// ShownID returns a key without the parts that the command fills in itself. If the id contains a slash, it returns all
// parts, so that the id cannot be confused with another session's key.
func ShownID(key session.Key) string {
	if Own(key) && !strings.Contains(key.ID, "/") {
		return key.ID
	}
	return key.String()
}

// Own reports whether a session is one of the command's own, which --session names by their id.
func Own(key session.Key) bool { return key == session.ID(key.ID) }

// Table returns a writer that aligns the cells of lines, which tabs separate, below a head unless that is "".
func Table(w io.Writer, head string) *tabwriter.Writer {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if head != "" {
		fmt.Fprintln(table, head)
	}
	return table
}

// Rows prints a list: a table below a head or, with --json, an object per row and line.
type Rows struct {
	*tabwriter.Writer
	o *Output
}

// Rows returns an empty list. Its Flush prints the table.
func (o *Output) Rows(head string) Rows {
	if o.JSON {
		head = ""
	}
	return Rows{Table(o.Stdout, head), o}
}

// Add adds a row: the object of --json, and the cells of the table.
func (r Rows) Add(object any, cells ...string) {
	if r.o.JSON {
		render.JSON(r.o.Stdout, object)
	} else {
		fmt.Fprintln(r, strings.Join(cells, "\t"))
	}
}

// PrintJSON writes one object: in one line with --json, otherwise indented.
func (o *Output) PrintJSON(v any) error {
	if !o.JSON && render.IndentedJSON(o.Stdout, v) == nil {
		return nil
	}
	render.JSON(o.Stdout, v) // also for values that are nested more deeply than encoding/json indents
	return nil
}

// RandomHex returns random bytes in hexadecimal digits.
func RandomHex(bytes int) string {
	random := make([]byte, bytes)
	_, _ = rand.Read(random) // it never fails
	return hex.EncodeToString(random)
}

// CommandLine returns a command line for the current database. The arguments are already quoted; the path may be empty.
func (f *Factory) CommandLine(command, path string, rest ...string) string {
	words := []string{f.Name, command}
	if path != "" {
		words = append(words, path)
	}
	words = append(words, rest...)
	switch {
	case f.Server.URL != "" && !slices.Contains(rest, "--server"):
		words = append(words, f.Server.Words()...)
	case f.Place.DB != "":
		words = append(words, "--db", QuoteArg(WithoutPassword(f.Place.DB)))
	}
	return strings.Join(words, " ")
}

// Words returns flags with their values, which it quotes, without those that have none.
func Words(flagsAndValues ...string) (words []string) {
	for pair := range slices.Chunk(flagsAndValues, 2) {
		if pair[1] != "" {
			words = append(words, pair[0], QuoteArg(pair[1]))
		}
	}
	return words
}

// QuotePath quotes the path of a tree for a shell; "" remains "".
func QuotePath(path string) string {
	if path == "" {
		return ""
	}
	return QuoteArg(path)
}

// QuoteArg quotes an argument for a POSIX shell if necessary.
func QuoteArg(s string) string {
	safe := func(r rune) bool {
		return r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r))
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
