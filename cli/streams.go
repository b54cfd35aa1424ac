package cli

import (
	"io"
	"os"
	"sync"

	"github.com/agentarbor/arbor/internal/render"
)

// Streams are what a command reads and writes. Whether a stream is a terminal is
// asked of those that are an *os.File.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Getenv looks up an environment variable; nil finds none.
	Getenv func(name string) string
}

// firstError keeps a writer's first error and writes nothing after it, so that
// a reader that went away is noticed however the output was made.
type firstError struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

// failed returns the error, nil if all was written.
func (f *firstError) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *firstError) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.w.Write(b)
	f.err = err
	return n, err
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool { return render.IsTerminal(file(stream)) }

// file returns the file that a stream is, or nil.
func file(stream any) *os.File {
	if f, ok := stream.(*firstError); ok {
		stream = f.w
	}
	f, _ := stream.(*os.File)
	return f
}

// lookOf returns the look of text on a stream.
func (p *program) lookOf(stream io.Writer) render.Look { return render.LookOf(file(stream), p.Getenv) }
