package a2a

import (
	"context"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/pack"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

// memory is what the log says of one remote agent in one scope. Each new
// event updates it.
type memory struct {
	view  *view.View
	name  string
	scope string

	task  event.RemoteTask // the last one that was recorded
	runID string           // the run that recorded it
	seq   int64            // and where
	since int64            // where the task was first recorded
	files []string         // that it has made since then, as sums
	begun []int64          // where tasks were first recorded, in this turn
	asked *question        // of an inner scope, whose answer was not sent yet

	heard int    // the messages that a task has dealt with, even if it gave no answer
	last  string // the sum of the words of the last of them
}

type memoryKey struct{ name, scope string }

// memory returns what is known, brought up to date with the log. Inside of a workflow
// the agent can have another name.
func (r *remote) memory(ctx context.Context, inv *agent.Invocation) (*memory, error) {
	s, name := inv.Session(), inv.Agent().Name()
	m := s.Memo(memoryKey{name, inv.Scope()}, func() any {
		return &memory{view: view.New(inv.Node(), r.history, inv.Scope()), name: name, scope: inv.Scope()}
	}).(*memory)
	for e, err := range s.Events(ctx, m.view.Seq()) {
		if err != nil {
			return nil, err
		}
		m.apply(e)
	}
	return m, nil
}

func (m *memory) apply(e *event.Event) {
	m.view.Apply(e)
	if _, ok := e.Data.(*event.User); ok {
		m.begun = m.begun[:0]
	}
	if e.Agent != m.name || e.Scope != m.scope {
		return
	}
	m.noteQuestion(e)
	switch d := e.Data.(type) {
	case *event.RemoteTask:
		if d.TaskID != m.task.TaskID {
			m.since, m.files = e.Seq, nil
			if d.TaskID != "" {
				m.begun = append(m.begun, e.Seq)
			}
		}
		m.task, m.runID, m.seq = *d, e.RunID, e.Seq
		if d.Status == status(sdk.TaskStateCompleted) || d.Status == status(sdk.TaskStateInputRequired) {
			if messages := m.view.Messages(); len(messages) > 0 {
				m.heard, m.last = len(messages), pack.Sum(messages[len(messages)-1].PlainText())
			}
		}
	case *event.File:
		if m.task.TaskID != "" {
			m.files = append(m.files, fileSum(d))
		}
	}
}

// said reads from the log what the agent has said since its task was first recorded.
func (m *memory) said(ctx context.Context, s agent.Session) (said []string, err error) {
	for e, err := range s.Events(ctx, m.since) {
		if err != nil {
			return nil, err
		}
		if e.Agent != m.name || e.Scope != m.scope {
			continue
		}
		switch d := e.Data.(type) {
		case *event.Text:
			if m.task.TaskID != "" {
				said = append(said, d.Content)
			}
		case *event.ToolCall:
			if asks, ok := asking(d); ok {
				said = append(said, asks)
			}
		}
	}
	return said, nil
}

// tasks returns how many tasks were begun behind a position of this turn.
func (m *memory) tasks(since int64) int {
	n := 0
	for _, seq := range m.begun {
		if seq > since {
			n++
		}
	}
	return n
}

// news returns what was said since the remote agent last spoke, or last had nothing to
// say: the user's words as they are, others' with their names. Words with which its task
// failed or was canceled are sent again, because it may not remember them.
func (m *memory) news(ctx context.Context, load func(context.Context, string) (*event.File, []byte, error)) []*sdk.Part {
	messages := m.view.Filled(ctx, load)
	first := 0
	for i := len(messages) - 1; i >= 0 && first == 0; i-- {
		if messages[i].Role == llm.RoleAssistant {
			first = i + 1
		}
	}
	// Under a policy that shows a part of the conversation the messages move, and the one
	// at this place is another.
	if m.heard > first && m.heard < len(messages) && pack.Sum(messages[m.heard-1].PlainText()) == m.last {
		first = m.heard
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
