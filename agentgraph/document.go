package agentgraph

import (
	"bytes"

	"github.com/agentarbor/arbor/internal/yamldoc"
)

// MaxFile is the largest file in bytes that is read.
const MaxFile = 4 << 20

var rules = yamldoc.Rules{Tokens: 1_000_000, Depth: 64, Keys: 1_000, Documents: 100, Aliases: 10_000}

// documents parses a file. It reports what is wrong; the result is then nil.
func (r *valueReader) documents(data []byte) *yamldoc.File {
	if len(data) <= MaxFile {
		r.lines = bytes.Count(data, []byte("\n")) + 1
	}
	text, problem := yamldoc.Decode(data, MaxFile)
	if problem != nil {
		r.add(CodeYAML, "", problem.Line, "%s", problem.Message)
		return nil
	}
	file, problems := yamldoc.Parse(text, rules)
	for _, p := range problems {
		r.add(CodeYAML, "", p.Line, "%s", p.Message)
	}
	return file
}
