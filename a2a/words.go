package a2a

import (
	"context"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

// memory is what the log says of one remote agent in one scope. It is kept up
// event by event.
type memory struct {
	view *view.View
	name string

	task  agent.RemoteTask // the last one that was recorded
	runID string           // the run that recorded it
}

type memoryKey struct{ name, scope string }

// memory returns what is known, brought up to date with the log.
func (r *remote) memory(ctx context.Context, inv *agent.Invocation) (*memory, error) {
	s := inv.Session()
	m := s.Memo(memoryKey{r.name, inv.Scope()}, func() any {
		return &memory{view: view.New(inv.Node(), r.history, inv.Scope()), name: r.name}
	}).(*memory)
	for e, err := range s.Events(ctx, m.view.Seq()) {
		if err != nil {
			return nil, err
		}
		m.view.Apply(e)
		if d, ok := e.Data.(*agent.RemoteTask); ok && e.Agent == r.name && e.Scope == inv.Scope() {
			m.task, m.runID = *d, e.RunID
		}
	}
	return m, nil
}

// news returns what was said since the remote agent last spoke: the user's words
// as they are, others' with their names.
func (m *memory) news() []*sdk.Part {
	messages := m.view.Messages()
	first := 0
	for i := len(messages) - 1; i >= 0 && first == 0; i-- {
		if messages[i].Role == llm.RoleAssistant {
			first = i + 1
		}
	}
	var parts []*sdk.Part
	for _, msg := range messages[first:] {
		if msg.Text != "" {
			parts = append(parts, sdk.NewTextPart(msg.Text))
		}
		for _, p := range msg.Parts {
			switch p := p.(type) {
			case llm.TextPart:
				parts = append(parts, sdk.NewTextPart(p.Text))
			case llm.Media:
				var part *sdk.Part
				if p.URL != "" {
					part = sdk.NewFileURLPart(sdk.URL(p.URL), p.MediaType)
				} else {
					part = sdk.NewRawPart(p.Data)
				}
				part.MediaType, part.Filename = p.MediaType, p.Name
				parts = append(parts, part)
			}
		}
	}
	return parts
}
