package agentgraph

import (
	"time"

	"github.com/agentarbor/arbor/internal/expression"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// Graph is a valid graph of agents: ids are unique, edges connect existing nodes without a cycle, and every node except
// the fallback can be reached from the entrypoint. It is shared and must not be changed.
type Graph struct {
	// APIVersion is ossa.ai/v0.2.7, another v0.2 version with a warning, or arbor/v1. An inline graph has the version
	// of the file around it.
	APIVersion                 string
	Name, Version, Description string
	// Metadata contains the other keys of the metadata block, such as labels. They have no effect.
	Metadata map[string]any

	Nodes      []Node // at least one, in the order of the file
	Edges      []Edge // in the order of the file
	Entrypoint string // the id of the node that gets the run's input
	OnError    ErrorHandling
	// State contains the keys of the state that the nodes of a run share, in the order of the file. Only an arbor/v1
	// graph has any.
	State []StateKey

	// Agents contains the documents of kind Agent in the same file.
	Agents []AgentDocument
	// Warnings contains findings that do not make the file invalid. Their codes are those of problems.
	Warnings []Problem

	checked bool // checked; New refuses other graphs
}

// Node is the place of an agent in a graph. Two nodes may have the same agent. The fields from Graph to History require
// arbor/v1.
type Node struct {
	ID string
	// Ref is the agent's name, name@version, or the [ToolRef] of a tool. It is empty if Graph or ToolsOf is set.
	Ref string
	// Config overrides the agent's own configuration, mapping by mapping, or is nil. Its values are JSON values, with
	// integers as int64, or uint64 if they are larger.
	Config map[string]any
	// Graph replaces the agent: its entrypoint gets the node's input, and the output of its run is the node's output.
	Graph *Graph
	// Tool is the tool that the node calls with its input, which must be a JSON object of arguments. It is a tool of
	// the agent Ref, or the tool that a [ToolRef] in Ref names.
	Tool string
	// ToolsOf is the id of another node. That node's agent passes its tool calls on, and this node runs the calls of
	// the last message in its input. See [llmagent.Agent.Split].
	ToolsOf string
	// Loop calls the node again with its own output. Nil means one call.
	Loop *Loop
	// Human asks a person for approval before the node runs. Nil means no approval.
	Human *Approval
	// Next evaluates to the ids of the targets that may be reached from the node in this run: a string, or a list of
	// strings. Edges to other targets are not taken, whatever their conditions. Nil leaves the choice to the
	// conditions.
	Next *Expression
	// Update contains the node's writes to the shared state. They are applied after each call that gives an output,
	// before that output is used. All of them see the state as it was before.
	Update []Update
	// Transform computes the node's output from its agent's output, after the last call of a loop. Nil means the
	// agent's output.
	Transform *Expression
	// Timeout limits the duration of one call of the node. 0 means no limit of its own.
	Timeout time.Duration
	// Retry sets how often the node is called again after an error, whatever the graph's strategy. Nil leaves it to the
	// strategy.
	Retry *RetryPolicy
	// History selects what the node's agents see of the conversation around the graph. Nil shows nothing.
	History *view.Policy
	Line    int
}

// Loop repeats a node. The output of each call is the input of the next.
type Loop struct {
	// Until ends the loop when it is true for the output of a call.
	Until *Expression
	// Max is the largest number of calls, from 1 to 1,000. Unless Fail is set, the output of the last call is used
	// even if Until is false for it.
	Max int
	// Fail makes the node fail if Until is false after Max calls.
	Fail bool
}

// maxCalls is the largest value of Loop.Max.
const maxCalls = 1000

// Approval is an approval request to a person.
type Approval struct {
	Ask string   // the question; may be empty
	By  tools.By // who may answer; the zero value leaves it to the server
}

// Update is a write to the shared state.
type Update struct {
	Key string // a state key of the graph
	// Value is evaluated on the node's output. The key's reducer combines it with the current value.
	Value *Expression
}

// RetryPolicy sets how a node is retried after an error.
type RetryPolicy struct {
	// Max is how often the node is called again. 0 means never.
	Max int
	// Backoff is the pause before the first retry. It doubles with each one. 0 uses the pause of the graph.
	Backoff time.Duration
}

// StateKey is a key of the state that the nodes of a run share.
type StateKey struct {
	Name    string
	Reducer Reducer // ReduceReplace if the file sets none
	// Initial is the value at the start of a run, with the types of Node.Config values. Nil means no value.
	Initial any
	Line    int
}

// Reducer combines a value that is written to a state key with the current one. Nodes write in the order in which they
// end. Nodes that end together write in the order of the file.
type Reducer string

// The reducers. A key without a value takes the first value that is written, except that ReduceAppend makes a list of
// it. Writing no value has no effect, except with ReduceReplace.
const (
	ReduceReplace Reducer = "replace" // the last value replaces the others
	ReduceAppend  Reducer = "append"  // appends an item to a list, or the items of a list
	ReduceMerge   Reducer = "merge"   // merges mappings at any depth
	ReduceSum     Reducer = "sum"     // adds numbers
	ReduceMin     Reducer = "min"     // keeps the smallest number
	ReduceMax     Reducer = "max"     // keeps the largest number
)

// Edge connects the output of a node to the input of another.
type Edge struct {
	From, To string // node ids
	// Condition decides on the output of From whether the edge is taken. Nil means always.
	Condition *Expression
	// Transform computes the input of To from the output of From. Nil means the output itself.
	Transform *Expression
	// Priority makes edges of one source exclusive: of those with a priority, only the first whose condition is true is
	// taken, starting with the largest number. It is from 1 to 1,000,000, and requires arbor/v1. 0 means no
	// priority; such an edge does not compete.
	Priority int
	Line     int
}

// maxPriority is the largest priority of an edge.
const maxPriority = 1_000_000

// Strategy is what a run does when an agent fails.
type Strategy string

// The strategies.
const (
	FailFast Strategy = "fail-fast" // the first error ends the run
	Continue Strategy = "continue"  // the other nodes continue
	Retry    Strategy = "retry"     // the agent is called again, then as FailFast
)

// defaultMaxRetries is how often an agent is called again under [Retry] if the file does not set it.
const defaultMaxRetries = 3

// ErrorHandling is the error handling of a graph.
type ErrorHandling struct {
	Strategy   Strategy // FailFast if the file sets none
	MaxRetries int      // 3 if the file sets none
	Fallback   string   // the id of the node that is called after an error; may be empty
}

// AgentDocument is a document of kind Agent.
type AgentDocument struct {
	Name, Version string // Version may be empty
	Description   string
	Instructions  string         // spec.instructions, or spec.role
	Model         string         // spec.llm.model; may be empty
	Spec          map[string]any // all of spec
	Line          int
}

// Expression is a compiled condition, transform or other expression. It is immutable and safe for concurrent use.
type Expression struct {
	program *expression.Program
	call    func(Values) (any, error) // replaces program; set by a Builder
	state   map[string]any
}

// Source returns the text in the file, or "a function" for a function of a [Builder].
func (e *Expression) Source() string {
	if e.program == nil {
		return "a function"
	}
	return e.program.Source()
}

// Test evaluates a condition. output is the output of the edge's source, and input the input of the run. Both are JSON
// values as encoding/json returns them, with numbers of any Go type. A missing value is false. An ordering comparison
// with a missing value, and any other expression without a value, is an error. Time and memory are limited.
func (e *Expression) Test(output, input any) (bool, error) {
	if e.call != nil {
		return called[bool](e.call, Values{output, input, e.state})
	}
	env, err := expression.EnvOf(output, input, e.state)
	if err != nil {
		return false, err
	}
	return e.program.Test(env)
}

// WithState returns the expression for evaluation with a shared state, whose values have the types of output in
// [Expression.Test]. Without it, every key of the state is missing. The state is only read, and must not change during
// an evaluation.
func (e *Expression) WithState(state map[string]any) *Expression {
	return &Expression{e.program, e.call, state}
}
