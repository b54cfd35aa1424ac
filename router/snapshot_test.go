package router

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/pack"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestPastFromSnapshot: what was stored is read back, by a router with the same agents below it alone.
func TestPastFromSnapshot(t *testing.T) {
	of := &Router{index: map[string]agent.Agent{"a": nil, "b": nil}}
	for _, p := range []*past{
		{name: "r", of: of},
		{name: "r", of: of, seq: 70, turn: "t", active: "a", before: "b", gone: []string{"a", "b"}, asking: []asks{{"a", true}, {"b", false}}, asked: true,
			moods: []mood{{"t", map[string]float64{"anger": 0.25, "joy": 1}}, {"u", map[string]float64{}}}},
	} {
		require.Equal(t, `router "r"`, p.SnapshotName())
		data := string(p.AppendSnapshot(nil))
		got := &past{name: "r", of: of}
		require.True(t, read(got, data))
		require.Equal(t, p, got)
		require.Equal(t, p.seq, got.Seq())

		require.False(t, read(&past{name: "r", of: &Router{index: map[string]agent.Agent{"a": nil}}}, data))
		for i := range data {
			require.False(t, read(&past{name: "r", of: of}, data[:i]))
		}
	}
}

// read reads a past as the runner does.
func read(p *past, data string) bool {
	r := pack.NewReader(data)
	return p.ReadSnapshot(r) && r.Done() == nil
}

// FuzzPastSnapshot: a past that could be read can go on, and is stored as it is.
func FuzzPastSnapshot(f *testing.F) {
	of := &Router{index: map[string]agent.Agent{"a": nil}}
	start := string(pack.Text(pack.Int(nil, pastForm), of.namesBelow())) // which no chance finds
	p := &past{of: of, seq: 7, turn: "t", active: "a", gone: []string{"a"}, asking: []asks{{"a", true}}, moods: []mood{{"t", map[string]float64{"joy": 1}}}}
	f.Add(strings.TrimPrefix(string(p.AppendSnapshot(nil)), start))
	f.Fuzz(func(t *testing.T, data string) {
		p, again := &past{of: of}, &past{of: of}
		if !read(p, start+data) {
			return
		}
		require.True(t, read(again, string(p.AppendSnapshot(nil))))
		require.Equal(t, p.AppendSnapshot(nil), again.AppendSnapshot(nil))
		for i, d := range sessiontest.Payloads() {
			p.apply(&event.Event{Seq: p.seq + int64(i) + 1, TurnID: "t2", Agent: "a", Data: d}, of)
		}
	})
}
