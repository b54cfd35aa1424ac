package runner

import (
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
)

// reserve makes sure that one more model call is within the limits.
func (l *lane) reserve(*agent.Invocation, llm.Model, *llm.Request) error {
	return nil
}
