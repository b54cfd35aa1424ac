// Package origin keeps what a turn must remember of the A2A message that began it:
// in the metadata of the turn's user event, where the log holds it for good. The
// server writes it, remote nodes read the chain to pass it on. It imports nothing of
// the project.
package origin

import "slices"

// Key is the key below which the metadata of a user event has it.
const Key = "a2a"

// MaxChain bounds the agents that a chain may name.
const MaxChain = 16

// Origin says where a turn came from. The zero value is that of a turn that no A2A
// message began.
type Origin struct {
	// Message is the id that the client gave its message.
	Message string
	// Task is the task that the turn belongs to, "" if the turn begins one.
	Task string
	// Chain names the agents that the words went through, this one last.
	Chain []string
}

// Metadata returns what the user event is to hold.
func (o Origin) Metadata() map[string]any {
	m := make(map[string]any)
	if o.Message != "" {
		m["messageId"] = o.Message
	}
	if o.Task != "" {
		m["taskId"] = o.Task
	}
	if len(o.Chain) > 0 {
		chain := make([]any, len(o.Chain))
		for i, id := range o.Chain {
			chain[i] = id
		}
		m["chain"] = chain
	}
	return map[string]any{Key: m}
}

// Of reads what the metadata of a user event holds. What has another form is not
// there.
func Of(metadata map[string]any) Origin {
	m, _ := metadata[Key].(map[string]any)
	var o Origin
	o.Message, _ = m["messageId"].(string)
	o.Task, _ = m["taskId"].(string)
	o.Chain = Chain(m)
	return o
}

// Chain reads the agents that an object names as its chain, whoever wrote it.
func Chain(m map[string]any) []string {
	list, _ := m["chain"].([]any)
	if len(list) > MaxChain+1 {
		list = list[:MaxChain+1]
	}
	var chain []string
	for _, v := range list {
		if id, ok := v.(string); ok && id != "" && len(id) <= 512 {
			chain = append(chain, id)
		}
	}
	return slices.Clip(chain)
}
