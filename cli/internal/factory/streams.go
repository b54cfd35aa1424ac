package factory

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/llm"
)

// MaxMessage bounds a user's message, in bytes.
const MaxMessage = 8 << 20

// ReadMessage returns what the user says: the argument, or standard input for "-"
// and, unless it is a terminal, for no argument. One line break at the end of
// standard input is not part of it.
func ReadMessage(f *Factory, args []string) (llm.Message, error) {
	if len(args) > 0 && args[0] != "-" {
		return CheckMessage(args[0])
	}
	if f.Stdin == nil || len(args) == 0 && IsTerminal(f.Stdin) {
		return llm.Message{}, Usagef("the message is missing: give one in quotes, or - to read it from standard input")
	}
	data, err := io.ReadAll(io.LimitReader(f.Stdin, MaxMessage+1))
	if err != nil {
		return llm.Message{}, Usagef("the message cannot be read: %w", err)
	}
	return CheckMessage(strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"))
}

// CheckMessage refuses what no agent can answer. All other text is carried word
// for word.
func CheckMessage(text string) (llm.Message, error) {
	var err error
	switch {
	case strings.TrimSpace(text) == "":
		err = errors.New("the message is empty")
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

// Streams are what a command reads and writes. Whether a stream is a terminal is
// asked of those that are an *os.File.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Getenv looks up an environment variable; nil finds none.
	Getenv func(name string) string
}

// FirstError keeps a writer's first error and writes nothing after it, so that
// a reader that went away is noticed however the output was made.
type FirstError struct {
	W   io.Writer
	mu  sync.Mutex
	err error
}

// Failed returns the error, nil if all was written.
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

// file returns the file that a stream is, or nil.
func file(stream any) *os.File {
	if f, ok := stream.(*FirstError); ok {
		stream = f.W
	}
	f, _ := stream.(*os.File)
	return f
}

// LookOf returns the look of text on a stream.
func (f *Factory) LookOf(stream io.Writer) render.Look { return render.LookOf(file(stream), f.Getenv) }
