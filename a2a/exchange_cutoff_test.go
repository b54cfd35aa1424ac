package a2a_test

import (
	"context"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/runner"
)

// Wherever a turn is broken off, Resume in another process comes to the same end, with
// every word said once. What was sent is sent again only if its task was canceled with
// the turn.
func TestBreakAnywhere(t *testing.T) {
	for _, streams := range []bool{true, false} {
		for cut := 1; ; cut++ {
			srv := newServer(t, streams, remotetest.Completes("I see ", "two ", "charges."))
			s := scripted.New().Add("support", transfer(), transfer()) // the second if the first was not stored
			f := newRunner(t, tree(t, s, remotetest.Billing(t, srv.cardURL())), runner.WithStreaming())
			seen := 0
			for _, err := range f.Run(context.Background(), key, llm.UserText("I was charged twice")) {
				require.NoError(t, err)
				if seen++; seen == cut {
					break
				}
			}
			_, _, err := again(t, f.Store, tree(t, s, remotetest.Billing(t, srv.cardURL())), runner.WithStreaming()).resume()
			require.NoError(t, err)
			log := must.All(f.Store.Load(context.Background(), key, 0))
			require.Equal(t, []string{"I see two charges."}, remotetest.Texts(log), "cut after %d", cut)
			require.Equal(t, event.FinishReasonStop, lastEnd(log))
			sent := srv.messages()
			require.LessOrEqual(t, len(sent), 2, "cut after %d", cut)
			if len(sent) == 2 {
				require.Equal(t, texts(sent[0]), texts(sent[1]))
			}
			if seen < cut {
				require.Len(t, sent, 1)
				break
			}
		}
	}
}

// Two turns to one task, and one in another: what belongs to which task is told apart by
// the log, also when it was written by another process.
func TestTasksOfAConversation(t *testing.T) {
	srv := newServer(t, true, func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
		if ec.StoredTask == nil {
			yield(sdk.NewSubmittedTask(ec, ec.Message), nil)
		}
		if ec.Message.Parts[len(ec.Message.Parts)-1].Text() == "go" {
			yield(sdk.NewStatusUpdateEvent(ec, sdk.TaskStateCompleted, sdk.NewMessageForTask(sdk.MessageRoleAgent, ec, sdk.NewTextPart("Gone."))), nil)
			return
		}
		yield(sdk.NewStatusUpdateEvent(ec, sdk.TaskStateInputRequired, sdk.NewMessageForTask(sdk.MessageRoleAgent, ec, sdk.NewTextPart("Go?"))), nil)
	})
	f := newRunner(t, remotetest.Billing(t, srv.cardURL()))
	for i, words := range []string{"hi", "hm", "go", "hi"} {
		events, _, err := again(t, f.Store, remotetest.Billing(t, srv.cardURL())).Turn(words)
		require.NoError(t, err)
		require.Equal(t, []string{map[bool]string{true: "Gone.", false: "Go?"}[words == "go"]}, remotetest.Texts(events), "turn %d", i)
	}
	sent := srv.messages()
	require.Len(t, sent, 4)
	require.Empty(t, sent[0].TaskID)
	require.NotEmpty(t, sent[1].TaskID)
	require.Equal(t, sent[1].TaskID, sent[2].TaskID)
	require.Empty(t, sent[3].TaskID)
	require.Equal(t, sent[1].ContextID, sent[3].ContextID)
}
