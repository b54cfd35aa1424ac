// Package origin encodes what a turn remembers of the A2A message that started it, in the metadata of the turn's user
// event, so that the log keeps it. The server writes it, and remote agents read the chain to pass it on.
package origin

import "slices"

// Key is the key of the origin in the metadata of a user event.
const Key = "a2a"

// Answers is the key of our extension in a message for the id of the message with the question that it answers.
const Answers = "answers"

// MaxChain is the maximum number of agents in a chain.
const MaxChain = 16

// Origin describes where a turn came from. The zero value means that no A2A message started it.
type Origin struct {
	// Message is the client's id of the message.
	Message string
	// Task is the id of the task that the turn continues, or "" if the turn starts one.
	Task string
	// Chain contains the agents that the message came through, including this one at the end.
	Chain []string
}

// Metadata returns the metadata for the user event.
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

// Of decodes the metadata of a user event. It ignores values of the wrong form.
func Of(metadata map[string]any) Origin {
	m, _ := metadata[Key].(map[string]any)
	var o Origin
	o.Message, _ = m["messageId"].(string)
	o.Task, _ = m["taskId"].(string)
	o.Chain = Chain(m)
	return o
}

// Chain returns the agents in the chain of an object from any writer.
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
