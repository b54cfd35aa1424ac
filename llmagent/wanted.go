package llmagent

import (
	"encoding/json"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/llm"
)

// WantedKey is where the metadata of a user's message keeps the [Wanted] of the turn. Clients of the APIs cannot write
// it.
const WantedKey = "arbor.output"

// Wanted is the form that the client of a user wants the answer of a turn to have. The agent that answers, also after
// a transfer, ends its run with such JSON, as with [WithOutput], whose form does not count for the turn.
type Wanted struct {
	// Schema is a JSON schema; nil is that of any object.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Strict is as [OutputStrict] says.
	Strict bool `json:"strict,omitempty"`
}

// WantedIn returns what the metadata of a user's message holds, nil if that is nothing.
func WantedIn(metadata map[string]any) (*Wanted, error) {
	kept, ok := metadata[WantedKey]
	if !ok {
		return nil, nil
	}
	w := &Wanted{}
	if err := json.Unmarshal(event.EncodeJSON(kept), w); err != nil {
		return nil, fmt.Errorf("the metadata %s: %w", WantedKey, err)
	}
	return w, nil
}

// Check reports whether an output has the form. The error also says if the form is none.
func (w *Wanted) Check(output json.RawMessage) error {
	o := w.output()
	if o.err != nil {
		return o.err
	}
	return o.check.Validate(output)
}

// Usable reports why the form is none.
func (w *Wanted) Usable() error { return w.output().err }

func (w *Wanted) output() *output {
	o := &output{format: llm.ResponseFormat{Schema: w.Schema, Strict: w.Strict}}
	if len(w.Schema) == 0 {
		o.format.Schema = json.RawMessage(`{"type":"object"}`)
	}
	o.check, o.err = schema.Compile(o.format.Schema)
	return o
}

// asWanted returns the agent with the form that the client of the user wants, if the agent answers the user.
func (a *Agent) asWanted(inv *agent.Invocation) (*Agent, error) {
	wanted, err := WantedIn(inv.Metadata())
	if err != nil || wanted == nil || inv.Scope() != "" {
		return a, err
	}
	b := *a
	b.output = wanted.output()
	return &b, b.output.err
}
