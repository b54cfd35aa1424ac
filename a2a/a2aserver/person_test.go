package a2aserver

import (
	"context"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/origin"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestPerson: a task asks for more as long as a person has the conversation, shows what the
// person says, and is completed with the handoff; who cancels it gives the handoff up.
func TestPerson(t *testing.T) {
	ctx := context.Background()
	room := must.Get(human.NewRoom())
	script := scripted.New()
	for range 2 {
		script.Add("support", scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"human"}`)))
	}
	support := must.Get(llmagent.New("support", "You help.", script.Model("support")))
	store := sessiontest.Memory(t)
	s := newTestServer(t, support, store, WithRunnerOptions(runner.WithDesk(room)))
	desk := must.Get(runner.New(support, store, runner.WithDesk(room), runner.WithWait(time.Minute))) // another process
	room.Serve(desk.Deliver)
	h := s.RequestHandler()

	task := sendTask(t, h, ctx, userMessage("m1", "A person, please"))
	require.Equal(t, sdk.TaskStateInputRequired, task.Status.State)
	require.Equal(t, "I have asked for a person to join us.", task.Status.Message.Parts[0].Text())
	leg := room.Legs()[0].Leg
	require.NoError(t, room.Accept(ctx, leg, "Ann"))
	require.NoError(t, room.Say(ctx, leg, "Which order?"))
	look := func() *sdk.Task {
		return must.Get(h.GetTask(ctx, &sdk.GetTaskRequest{ID: task.ID}))
	}
	require.Equal(t, sdk.TaskStateInputRequired, look().Status.State)
	require.Equal(t, "Which order?", look().Status.Message.Parts[0].Text())
	answer := userMessage("m2", "1234")
	answer.TaskID, answer.ContextID = task.ID, task.ContextID
	require.Equal(t, sdk.TaskStateInputRequired, sendTask(t, h, ctx, answer).Status.State)
	early := int64(1) // it arrived before the person asked, who reads it all the same
	more := userMessage("m2b", "or 5678")
	more.TaskID = task.ID
	_, err := s.trees[""].sendOnce(ctx, session.ID(task.ContextID), more, llm.Content{Text: "or 5678"}, origin.Origin{Message: "m2b"}, false, &early)
	require.NoError(t, err)
	require.Equal(t, "m2b", look().History[len(look().History)-1].ID)
	require.NoError(t, room.Say(ctx, leg, "Refunded."))
	require.NoError(t, room.Complete(ctx, leg, ""))
	done := look()
	require.Equal(t, sdk.TaskStateCompleted, done.Status.State)
	require.Equal(t, "Refunded.", done.Artifacts[len(done.Artifacts)-1].Parts[0].Text())

	task = sendTask(t, h, ctx, userMessage("m3", "A person, please"))
	must.Get(h.CancelTask(ctx, &sdk.CancelTaskRequest{ID: task.ID}))
	require.Equal(t, sdk.TaskStateCanceled, look().Status.State)
	require.Empty(t, room.Legs())
}

// TestAnswersToAPerson: a person reads each message, also one that answers what the person said before the last words.
func TestAnswersToAPerson(t *testing.T) {
	ctx := context.Background()
	room := must.Get(human.NewRoom())
	script := scripted.New().Add("support", scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"human"}`)))
	support := must.Get(llmagent.New("support", "You help.", script.Model("support")))
	store := sessiontest.Memory(t)
	s := newTestServer(t, support, store, WithRunnerOptions(runner.WithDesk(room)))
	desk := must.Get(runner.New(support, store, runner.WithDesk(room), runner.WithWait(time.Minute)))
	room.Serve(desk.Deliver)
	h := s.RequestHandler()
	task := sendTask(t, h, ctx, userMessage("m1", "A person, please"))
	leg := room.Legs()[0].Leg
	require.NoError(t, room.Accept(ctx, leg, "Ann"))
	require.NoError(t, room.Say(ctx, leg, "Which order?"))
	asked := must.Get(h.GetTask(ctx, &sdk.GetTaskRequest{ID: task.ID})).Status.Message
	require.NoError(t, room.Say(ctx, leg, "It is in the mail."))
	for id, words := range map[string]string{"m2": "1234", "m3": "or 5678"} {
		m := userMessage(id, words)
		m.TaskID = task.ID
		m.SetMeta(a2a.Extension, map[string]any{"answers": asked.ID})
		_, err := h.SendMessage(ctx, &sdk.SendMessageRequest{Message: m})
		require.NoError(t, err, id)
	}
}
