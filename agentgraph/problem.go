package agentgraph

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// Code identifies the kind of a problem. Codes are stable; messages are not.
type Code string

// The codes of problems.
const (
	CodeBadExpression     Code = "bad_expression"     // a condition, a transform or another expression that does not compile
	CodeBadMaxRetries     Code = "bad_max_retries"    // not an integer of at least 0
	CodeBadStrategy       Code = "bad_strategy"       // not fail-fast, continue or retry
	CodeBadVersion        Code = "bad_version"        // metadata.version is not a semantic version
	CodeCycle             Code = "cycle"              // an edge that closes a cycle, or files that include each other
	CodeDuplicateID       Code = "duplicate_id"       // an id that another agent has, or a priority that another edge has
	CodeMissingField      Code = "missing_field"      // a required key that is absent or empty
	CodeUnknownAgentRef   Code = "unknown_agent_ref"  // a reference to an agent, or to a file with a graph, that does not exist
	CodeUnknownEdgeAgent  Code = "unknown_edge_agent" // an end of an edge that is not an agent's id
	CodeUnknownEntrypoint Code = "unknown_entrypoint" // an entrypoint that is not an agent's id
	CodeUnknownTool       Code = "unknown_tool"       // a tool that does not exist
	CodeUnknownFallback   Code = "unknown_fallback"   // a fallback that is not an agent's id
	CodeUnknownField      Code = "unknown_field"      // an unknown key
	CodeUnreachable       Code = "unreachable"        // an agent that cannot be reached from the entrypoint
	CodeWrongAPIVersion   Code = "wrong_api_version"  // neither ossa.ai/v0.2.x nor arbor/v1
	CodeWrongKind         Code = "wrong_kind"         // no AgentGraph, or a document of another kind
	CodeYAML              Code = "yaml"               // invalid YAML, or a value that is not allowed
)

// Problem is one error in a file.
type Problem struct {
	Code Code `json:"code"`
	// Path is the place in the graph's document, such as spec.edges[1].condition. In another document of the file it
	// begins with the document's index, such as documents[2]. for the third. It is empty if the problem concerns the
	// whole file.
	Path string `json:"path"`
	// Line is the line in the file, from 1.
	Line    int    `json:"line"`
	Message string `json:"message"`
	// File is the file of an inner graph with the problem, relative to the folder of the graph's own file, with
	// slashes. It is empty for the graph's own file.
	File string `json:"file,omitempty"`
}

// String returns the problem as path: message [code], without an empty path.
func (p Problem) String() string {
	if p.Path == "" {
		return fmt.Sprintf("%s [%s]", p.Message, p.Code)
	}
	return fmt.Sprintf("%s: %s [%s]", p.Path, p.Message, p.Code)
}

// Error is the error of [Load] for an invalid file. It contains every problem, at least one, sorted by file, line, path
// and code, with those of the graph's own file first.
type Error struct {
	File     string // the name set by WithFile or LoadFile; may be empty
	Problems []Problem
}

// Error returns one line per problem, as file:line: path: message [code].
func (e *Error) Error() string {
	return yamldoc.Lines(e.Problems, e.Line)
}

// Line returns a problem with its file and line as a prefix. A problem of a [Builder] has no prefix.
func (e *Error) Line(p Problem) string {
	if p.Line == 0 {
		return p.String()
	}
	file := e.File
	if p.File != "" {
		file = filepath.Join(filepath.Dir(e.File), filepath.FromSlash(p.File))
	}
	return fmt.Sprintf("%s:%d: %s", file, p.Line, p)
}

func sortProblems(all []Problem) {
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
}

func (r *reader) add(code Code, path string, line int, format string, args ...any) {
	r.problems = append(r.problems, r.problem(code, path, line, format, args...))
}

func (r *reader) problem(code Code, path string, line int, format string, args ...any) Problem {
	message := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	line = min(max(line, 1), r.lines)
	return Problem{code, r.prefix + visible.Cut(path, yamldoc.MaxMessage), line, visible.Cut(message, yamldoc.MaxMessage), r.file}
}
