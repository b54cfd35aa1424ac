package factory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/llm"
)

// MaxMessage is the maximal size of a user's message, in bytes.
const MaxMessage = 8 << 20

// ReadMessage returns the user's message: the argument, or standard input if the argument is "-", or if the argument is
// missing and standard input is not a terminal. It drops one line break at the end of standard input.
func ReadMessage(f *Factory, args []string) (llm.Message, error) {
	if len(args) > 0 && args[0] != "-" {
		return CheckMessage(args[0])
	}
	if f.Stdin == nil || len(args) == 0 && IsTerminal(f.Stdin) {
		return llm.Message{}, Usagef("the message is missing: give one in quotes, or - to read it from standard input")
	}
	data, err := f.Read("the message", "-", MaxMessage)
	if err != nil {
		return llm.Message{}, err
	}
	return CheckMessage(strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"))
}

// CheckMessage returns an error for a text that no agent can answer. It does not change any other text.
func CheckMessage(text string) (llm.Message, error) {
	var err error
	switch {
	case strings.TrimSpace(text) == "":
		err = errors.New("the message is empty: give it as an argument or on standard input")
	case !utf8.ValidString(text):
		err = errors.New("the message is not valid UTF-8")
	case len(text) > MaxMessage:
		err = fmt.Errorf("the message is longer than %d MiB", MaxMessage>>20)
	}
	if err != nil {
		return llm.Message{}, Usage(err)
	}
	return llm.UserText(text), nil
}

// Streams are the streams of a command. Streams that are an *os.File may be terminals.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Getenv looks up an environment variable; nil finds none.
	Getenv func(name string) string
}

// MaxFile is the maximal size of a file that a flag or an argument names, in bytes, if nothing else limits it.
const MaxFile = 64 << 20

// Read returns the content of a file, or of standard input if its name is "-". The file may be a pipe, such as
// /dev/stdin. An error names what is read, such as a flag, and never contains content.
func (s Streams) Read(what, name string, most int) ([]byte, error) {
	in, from := s.Stdin, "standard input"
	if name != "-" {
		from = name
		file, err := os.Open(name)
		if err != nil {
			return nil, Usagef("%s: %w", what, err)
		}
		defer func() { _ = file.Close() }()
		in = file
	} else if in == nil {
		return nil, Usagef("%s: there is no standard input", what)
	}
	data, err := io.ReadAll(io.LimitReader(in, int64(most)+1))
	switch {
	case err != nil:
		return nil, Usagef("%s: %w", what, err)
	case len(data) > most:
		limit := Size(most)
		return nil, Usagef("%s: %s is larger than %s, which is the most that is read", what, from, &limit)
	}
	return data, nil
}

// FirstError keeps a writer's first error and writes nothing after it, so that a closed output is noticed even if a
// caller ignores the error.
type FirstError struct {
	W   io.Writer
	mu  sync.Mutex
	err error
}

// Failed returns the error, nil if everything was written.
func (f *FirstError) Failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *FirstError) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.W.Write(b)
	f.err = err
	return n, err
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool { return render.IsTerminal(file(stream)) }

// file returns the stream as a file, or nil.
func file(stream any) *os.File {
	if f, ok := stream.(*FirstError); ok {
		stream = f.W
	}
	f, _ := stream.(*os.File)
	return f
}

// TerminalOf returns the style of text on a stream.
func (o *Output) TerminalOf(stream io.Writer) render.Terminal {
	return render.TerminalOf(file(stream), o.Getenv)
}

// Interrupts turns signals into the end of a turn. The first signal cancels the running turn; another one, or one
// without a running turn, ends the program. The zero value handles no signals.
type Interrupts struct {
	exit func(status int)

	mu     sync.Mutex
	cancel context.CancelFunc // of the running turn, nil between turns
	hit    bool               // the turn was cancelled
	ended  bool               // SIGTERM came, so no turn may start
	undo   func()             // restores the terminal before the program ends
}

// WatchSignals handles SIGINT and SIGTERM until the process ends. It also handles SIGPIPE, so that writing to a closed
// pipe is an error, after which the turn can end properly, and does not end the process.
func WatchSignals(exit func(int)) *Interrupts {
	in := &Interrupts{exit: exit}
	// Has room for several, so that a quick second signal is not lost.
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

// Turn returns a context that the next signal cancels, and a function to call when the turn is over.
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

// Over reports whether the program must end, and not only the turn.
func (in *Interrupts) Over() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.ended
}

// Restore sets the function that is called before a signal ends the program; nil calls none.
func (in *Interrupts) Restore(undo func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.undo = undo
}

// Put writes a file of a session to a folder, and returns its path. It overwrites nothing: if another file has the
// name, the new one gets a number.
func Put(ctx context.Context, blob func(ctx context.Context, digest string) ([]byte, error), dir string, f *event.File) (string, error) {
	data, err := blob(ctx, f.Digest)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", err
	}
	name := event.FileName(f.Name, "file") // safe for any name in the log
	ext := filepath.Ext(name)
	for n := 2; ; n++ {
		path := filepath.Join(dir, name)
		err := Create(path, data)
		if err == nil || !exists(path) {
			return path, err
		}
		if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, data) {
			return path, nil
		}
		name = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(event.FileName(f.Name, "file"), ext), n, ext)
	}
}

// Create writes a file that does not exist yet.
func Create(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return Usagef("%s exists already", path)
	} else if err != nil {
		return Usage(err)
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
