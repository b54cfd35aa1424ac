package llmagent

import (
	"encoding/json"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/llm"
)

// WantedKey is the key of a turn's [Wanted] in the metadata of the user's message. Clients of the APIs cannot set it.
const WantedKey = "arbor.output"

// Wanted is the form of answer that a user's client wants for one turn. The agent that answers the user ends its run
// with JSON of this form, also after a transfer, as an agent with [WithOutput] does. Wanted replaces the agent's own
// form for the turn. The zero value stands for any JSON object.
type Wanted struct {
	// Schema is a JSON schema of at most [MaxWanted] bytes. Defaults to the schema of any object.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Strict asks the endpoint to enforce the schema; see [OutputStrict].
	Strict bool `json:"strict,omitempty"`
}

// WantedIn returns the Wanted in the metadata of a user's message, or nil if the metadata has no [WantedKey].
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

// Check returns an error if an output does not have the form, or if the schema cannot be used.
func (w *Wanted) Check(output json.RawMessage) error {
	o := w.output()
	if o.err != nil {
		return o.err
	}
	return o.check.Validate(output)
}

// Usable returns an error if the schema is too large or is not a JSON schema.
func (w *Wanted) Usable() error { return w.output().err }

// MaxWanted is the limit of a schema in bytes.
const MaxWanted = 256 << 10

func (w *Wanted) output() *output {
	if len(w.Schema) > MaxWanted {
		return &output{err: fmt.Errorf("the schema has %d bytes; at most %d are allowed", len(w.Schema), MaxWanted)}
	}
	o := &output{format: llm.ResponseFormat{Schema: w.Schema, Strict: w.Strict}}
	if len(w.Schema) == 0 {
		o.format.Schema = json.RawMessage(`{"type":"object"}`)
	}
	o.check, o.err = schema.Compile(o.format.Schema)
	return o
}

// asWanted returns the agent with the form that the user's client wants, if the agent answers the user.
func (a *Agent) asWanted(inv *agent.Invocation) (*Agent, error) {
	wanted, err := WantedIn(inv.Metadata())
	if err != nil || wanted == nil || inv.Scope() != "" {
		return a, err
	}
	b := *a
	b.output = wanted.output()
	return &b, b.output.err
}
