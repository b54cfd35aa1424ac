package agentgraph

import "github.com/agentarbor/arbor/internal/expression"

// Value evaluates a transform of a file.
func (e *Expression) Value(output, input any) (any, error) {
	env, err := expression.EnvOf(output, input, e.state)
	if err != nil {
		return nil, err
	}
	return e.program.Value(env)
}

// Choose evaluates the Next expression of a node of a file.
func (e *Expression) Choose(output, input any) ([]string, error) {
	env, err := expression.EnvOf(output, input, e.state)
	if err != nil {
		return nil, err
	}
	return e.program.Texts(env)
}
