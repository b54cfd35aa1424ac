package agentgraph

import (
	"encoding/json"

	"github.com/agentarbor/arbor/internal/expression"
)

// Condition compiles a condition in the language of the conditions of graphs, for decisions
// elsewhere. It sees output and input, and of a state these keys, whose values
// [Expression.WithState] gives. The error says what cannot be read, and where in the source.
func Condition(source string, stateKeys ...string) (*Expression, error) {
	program, err := expression.WithState(stateKeys...).CompileCondition(source)
	if err != nil {
		return nil, err
	}
	return &Expression{program: program}, nil
}

// OutputValue returns an agent's output as expressions see it: a text that is JSON, also
// between the marks of a code block, is the value that it means. It is not to be changed.
func OutputValue(output json.RawMessage) any {
	d := dataOf(output)
	return d.decoded()
}
