package a2aserver

import (
	"context"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/a2a/internal/origin"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// The log has data as its JSON. A message with such a part is known all the same when it
// is sent again.
func TestSameMessageWithData(t *testing.T) {
	script := scripted.New().Add("a", scripted.Reply(scripted.Text("Once.")), scripted.Reply(scripted.Text("Twice.")))
	a := must.Get(llmagent.New("a", "Answer.", script.Model("a")))
	h := newTestServer(t, a, sessiontest.Memory(t)).RequestHandler()
	m := sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart("book"), sdk.NewDataPart(map[string]any{"seats": []any{"1A", "1B"}}))
	m.ContextID = "c1"
	first := sendTask(t, h, context.Background(), m)
	require.Equal(t, first.ID, sendTask(t, h, context.Background(), m).ID)
}

// A task that is over stays over, whatever another process has stored for it just then.
func TestOverIsOver(t *testing.T) {
	key := session.ID("c")
	user := func(seq int64, turn, task string) *event.Event {
		return &event.Event{Seq: seq, ID: turn, TurnID: turn, RunID: "u" + turn, Data: &event.User{Metadata: map[string]any{
			"a2a": map[string]any{"messageId": turn, "taskId": task}}}}
	}
	first := user(1, "t1", "")
	p := newProjection(key, first)
	p.apply(first)
	p.apply(&event.Event{Seq: 2, ID: "s", TurnID: "t1", RunID: "r", Agent: "a", Data: &event.HarnessStart{AgentID: "a"}})
	p.apply(&event.Event{Seq: 3, ID: "e", TurnID: "t1", RunID: "r", Agent: "a", Data: &event.HarnessEnd{AgentID: "a", FinishReason: event.FinishReasonStop}})
	require.Equal(t, sdk.TaskStateCompleted, p.task.Status.State)
	require.Empty(t, p.apply(user(4, "t2", string(p.task.ID))))
	require.Equal(t, sdk.TaskStateCompleted, p.task.Status.State)
	require.True(t, p.superseded)
}

// A "yes" that is sent again because nobody heard what became of it approves nothing
// that was asked for since, not after a restart either.
func TestSameDecisionAgain(t *testing.T) {
	var ran []string
	script := scripted.New().Add("billing", scripted.Reply(scripted.Call("refund", `{"order":"A1"}`)), scripted.Reply(scripted.Call("refund", `{"order":"A2"}`)), scripted.Reply(scripted.Text("Both.")))
	billing := must.Get(llmagent.New("billing", "You refund.", script.Model("billing"), llmagent.WithTools(refundTool(t, &ran))))
	store := sessiontest.Memory(t)
	h := newTestServer(t, billing, store).RequestHandler()
	ctx := context.Background()
	task := sendTask(t, h, ctx, userMessage("m1", "refund both"))
	yes := userMessage("m2", "yes")
	yes.TaskID = task.ID
	task = sendTask(t, h, ctx, yes)
	require.Equal(t, sdk.TaskStateInputRequired, task.Status.State)
	require.Equal(t, []string{"A1"}, ran)

	for _, h := range []interface {
		SendMessage(context.Context, *sdk.SendMessageRequest) (sdk.SendMessageResult, error)
	}{h, newTestServer(t, billing, store).RequestHandler()} {
		res := must.Get(h.SendMessage(ctx, &sdk.SendMessageRequest{Message: yes}))
		require.Equal(t, sdk.TaskStateInputRequired, res.(*sdk.Task).Status.State)
		require.Equal(t, []string{"A1"}, ran)
	}
	next := userMessage("m3", "yes")
	next.TaskID = task.ID
	require.Equal(t, sdk.TaskStateCompleted, sendTask(t, h, ctx, next).Status.State)
	require.Equal(t, []string{"A1", "A2"}, ran)
}

// A "yes" that waited while another one was carried out answers no question that was asked
// after it had arrived.
func TestAnswerToALaterQuestion(t *testing.T) {
	var ran []string
	script := scripted.New().Add("billing", scripted.Reply(scripted.Call("refund", `{"order":"A1"}`)), scripted.Reply(scripted.Call("refund", `{"order":"A2"}`)), scripted.Reply(scripted.Text("Both.")))
	billing := must.Get(llmagent.New("billing", "You refund.", script.Model("billing"), llmagent.WithTools(refundTool(t, &ran))))
	s := newTestServer(t, billing, sessiontest.Memory(t))
	h, ctx := s.RequestHandler(), context.Background()
	task := sendTask(t, h, ctx, userMessage("m1", "refund both"))
	attempt := func(text string, arrivedAt *int64) *sdk.Task {
		m := userMessage("m2", text)
		m.TaskID = task.ID
		f := must.Get(s.trees[""].sendOnce(ctx, session.ID(task.ContextID), m, llm.Content{Text: text}, origin.Origin{}, false, arrivedAt))
		return f.task
	}
	arrivedAt := int64(-1)
	attempt("which one?", &arrivedAt)
	yes := userMessage("m3", "yes")
	yes.TaskID = task.ID
	require.Equal(t, sdk.TaskStateInputRequired, sendTask(t, h, ctx, yes).Status.State)
	require.Equal(t, sdk.TaskStateInputRequired, attempt("yes", &arrivedAt).Status.State)
	again := int64(-1) // its answer was lost
	require.Equal(t, sdk.TaskStateInputRequired, attempt("yes", &again).Status.State)
	next := userMessage("m4", "no")
	next.TaskID = task.ID
	require.Equal(t, sdk.TaskStateCompleted, sendTask(t, h, ctx, next).Status.State)
	require.Equal(t, []string{"A1"}, ran)
}

// A "yes" that was refused while the task ran answers no question that the task asks afterwards, if it comes again.
func TestAnswerThatWasRefusedComesAgain(t *testing.T) {
	var ran []string
	free := make(chan struct{})
	script := scripted.New().Add("billing", scripted.Reply(scripted.Call("refund", `{"order":"A1"}`)),
		scripted.Reply(scripted.WaitFor(free), scripted.Call("refund", `{"order":"A2"}`)), scripted.Reply(scripted.Text("One.")))
	billing := must.Get(llmagent.New("billing", "You refund.", script.Model("billing"), llmagent.WithTools(refundTool(t, &ran))))
	h, ctx := newTestServer(t, billing, sessiontest.Memory(t)).RequestHandler(), context.Background()
	task := sendTask(t, h, ctx, userMessage("m1", "refund both"))
	yes, late := userMessage("m2", "yes"), userMessage("m3", "yes")
	yes.TaskID, late.TaskID = task.ID, task.ID
	sendAtOnce(t, h, ctx, yes)
	_, err := h.SendMessage(ctx, &sdk.SendMessageRequest{Message: late})
	require.ErrorIs(t, err, sdk.ErrUnsupportedOperation)
	close(free)
	require.Equal(t, sdk.TaskStateInputRequired, sendTask(t, h, ctx, yes).Status.State)
	require.Equal(t, sdk.TaskStateInputRequired, sendTask(t, h, ctx, late).Status.State)
	no := userMessage("m4", "no")
	no.TaskID = task.ID
	require.Equal(t, sdk.TaskStateCompleted, sendTask(t, h, ctx, no).Status.State)
	require.Equal(t, []string{"A1"}, ran)
}

// A "yes" that was refused while a task worked answers no question that its agent asks in words afterwards, either. The
// same words under another id do.
func TestWordsThatWereRefusedComeAgain(t *testing.T) {
	free := make(chan struct{})
	mock := a2atest.New().Add(a2atest.Reply(a2atest.InputRequired("Shall I look?")),
		a2atest.Reply(a2atest.WaitFor(free), a2atest.InputRequired("Shall I pay 5000?")), a2atest.Reply(a2atest.Text("Paid.")))
	far := must.Get(a2a.Remote("far", "", a2a.WithClient(mock)))
	h, ctx := newTestServer(t, far, sessiontest.Memory(t)).RequestHandler(), context.Background()
	task := sendTask(t, h, ctx, userMessage("m1", "refund"))
	yes, late, next := userMessage("m2", "yes"), userMessage("m3", "yes"), userMessage("m4", "yes")
	yes.TaskID, late.TaskID, next.TaskID = task.ID, task.ID, task.ID
	sendAtOnce(t, h, ctx, yes)
	_, err := h.SendMessage(ctx, &sdk.SendMessageRequest{Message: late})
	require.ErrorIs(t, err, sdk.ErrUnsupportedOperation)
	require.ErrorContains(t, err, "another messageId")
	close(free)
	require.Equal(t, sdk.TaskStateInputRequired, sendTask(t, h, ctx, yes).Status.State)
	require.Equal(t, sdk.TaskStateInputRequired, sendTask(t, h, ctx, late).Status.State)
	require.Equal(t, sdk.TaskStateCompleted, sendTask(t, h, ctx, next).Status.State)
}

// A fork has the tasks of its past, under ids of its own, as they were.
func TestTasksOfAFork(t *testing.T) {
	mock := a2atest.New().Add(a2atest.Reply(a2atest.InputRequired("Which one?")), a2atest.Reply(a2atest.Text("Done.")))
	far := must.Get(a2a.Remote("far", "", a2a.WithClient(mock)))
	store := sessiontest.Memory(t)
	h := newTestServer(t, far, store).RequestHandler()
	ctx := context.Background()
	task := sendTask(t, h, ctx, userMessage("m1", "refund"))
	answer := userMessage("m2", "the second")
	answer.TaskID = task.ID
	task = sendTask(t, h, ctx, answer)
	require.Equal(t, sdk.TaskStateCompleted, task.Status.State)

	of := session.ID(task.ContextID)
	var seq int64
	for _, e := range must.All(store.Load(ctx, of, 0)) {
		seq = e.Seq
	}
	require.NoError(t, store.Fork(ctx, of, seq, session.ID("fork")))
	list := must.Get(h.ListTasks(ctx, &sdk.ListTasksRequest{ContextID: "fork"}))
	require.Len(t, list.Tasks, 1)
	require.Equal(t, sdk.TaskStateCompleted, list.Tasks[0].Status.State)
	require.Len(t, list.Tasks[0].History, 3)
}

// A client that numbers its messages, and begins anew with 1, does not get into the
// conversation that it began before with other words.
func TestOtherWordsUnderAnID(t *testing.T) {
	script := scripted.New().Add("a", scripted.Reply(scripted.Text("Hi Ann.")), scripted.Reply(scripted.Text("Hi Bob.")))
	a := must.Get(llmagent.New("a", "Greet.", script.Model("a")))
	h := newTestServer(t, a, sessiontest.Memory(t)).RequestHandler()
	ctx := withExtension(context.Background())
	ann := sendTask(t, h, ctx, userMessage("1", "I am Ann"))
	require.Equal(t, ann.ID, sendTask(t, h, ctx, userMessage("1", "I am Ann")).ID)
	bob := sendTask(t, h, ctx, userMessage("1", "I am Bob"))
	require.NotEqual(t, ann.ContextID, bob.ContextID)
}
