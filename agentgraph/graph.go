package agentgraph

import (
	"time"

	"github.com/agentarbor/arbor/internal/expression"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// Graph is a graph of agents without a problem: its ids are unique, its edges lead
// from agents to agents without a circle, and all agents can be reached from the
// entrypoint. It is shared and must not be changed.
type Graph struct {
	// APIVersion is ossa.ai/v0.2.7, another v0.2 with a warning, or arbor/v1. In an
	// inline graph it is that of the file around it.
	APIVersion                 string
	Name, Version, Description string
	// Metadata holds the other keys of the metadata block, such as labels; they
	// have no effect.
	Metadata map[string]any

	Nodes      []Node // in the order of the file, at least one
	Edges      []Edge // in the order of the file
	Entrypoint string // the id of the node that gets the run's input
	OnError    ErrorHandling
	// State are the keys of the state that the nodes of a run share, in the order of
	// the file; only a graph of arbor/v1 has any.
	State []StateKey

	// Agents are the documents of kind Agent in the same file.
	Agents []AgentDocument
	// Warnings are what is odd about the file and no reason to refuse it. Their
	// codes are those of problems.
	Warnings []Problem

	sound bool // it was checked: New refuses other graphs
}

// Node is one agent's place in a graph. Two nodes may have the same agent. Of its
// fields, those from Graph to History can be set in a graph of arbor/v1 only.
type Node struct {
	ID string
	// Ref is the agent's name, or name@version, or the [ToolRef] of a tool; empty if there
	// is a Graph or ToolsOf.
	Ref string
	// Config overrides the agent's own configuration, mapping by mapping; nil is
	// none. Its values are those of JSON, with whole numbers as int64, or uint64
	// above the largest.
	Config map[string]any
	// Graph takes the place of an agent: its entrypoint gets the node's input, and the
	// output of its run is the node's output.
	Graph *Graph
	// Tool is the tool that the node calls with its input, which must be a JSON object of
	// arguments. It is a tool of the agent Ref, or the one that Ref means.
	Tool string
	// ToolsOf is the id of another node, whose agent then passes its tool calls on: this node
	// runs the calls of the last message of its input. See [llmagent.Agent.Split].
	ToolsOf string
	// Loop calls the node again with its own output; nil is one call.
	Loop *Loop
	// Human asks a person before the node runs; nil asks nobody.
	Human *Approval
	// Next gives the ids of those targets of the node's edges that may be reached from
	// it in this run: a text, or a list of texts. Edges to others are not taken,
	// whatever their conditions say. Nil leaves it to the conditions.
	Next *Expression
	// Update are the node's writes to the shared state. They are made when a call of it
	// has given an output, before that is used for anything else. All of them see the
	// state as it was before.
	Update []Update
	// Transform gives the node's output from that of its agent, after the last call of a
	// loop; nil is the agent's.
	Transform *Expression
	// Timeout is what one call of the node may take; 0 is no limit of its own.
	Timeout time.Duration
	// Retry says how often the node is called again after an error, whatever the
	// strategy of the graph; nil leaves it to the strategy.
	Retry *RetryPolicy
	// History is how the node's agents see the conversation around the graph; nil shows
	// nothing of it.
	History *view.Policy
	Line    int
}

// Loop is the repetition of a node, whose output is its next input.
type Loop struct {
	// Until ends the loop if it holds for the output of a call.
	Until *Expression
	// Max is the largest number of calls, from 1 to [MaxLoop]. The last one's output
	// is used, whether Until holds for it or not.
	Max int
	// Fail makes the node fail if Until does not hold after Max calls.
	Fail bool
}

// MaxLoop is the largest limit that a loop can have.
const MaxLoop = 1000

// Approval is a question to a person.
type Approval struct {
	Ask string   // what to ask; may be empty
	By  tools.By // who may answer; the zero value leaves it to the server
}

// Update is a write to the shared state.
type Update struct {
	Key string // the name of one of the graph's state keys
	// Value is evaluated on the node's output. The key's reducer joins it with what
	// is there.
	Value *Expression
}

// RetryPolicy is a node's own rule for errors.
type RetryPolicy struct {
	// Max is how often the node is called again; 0 is never.
	Max int
	// Backoff is the pause before the first of these calls. It doubles with each one.
	// 0 is the pause of the graph.
	Backoff time.Duration
}

// StateKey is one value of the state that the nodes of a run share.
type StateKey struct {
	Name    string
	Reducer Reducer // ReduceReplace if the file does not say
	// Initial is the value at the beginning of a run, as those of Node.Config; nil is
	// none.
	Initial any
	Line    int
}

// Reducer joins a value that is written to a state key with the one that is there.
// Nodes write in the order in which they end, and those that end together in the
// order of the file.
type Reducer string

// The reducers. A key without a value takes the first one that is written, except
// that ReduceAppend makes a list of it. A value that is missing is not written, except
// by ReduceReplace.
const (
	ReduceReplace Reducer = "replace" // the last one counts
	ReduceAppend  Reducer = "append"  // a list gets one more item, or those of a list
	ReduceMerge   Reducer = "merge"   // mappings, merged mapping by mapping
	ReduceSum     Reducer = "sum"     // numbers
	ReduceMin     Reducer = "min"     // numbers, the smallest
	ReduceMax     Reducer = "max"     // numbers, the largest
)

// Edge leads from the output of a node to the input of another.
type Edge struct {
	From, To string // ids
	// Condition decides on the output of From whether the edge is taken; nil is
	// always.
	Condition *Expression
	// Transform makes what To gets of the output of From; nil is the output itself.
	Transform *Expression
	// Priority makes edges of one source exclude each other. Of those that have a
	// priority only the first that holds is taken, the largest number first. It is
	// from 1 to [MaxPriority]. 0 means no priority: such an edge does not compete. Only an
	// edge of arbor/v1 has one.
	Priority int
	Line     int
}

// MaxPriority is the largest priority that an edge can have.
const MaxPriority = 1_000_000

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

// AgentDocument is a document of kind Agent.
type AgentDocument struct {
	Name, Version string // Version may be empty
	Description   string
	Instructions  string         // spec.instructions, or spec.role
	Model         string         // spec.llm.model; may be empty
	Spec          map[string]any // all of spec
	Line          int
}

// Expression is a compiled condition, transform or other expression. It is immutable and can be
// evaluated by any number of goroutines at once.
type Expression struct {
	program *expression.Program
	call    func(Values) (any, error) // in place of program, of a Builder
	state   map[string]any
}

// Source returns the text in the file, or for a function of a [Builder] that it is one.
func (e *Expression) Source() string {
	if e.program == nil {
		return "a function"
	}
	return e.program.Source()
}

// Test evaluates a condition. output is the value of the edge's source and input
// that of the whole run: values of JSON as encoding/json returns them, with numbers of
// any Go type. A missing value is false. A comparison by size with a missing value, and
// every other expression without a value, is an error. Time and memory are bounded.
func (e *Expression) Test(output, input any) (bool, error) {
	return evaluate(e, output, input, (*expression.Program).Test)
}

// Value evaluates a transform. The result shares nothing with output and input; it
// is nil, bool, string, int, float64, []any or map[string]any. Time and memory are bounded.
func (e *Expression) Value(output, input any) (any, error) {
	return evaluate(e, output, input, (*expression.Program).Value)
}

// Choose evaluates what a node has as Next: the ids, or none. Whether they are ids
// is not checked. Time and memory are bounded.
func (e *Expression) Choose(output, input any) ([]string, error) {
	return evaluate(e, output, input, (*expression.Program).Texts)
}

// WithState returns the expression as it is evaluated with a shared state, whose
// values are as those of output; without it every key of the state is missing. The
// state is only read, and may not change while the expression is evaluated.
func (e *Expression) WithState(state map[string]any) *Expression {
	return &Expression{e.program, e.call, state}
}

func evaluate[T any](e *Expression, output, input any, program func(*expression.Program, expression.Env) (T, error)) (T, error) {
	if e.call != nil {
		return called[T](e.call, Values{output, input, e.state})
	}
	env, err := expression.EnvOf(output, input, e.state)
	if err != nil {
		var none T
		return none, err
	}
	return program(e.program, env)
}
