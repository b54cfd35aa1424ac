package turn

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// A chat takes up the newest tree between two lines, and ends the one that it had, once.
func TestChatEndsTheOldTree(t *testing.T) {
	var ended []string
	tree := func(name string) *factory.LoadedTree {
		return &factory.LoadedTree{End: func() { ended = append(ended, name) }}
	}
	c := &chat{Conversation: &Conversation{LoadedTree: tree("old"), Factory: &factory.Factory{Output: factory.Output{JSON: true}}}}
	c.useNewestTree()
	require.Empty(t, ended)
	c.newer.Store(tree("new"))
	c.useNewestTree()
	c.useNewestTree()
	require.Equal(t, []string{"old"}, ended)
	c.End()
	require.Equal(t, []string{"old", "new"}, ended)
}

// waitingHost has a log that waits for an approval. Another client changes the log.
type waitingHost struct {
	host
	log  []*event.Event
	made []runner.Decision
}

func (h *waitingHost) Log(_ context.Context, after int64) iter.Seq2[*event.Event, error] {
	return must.Seq(h.log[after:], nil)
}

func (h *waitingHost) Continue(_ context.Context, _ *session.Fold, decisions ...runner.Decision) iter.Seq2[*event.Event, error] {
	h.made = append(h.made, decisions...)
	return func(func(*event.Event, error) bool) {}
}

func (h *waitingHost) add(id string, data event.Data) {
	seq := int64(len(h.log) + 1)
	h.log = append(h.log, &event.Event{Seq: seq, ID: id, TurnID: "t", RunID: "r", Agent: "clerk", Path: "clerk", Data: data})
}

// ask adds a call that waits.
func (h *waitingHost) ask(call, digest string) {
	h.add("r"+call, &event.HarnessStart{AgentID: "clerk"})
	h.add(call, &event.ToolCall{Name: "pay", Input: []byte(`{}`)})
	h.add("q"+call, &event.Relay{Kind: event.RelayPermission, ToolCallID: call, Tool: "pay", Params: []byte(`{}`), Digest: digest})
	h.add("e"+call, &event.HarnessEnd{AgentID: "clerk", FinishReason: event.FinishReasonInputRequired})
}

// A decision in a chat is for the question that was printed there. If another client has answered that one, the question
// that waits now is printed, and waits.
func TestDecisionIsForWhatWasPrinted(t *testing.T) {
	for _, line := range []string{"yes", "/approve", "/approve c2", "/deny"} {
		var out strings.Builder
		at := &waitingHost{}
		at.add("t", &event.User{Content: llm.Content{Text: "Pay twice"}})
		at.ask("c1", "sha256:1")
		c := &chat{Conversation: &Conversation{At: at, chatting: true, Factory: &factory.Factory{Interrupts: &factory.Interrupts{},
			Output: factory.Output{Streams: factory.Streams{Stdout: &out, Stderr: &out}, Out: &factory.FirstError{W: &out}}}}}
		c.draw()
		require.NoError(t, c.showWaiting(t.Context(), ""))
		at.add("a", &event.RelayResolved{RelayID: "qc1", Approved: true})
		at.add("c1", &event.ToolResult{Name: "pay", Output: []byte(`"paid"`)})
		at.ask("c2", "sha256:2")

		out.Reset()
		must.Get(c.handleLine(t.Context(), line))
		require.Empty(t, at.made, line)
		require.Contains(t, out.String(), "/approve c2 or /deny c2 REASON")
		_, _ = c.handleLine(t.Context(), line) // the host resumes nothing
		require.Equal(t, []string{"c2 sha256:2"}, slices.Collect(func(yield func(string) bool) {
			for _, d := range at.made {
				yield(d.CallID + " " + d.Digest)
			}
		}), line)
	}
}
