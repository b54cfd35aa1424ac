package agent

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/agentarbor/arbor/internal/schema"
)

// TransferInput is the type of what a transfer over an edge must carry.
type TransferInput struct {
	// Schema is the JSON schema that the model is shown.
	Schema json.RawMessage
	check  *schema.Validator
	err    error
}

// WithTransferInput makes every transfer over the edge, from the parent to the
// child, carry a value of T, a struct. The transfer tool shows the model its JSON schema, what does not fit
// goes back to the model, and what fits is kept in the transfer event. The
// target's model sees it unless the edge has [HideReason]; a function agent reads it
// with [InputOf]. A T that has no JSON schema is a problem of the tree.
func WithTransferInput[T any]() EdgeOption {
	in := &TransferInput{}
	in.Schema, in.err = schema.Of(reflect.TypeFor[T]())
	if in.err == nil {
		in.check, in.err = schema.Compile(in.Schema)
	}
	return edgeOptionFunc(func(e *Edge) { e.Input = in })
}

// InputFor returns what a transfer from n to target must carry, nil if nothing:
// only the edge from a parent to its child can require an input.
func (n *Node) InputFor(target *Node) *TransferInput {
	if target.Parent != n {
		return nil
	}
	return target.Edge.Input
}

// Check holds a payload against the type. A nil TransferInput accepts none. The
// error is for a model to read.
func (in *TransferInput) Check(payload json.RawMessage) error {
	switch {
	case in == nil:
		return nil
	case len(payload) == 0:
		return fmt.Errorf("the transfer needs an input of this schema: %s", in.Schema)
	}
	return in.check.Validate(payload)
}

// InputOf returns what the transfer that started the running agent carried, and
// false if it carried nothing or the agent was not started by a transfer.
func InputOf[T any](inv *Invocation) (value T, ok bool, err error) {
	if len(inv.p.Payload) == 0 {
		return value, false, nil
	}
	if err := json.Unmarshal(inv.p.Payload, &value); err != nil {
		return value, false, fmt.Errorf("the input of the transfer to %s: %w", inv.Agent().Name(), err)
	}
	return value, true, nil
}
