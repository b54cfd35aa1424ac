package a2a

import (
	"context"
	"iter"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a/internal/parts"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

// memory is a view of the log for one remote agent in one scope, updated by each new event. The runner stores that of
// the conversation as JSON: if a change alters what memory keeps, it must also alter SnapshotName.
type memory struct {
	view  *view.View
	name  string
	scope string
	asked *question // the question of an inner scope whose answer was not sent yet

	Position  int64            // the position up to which the log was applied
	Task      event.RemoteTask // the last recorded task
	RunID     string           // the run that recorded Task
	Recorded  int64            // the position where Task was last recorded
	Since     int64            // the position where the task was first recorded
	Context   int64            // the position where the task, or the answer without one, was first recorded with its contextId
	Files     []string         // the sums of the files that the task has produced
	Begun     []int64          // the positions where tasks were first recorded in this turn
	Processed int64            `json:"Heard"` // the position where a task had processed all messages, even without an answer
	Answered  int64            // the position of the last answer
}

type memoryKey struct{ name, scope string }

// memory returns the memory of the agent, updated from the log. Within a workflow the agent can have another name.
func (r *remote) memory(ctx context.Context, inv *agent.Invocation) (*memory, error) {
	s, name := inv.Session(), inv.Agent().Name()
	m := s.Memo(memoryKey{name, inv.Scope()}, func() any {
		return &memory{view: view.New(inv.Node(), r.history, inv.Scope()), name: name, scope: inv.Scope()}
	}).(*memory)
	if !m.sharesContext(inv) { // otherwise all messages are sent again
		m.begin(s.Turns())
	}
	return m, m.CatchUp(s.Events(ctx, min(m.view.Seq(), m.Position)))
}

// begin lets an empty view start at the turn of the last answer, because earlier messages are not sent again.
func (m *memory) begin(turns agent.Turns) { m.view.BeginAt(turns, turns.Of(m.Answered)) }

// Seq returns the position up to which the log was applied.
func (m *memory) Seq() int64 { return m.Position }

// SnapshotName returns the name under which the runner stores a memory. It is "" for inner scopes, which are not
// stored; only these have questions.
func (m *memory) SnapshotName() string {
	if m.scope != "" {
		return ""
	}
	return "conversation with " + m.name
}

// CatchUp applies events, and skips those that were applied before. The runner also calls it after each turn.
func (m *memory) CatchUp(events iter.Seq2[*event.Event, error]) error {
	for e, err := range events {
		if err != nil {
			return err
		}
		m.view.Apply(e)
		if e.Seq > m.Position {
			m.apply(e)
		}
	}
	m.Answered = max(m.Answered, m.view.Answered())
	return nil
}

func (m *memory) apply(e *event.Event) {
	m.Position = e.Seq
	if _, ok := e.Data.(*event.User); ok {
		m.Begun = m.Begun[:0]
	}
	if e.Agent != m.name || e.Scope != m.scope {
		return
	}
	m.noteQuestion(e)
	switch d := e.Data.(type) {
	case *event.RemoteTask:
		if d.TaskID != m.Task.TaskID {
			m.Since, m.Files = e.Seq, nil
			if d.TaskID != "" {
				m.Begun = append(m.Begun, e.Seq)
			}
		}
		if d.ContextID != m.Task.ContextID || d.TaskID != m.Task.TaskID || d.TaskID == "" {
			m.Context = e.Seq
		}
		m.Task, m.RunID, m.Recorded = *d, e.RunID, e.Seq
		if d.Status == status(sdk.TaskStateCompleted) || d.Status == status(sdk.TaskStateInputRequired) {
			m.Processed = e.Seq
		}
	case *event.File:
		if m.Task.TaskID != "" {
			m.Files = append(m.Files, fileSum(d))
		}
	}
}

// sharesTask reports whether the last task began in the session that this one was forked from, which may still use it.
func (m *memory) sharesTask(inv *agent.Invocation) bool {
	return m.Task.TaskID != "" && m.Since <= inv.Shared()
}

// sharesContext reports whether the peer's context is that of the session that this one was forked from. The peer would
// mix the two conversations. A peer that chooses the parent's context for a message of the fork has mixed them, and
// does not get the whole conversation again.
func (m *memory) sharesContext(inv *agent.Invocation) bool {
	return m.Task.ContextID != "" && m.Context <= inv.Shared()
}

// loggedTexts returns the agent's texts and questions in the log after a position at which its task was recorded.
func (m *memory) loggedTexts(ctx context.Context, s agent.Session, after int64) (said []string, err error) {
	for e, err := range s.Events(ctx, after) {
		if err != nil {
			return nil, err
		}
		if e.Agent != m.name || e.Scope != m.scope {
			continue
		}
		switch d := e.Data.(type) {
		case *event.Text:
			if m.Task.TaskID != "" {
				said = append(said, d.Content)
			}
		case *event.ToolCall:
			if question, ok := parseQuestion(d); ok {
				said = append(said, question)
			}
		}
	}
	return said, nil
}

// lastQuestion returns the texts among which is the question that the task asked last. A resume that finds the task waiting
// records it again without a text, so these are the texts of the whole turn.
func (m *memory) lastQuestion(ctx context.Context, s agent.Session) ([]string, error) {
	turns := s.Turns()
	return m.loggedTexts(ctx, s, max(m.Since, turns.At(turns.Of(m.Recorded)).Seq))
}

// tasksSince returns the number of tasks that were first recorded in this turn after a position.
func (m *memory) tasksSince(since int64) int {
	n := 0
	for _, seq := range m.Begun {
		if seq > since {
			n++
		}
	}
	return n
}

// newParts returns the messages since the remote agent last answered, or last finished without an answer: the user's as
// they are, other agents' with their names. Messages whose task failed or was canceled are sent again, because the peer
// may not remember them. For a new context, newParts returns all messages, its own answers with its name.
func (m *memory) newParts(ctx context.Context, load func(context.Context, string) (*event.File, []byte, error), newContext bool) []*sdk.Part {
	messages := m.view.Filled(ctx, load)
	first := 0
	for i := len(messages) - 1; i >= 0 && first == 0 && !newContext; i-- {
		if messages[i].Role == llm.RoleAssistant {
			first = i + 1
		}
	}
	if processed := m.view.UpTo(m.Processed); !newContext && processed > first && processed < len(messages) {
		first = processed
	}
	var all []*sdk.Part
	for _, msg := range messages[first:] {
		if msg.Text != "" && msg.Role == llm.RoleAssistant {
			msg.Text = "[" + m.name + "] " + msg.Text
		}
		if msg.Text != "" || len(msg.Parts) > 0 {
			all = append(all, parts.Of(msg.Content)...)
		}
	}
	return all
}
