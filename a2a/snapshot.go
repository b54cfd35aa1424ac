package a2a

import (
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/pack"
)

// memoryForm is the version of the bytes of a memory. Whoever changes what it keeps of a log changes it.
const memoryForm = 1

// Seq is the position up to which the log was read.
func (m *memory) Seq() int64 { return m.view.Seq() }

// SnapshotName is the name under which the runner stores a memory beside the log; "" if its view is not stored. What is asked of
// the user is of inner scopes, of which nothing is.
func (m *memory) SnapshotName() string {
	if m.asked != nil || m.view.SnapshotName() == "" {
		return ""
	}
	return pack.Name("remote", m.name)
}

// Snapshot returns a part of the view, behind all of the rest: it grows by 23 bytes for each file of the task.
func (m *memory) Snapshot(anew bool) (part int64, data []byte, err error) {
	part, shown, err := m.view.Snapshot(anew)
	if err != nil {
		return 0, nil, err
	}
	b := pack.Int(pack.Int(pack.Int(pack.Text(nil, m.runID), m.seq), m.since), m.heard)
	b = pack.Texts(pack.Text(b, m.last), m.files)
	b = pack.Int(b, len(m.begun))
	for _, seq := range m.begun {
		b = pack.Int(b, seq)
	}
	if b, err = pack.Payload(b, &m.task); err != nil {
		return 0, nil, err
	}
	return part, append(pack.Text(pack.Int(nil, memoryForm), b), shown...), nil
}

// Restore makes a fresh memory what was stored, unless that is of another agent.
func (m *memory) Restore(parts []string) bool {
	shown, rest := make([]string, len(parts)), ""
	for i, data := range parts {
		r := pack.NewReader(data)
		if r.Int() != memoryForm {
			return false
		}
		rest = r.Text()
		shown[i] = data[len(data)-r.Left():]
	}
	r := pack.NewReader(rest)
	m.runID, m.seq, m.since, m.heard = r.Text(), r.Position(), r.Position(), r.Int()
	m.last, m.files = r.Text(), r.Texts()
	for range r.Items() {
		m.begun = append(m.begun, r.Position())
	}
	task := pack.PayloadOf[*event.RemoteTask](r)
	if task == nil || r.Done() != nil || !m.view.Restore(shown) {
		return false
	}
	m.task = *task
	return m.seq <= m.Seq() && m.since <= m.seq
}
