package a2a

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/pack"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/view"
)

// freshMemory is that of an agent of a name, with what it is shown.
func freshMemory(t require.TestingT, name string, p view.Policy) *memory {
	a, err := Remote(name, "https://example.com/card")
	require.NoError(t, err)
	tree, err := agent.NewTree(a)
	require.NoError(t, err)
	return &memory{view: view.New(tree.Root(), p, ""), name: name}
}

// storedParts are the parts of a memory as stores keep them.
type storedParts map[int64]string

func (s storedParts) put(t require.TestingT, m *memory, anew bool) {
	part, data, err := m.Snapshot(anew)
	require.NoError(t, err)
	for n := range s {
		if n >= part {
			delete(s, n)
		}
	}
	s[part] = string(data)
}

func (s storedParts) list() (parts []string) {
	var numbers []int64
	for n := range s {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		parts = append(parts, s[n])
	}
	return parts
}

// same holds a memory against another one. What they show is the same once the answer under way is a message.
func same(t require.TestingT, want, got *memory) {
	require.Equal(t, want.Seq(), got.Seq())
	w, g := *want, *got
	for _, m := range []*memory{&w, &g} { // none is as good as an empty list
		m.begun = append([]int64{}, m.begun...)
	}
	require.Equal(t, append([]llm.Message{}, w.view.Messages()...), append([]llm.Message{}, g.view.Messages()...))
	w.view, g.view = nil, nil
	require.Equal(t, w, g)
}

// TestMemoryFromSnapshot: a memory can be stored after each event, and goes on as the one that has read all of the log.
func TestMemoryFromSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := view.Full()
		if rapid.Bool().Draw(t, "last turns") {
			p = view.LastTurns(1)
		}
		all, now, kept := freshMemory(t, "billing", p), freshMemory(t, "billing", p), storedParts{}
		for seq := range int64(rapid.IntRange(0, 40).Draw(t, "events")) {
			e := &event.Event{Seq: seq + 1, RunID: "r", Agent: rapid.SampledFrom([]string{"billing", "billing", "other"}).Draw(t, "agent")}
			switch rapid.IntRange(0, 4).Draw(t, "type") {
			case 0:
				e.Agent, e.Data = "user", &event.User{Content: llm.UserText(rapid.StringN(0, 3, 9).Draw(t, "said")).Content}
			case 1:
				e.Data = &event.Text{Content: rapid.StringN(0, 3, 9).Draw(t, "text")}
			case 2:
				e.Data = &event.File{Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "file"), Digest: "d"}
			default:
				d := &event.RemoteTask{TaskID: rapid.SampledFrom([]string{"", "t1", "t2"}).Draw(t, "task"), URL: "https://example.com",
					Status: rapid.SampledFrom([]string{"working", "completed", "input_required"}).Draw(t, "status")}
				if rapid.Bool().Draw(t, "usage") {
					d.Usage = []event.Usage{{InputTokens: 3, Model: "m"}}
				}
				e.Data = d
			}
			if rapid.IntRange(0, 9).Draw(t, "inner") == 0 {
				e.Scope = "inner"
			}
			all.apply(e)
			now.apply(e)
			if rapid.IntRange(0, 3).Draw(t, "store") == 0 {
				kept.put(t, now, rapid.Bool().Draw(t, "anew"))
				again := freshMemory(t, "billing", p)
				require.True(t, again.Restore(kept.list()))
				if now = again; rapid.Bool().Draw(t, "look") {
					same(t, all, now)
				}
			}
		}
		same(t, all, now)
	})
}

// TestMemoryOfAnother: what is cut off, or of another agent, policy or kind of thing, is not read.
func TestMemoryOfAnother(t *testing.T) {
	m, kept := freshMemory(t, "billing", view.Full()), storedParts{}
	m.apply(&event.Event{Seq: 1, Agent: "user", Data: &event.User{Content: llm.UserText("Hi").Content}})
	m.apply(&event.Event{Seq: 2, RunID: "r", Agent: "billing", Data: &event.RemoteTask{TaskID: "t", Status: "completed"}})
	kept.put(t, m, true)
	parts := kept.list()
	require.True(t, freshMemory(t, "billing", view.Full()).Restore(parts))
	require.Equal(t, `remote "billing"`, m.SnapshotName())
	for _, other := range []*memory{freshMemory(t, "other", view.Full()), freshMemory(t, "billing", view.LastTurns(1))} {
		require.False(t, other.Restore(parts))
	}
	require.False(t, m.view.Restore(parts))
	_, shown, err := m.view.Snapshot(true)
	require.NoError(t, err)
	for _, none := range [][]string{nil, {""}, {string(shown)}, {parts[0], string(shown)}, {parts[0], parts[0] + "\x00"}} {
		require.False(t, freshMemory(t, "billing", view.Full()).Restore(none))
	}
	for i := range parts[0] {
		require.False(t, freshMemory(t, "billing", view.Full()).Restore([]string{parts[0][:i]}))
	}
	m.asked = &question{}
	require.Empty(t, m.SnapshotName())
	require.Empty(t, freshMemory(t, "billing", view.Full().Redact(func(s string) string { return s })).SnapshotName())
}

// FuzzMemorySnapshot: a memory that could be read can go on, and be stored.
func FuzzMemorySnapshot(f *testing.F) {
	m, head := freshMemory(f, "billing", view.Full()), ""
	for i, d := range sessiontest.Payloads() {
		m.apply(&event.Event{Seq: int64(i) + 1, RunID: "r", Agent: "billing", Data: d})
		_, data, err := m.Snapshot(true)
		require.NoError(f, err)
		r := pack.NewReader(string(data))
		r.Int()
		rest := r.Text()
		shown := string(data[len(data)-r.Left():])
		head = shown[:34] // the form and the sum, which no chance finds
		f.Add(rest, shown[34:])
	}
	f.Fuzz(func(t *testing.T, rest, shown string) {
		m := freshMemory(t, "billing", view.Full())
		if !m.Restore([]string{string(pack.Text(pack.Int(nil, memoryForm), rest)) + head + shown}) {
			return
		}
		m.tasks(0)
		m.news(t.Context(), func(context.Context, string) (*event.File, []byte, error) { return nil, nil, errors.New("no files") })
		for i, d := range sessiontest.Payloads() {
			m.apply(&event.Event{Seq: m.Seq() + int64(i) + 1, RunID: "r", Agent: "billing", Data: d})
		}
		_, _, err := m.Snapshot(true)
		require.NoError(t, err)
	})
}
