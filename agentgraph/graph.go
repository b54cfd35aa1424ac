package agentgraph

import "github.com/agentarbor/arbor/internal/expression"

// Graph is a graph of agents without a problem: its ids are unique, its edges lead
// from agents to agents without a circle, and all agents can be reached from the
// entrypoint. It is shared: nobody may change it or what it holds.
type Graph struct {
	// APIVersion is ossa.ai/v0.2.7, or another v0.2 with a warning.
	APIVersion                 string
	Name, Version, Description string
	// Metadata holds the other keys of the metadata block, such as labels; nothing
	// is made of them.
	Metadata map[string]any

	Nodes      []Node // in the order of the file, at least one
	Edges      []Edge // in the order of the file
	Entrypoint string // the id of the node that gets the run's input
	OnError    ErrorHandling

	// Agents are the documents of kind Agent in the same file.
	Agents []Agent
	// Warnings are what is odd about the file and no reason to refuse it. Their
	// codes are those of problems.
	Warnings []Problem
}

// Node is one agent's place in a graph. Two nodes may have the same agent.
type Node struct {
	ID  string
	Ref string // the agent's name, or name@version
	// Config overrides the agent's own configuration, mapping by mapping; nil is
	// none. Its values are those of JSON, with whole numbers as int64, or uint64
	// above the largest.
	Config map[string]any
	Line   int
}

// Edge leads from the output of a node to the input of another.
type Edge struct {
	From, To string // ids
	// Condition decides on the output of From whether the edge is taken; nil is
	// always.
	Condition *Expression
	// Transform makes what To gets of the output of From; nil is the output itself.
	Transform *Expression
	Line      int
}

// Strategy says what a run does when an agent fails.
type Strategy string

// The strategies.
const (
	FailFast Strategy = "fail-fast" // the first error ends the run
	Continue Strategy = "continue"  // the others go on
	Retry    Strategy = "retry"     // the agent is called again, then as FailFast
)

// DefaultMaxRetries is how often an agent is called again under [Retry] if the file
// does not say.
const DefaultMaxRetries = 3

// ErrorHandling is what the file says about errors.
type ErrorHandling struct {
	Strategy   Strategy // FailFast if the file does not say
	MaxRetries int      // DefaultMaxRetries if the file does not say
	Fallback   string   // the id of the node that is asked after an error; may be empty
}

// Agent is a document of kind Agent.
type Agent struct {
	Name, Version string // Version may be empty
	Description   string
	Instructions  string         // spec.instructions, or spec.role
	Model         string         // spec.llm.model; may be empty
	Spec          map[string]any // all of spec
	Line          int
}

// Expression is a compiled condition or transform. It is immutable and can be
// evaluated by any number of goroutines at once.
type Expression struct{ program *expression.Program }

// Source returns the text in the file.
func (e *Expression) Source() string { return e.program.Source() }

// Test evaluates a condition. output is the value of the edge's source and input
// that of the whole run: values of JSON as encoding/json makes them, with whole
// numbers of any Go type. A missing value is false; a comparison by size with a
// missing value, and whatever else has no answer, is an error. It takes a bounded
// number of steps.
func (e *Expression) Test(output, input any) (bool, error) {
	return e.program.Test(expression.Env{Output: output, Input: input})
}

// Value evaluates a transform. The result shares nothing with output and input; it
// is nil, bool, string, int64, uint64 above the largest int64, float64, []any or
// map[string]any. It takes a bounded number of steps and bytes.
func (e *Expression) Value(output, input any) (any, error) {
	return e.program.Value(expression.Env{Output: output, Input: input})
}
