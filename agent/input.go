package agent

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/agentarbor/arbor/internal/schema"
)

// TransferInput is the type of the input that a transfer over an edge must carry.
type TransferInput struct {
	// Schema is the JSON schema that the model sees.
	Schema json.RawMessage
	check  *schema.Validator
	err    error
}

// WithTransferInput requires an input of type T, a struct, for every transfer over the edge from the parent to the
// child. The transfer tool shows the model the JSON schema of T. An invalid input is an error result for the model; a
// valid one is stored in the transfer event. The target's model sees the input unless the edge has [HideReason]. A
// function agent reads it with [InputOf]. If T has no JSON schema, [NewTree] reports a problem.
func WithTransferInput[T any]() EdgeOption {
	in := &TransferInput{}
	in.Schema, in.err = schema.Of(reflect.TypeFor[T]())
	if in.err == nil {
		in.check, in.err = schema.Compile(in.Schema, schema.Input)
	}
	return edgeOptionFunc(func(e *Edge) { e.Input = in })
}

// InputFor returns the input that a transfer from n to target must carry, or nil if none: only the edge from a parent
// to its child can require an input.
func (n *Node) InputFor(target *Node) *TransferInput {
	if target.Parent != n {
		return nil
	}
	return target.Edge.Input
}

// Check validates a payload. A nil TransferInput accepts anything. The error is for a model to read.
func (in *TransferInput) Check(payload json.RawMessage) error {
	switch {
	case in == nil:
		return nil
	case len(payload) == 0:
		return fmt.Errorf("the transfer needs an input of this schema: %s", in.Schema)
	}
	return in.check.Validate(payload)
}

// InputOf returns the input of the transfer that started the running agent. ok is false if a transfer did not start
// the agent, or had no input.
func InputOf[T any](inv *Invocation) (value T, ok bool, err error) {
	if len(inv.p.Payload) == 0 {
		return value, false, nil
	}
	if err := json.Unmarshal(inv.p.Payload, &value); err != nil {
		return value, false, fmt.Errorf("the input of the transfer to %s: %w", inv.Agent().Name(), err)
	}
	return value, true, nil
}
