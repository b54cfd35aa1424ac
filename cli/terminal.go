package cli

import (
	"io"
	"os"

	"github.com/agentarbor/arbor/cli/internal/render"
)

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
