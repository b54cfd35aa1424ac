package agentgraph

import (
	"encoding/json"

	"github.com/agentarbor/arbor/internal/expression"
)

// Condition compiles a condition in the language of graph conditions, for decisions outside of graphs. The condition
// sees output, input, and the given state keys, whose values [Expression.WithState] sets. The error reports the
// position in the source.
func Condition(source string, stateKeys ...string) (*Expression, error) {
	program, err := expression.WithState(stateKeys...).CompileCondition(source)
	if err != nil {
		return nil, err
	}
	return &Expression{program: program}, nil
}

// OutputValue returns an agent's output as expressions see it. A string that contains JSON, also inside a code fence,
// becomes that JSON value. The caller must not change the result.
func OutputValue(output json.RawMessage) any {
	d := dataOf(output)
	return d.decoded()
}
