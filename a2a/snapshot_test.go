package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/view"
)

// freshMemory is that of an agent of a name, with what it is shown.
func freshMemory(t require.TestingT, name string, p view.Policy) *memory {
	a := must.Get(Remote(name, "https://example.com/card"))
	tree := must.Get(agent.NewTree(a))
	return &memory{view: view.New(tree.Root(), p, ""), name: name}
}

// sent is what a memory would send now.
func sent(m *memory) (texts []string) {
	for _, p := range m.newParts(context.Background(), func(context.Context, string) (*event.File, []byte, error) { return nil, nil, errors.New("no files") }, false) {
		if text, ok := p.Content.(sdk.Text); ok {
			texts = append(texts, string(text))
		}
	}
	return texts
}

// TestMemoryFromSnapshot: a memory can be stored after each event, and goes on as the one that has read all of the log.
func TestMemoryFromSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom([]view.Policy{view.Full(), view.Own(), view.LastTurns(1), view.LastTurns(2)}).Draw(t, "policy")
		var log []*event.Event
		fold, all, now := new(session.Fold), freshMemory(t, "billing", p), freshMemory(t, "billing", p)
		for seq := range int64(rapid.IntRange(0, 60).Draw(t, "events")) {
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
			if rapid.IntRange(0, 9).Draw(t, "inner") == 0 && e.Agent != "user" {
				e.Scope = "inner"
			}
			log = append(log, e)
			fold.Apply(e)
			require.NoError(t, all.CatchUp(must.Seq(log[seq:], nil)))
			if rapid.IntRange(0, 3).Draw(t, "look") > 0 {
				continue
			}
			now.begin(fold.Turns)
			require.NoError(t, now.CatchUp(must.Seq(log[min(now.view.Seq(), now.Position):], nil)))
			require.Equal(t, sent(all), sent(now))
			same := *all
			same.Answered = now.Answered // of which one may have seen only what is shown no more
			want := must.Get(json.Marshal(&same))
			got := must.Get(json.Marshal(now))
			require.JSONEq(t, string(want), string(got))
			if rapid.Bool().Draw(t, "dies") {
				now = freshMemory(t, "billing", p)
				require.NoError(t, json.Unmarshal(got, now))
				require.Equal(t, all.Seq(), now.Seq())
			}
		}
	})
	m := freshMemory(t, "billing", view.Full())
	require.Equal(t, "conversation with billing", m.SnapshotName())
	m.scope = "inner"
	require.Empty(t, m.SnapshotName())
}
