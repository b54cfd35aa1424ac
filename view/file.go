package view

import (
	"context"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Filled returns the messages of the view with the bytes of the files that they name by digest. If load returns an
// error or no bytes for a file, a line that says so replaces the file. Without files its cost does not grow with the
// conversation.
func (v *View) Filled(ctx context.Context, load func(ctx context.Context, digest string) (*event.File, []byte, error)) []llm.Message {
	messages := v.messages()
	if !v.shown.nameFiles() {
		return messages
	}
	return fill(ctx, messages, load)
}

// fill returns messages with the bytes of their files. It does not change its argument.
func fill(ctx context.Context, messages []llm.Message, load func(ctx context.Context, digest string) (*event.File, []byte, error)) []llm.Message {
	filled := messages
	for i := range messages {
		for j, part := range messages[i].Parts {
			m, ok := fileNamed(part)
			if !ok {
				continue
			}
			if &filled[0] == &messages[0] {
				filled = slices.Clone(messages)
			}
			if &filled[i].Parts[0] == &messages[i].Parts[0] {
				filled[i].Parts = slices.Clone(messages[i].Parts)
			}
			filled[i].Parts[j] = llm.TextPart{Text: "(the file " + m.Name + " cannot be read)"}
			if _, data, err := load(ctx, m.Digest); err == nil && len(data) > 0 {
				m.Data, m.Digest = data, ""
				filled[i].Parts[j] = m
			}
		}
	}
	return filled
}
