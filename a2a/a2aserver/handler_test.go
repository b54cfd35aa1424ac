package a2aserver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/parts"
	"github.com/agentarbor/arbor/a2a/internal/wire"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// newTestServer serves a tree from a store; the server is closed with the test.
func newTestServer(t testing.TB, root agent.Agent, store session.Store, opts ...Option) *Server {
	t.Helper()
	s := must.Get(New(root, store, append([]Option{WithLogger(slog.New(slog.NewTextHandler(t.Output(), nil)))}, opts...)...))
	t.Cleanup(func() {
		require.NoError(t, s.Close(context.Background()))
	})
	return s
}

// scriptedTree is support, which hands over to billing, with a script for both.
func scriptedTree(t testing.TB, script *scripted.Script, billingOpts ...llmagent.Option) agent.Agent {
	t.Helper()
	billing := must.Get(llmagent.New("billing", "You handle refunds.", script.Model("billing"), append(billingOpts, llmagent.WithDescription("Refunds"))...))
	return must.Get(llmagent.New("support", "You route.", script.Model("support"), llmagent.WithSubAgents(billing), llmagent.WithDescription("Support")))
}

func handOver() scripted.Answer {
	return scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`))
}

func userMessage(id, text string) *sdk.Message {
	m := sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(text))
	m.ID = id
	return m
}

func sendTask(t testing.TB, h a2asrv.RequestHandler, ctx context.Context, m *sdk.Message) *sdk.Task {
	t.Helper()
	res := must.Get(h.SendMessage(ctx, &sdk.SendMessageRequest{Message: m}))
	return res.(*sdk.Task)
}

// told renders a stream in words.
func told(events []sdk.Event) []string {
	var lines []string
	for _, e := range events {
		switch e := e.(type) {
		case *sdk.Task:
			lines = append(lines, "task "+stateName(e.Status.State))
		case *sdk.TaskStatusUpdateEvent:
			line := "status " + stateName(e.Status.State)
			if e.Status.Message != nil {
				line += ": " + e.Status.Message.Parts[0].Text()
			}
			lines = append(lines, line)
		case *sdk.TaskArtifactUpdateEvent:
			line := fmt.Sprintf("%s %q", e.Artifact.Name, e.Artifact.Parts[0].Text())
			if e.Append {
				line += " more"
			}
			if e.LastChunk {
				line += " last"
			}
			lines = append(lines, line)
		}
	}
	return lines
}

func collectEvents(t testing.TB, seq iter.Seq2[sdk.Event, error]) []sdk.Event {
	t.Helper()
	events := must.All(seq)
	return events
}

// withExtension is the context of a request that asks for our extension.
func withExtension(ctx context.Context) context.Context {
	ctx, _ = a2asrv.NewCallContext(ctx, wire.ServiceParams(http.Header{"A2a-Extensions": {"https://example.com/other, " + a2a.Extension}}, nil))
	return ctx
}

func TestStream(t *testing.T) {
	script := scripted.New().Add("support", scripted.Reply(scripted.Text("One moment."), scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`))).
		Add("billing", scripted.Reply(scripted.Text("Refunded ", "both.")))
	s := newTestServer(t, scriptedTree(t, script), sessiontest.Memory(t))
	events := collectEvents(t, s.RequestHandler().SendStreamingMessage(context.Background(), &sdk.SendMessageRequest{Message: userMessage("m1", "help")}))
	lines := told(events)
	require.Contains(t, []string{"task submitted", "task working", "task completed"}, lines[0])
	var artifacts []string
	for _, l := range lines[1:] {
		if !strings.HasPrefix(l, "status working") {
			artifacts = append(artifacts, l)
		}
	}
	require.Equal(t, []string{`support "One moment."`, `support "One moment." last`, `billing "Refunded "`, `billing "both." more`, `billing "Refunded both." last`, "status completed"}, artifacts)
	for _, e := range events {
		require.Equal(t, events[0].TaskInfo(), e.TaskInfo())
	}
}

// A session is a context: the next message finds the agent that the conversation was
// handed to.
func TestFollowUpInContext(t *testing.T) {
	script := scripted.New().Add("support", handOver()).Add("billing", scripted.Reply(scripted.Text("Which one?")), scripted.Reply(scripted.Text("Done.")))
	store := sessiontest.Memory(t)
	s := newTestServer(t, scriptedTree(t, script), store)
	h := s.RequestHandler()
	ctx := context.Background()
	first := sendTask(t, h, ctx, userMessage("m1", "refund"))
	next := userMessage("m2", "the second")
	next.ContextID = first.ContextID
	second := sendTask(t, h, ctx, next)
	require.Equal(t, first.ContextID, second.ContextID)
	require.NotEqual(t, first.ID, second.ID)
	require.Equal(t, "Done.", second.Artifacts[0].Parts[0].Text())

	again := sendTask(t, h, ctx, next)
	require.Equal(t, second.ID, again.ID, "the same message is not answered twice")
	require.NoError(t, script.Done())

	done := userMessage("m3", "more")
	done.TaskID = first.ID
	_, err := h.SendMessage(ctx, &sdk.SendMessageRequest{Message: done})
	require.ErrorIs(t, err, sdk.ErrUnsupportedOperation)
	other := userMessage("m4", "more")
	other.TaskID, other.ContextID = first.ID, "elsewhere"
	require.ErrorIs(t, must.Err(h.SendMessage(ctx, &sdk.SendMessageRequest{Message: other})), sdk.ErrInvalidParams)
	_, err = h.SendMessage(ctx, &sdk.SendMessageRequest{Message: &sdk.Message{ID: "m5", Role: sdk.MessageRoleUser, TaskID: "1-x.y", Parts: done.Parts}})
	require.ErrorIs(t, err, sdk.ErrTaskNotFound)
}

type refundIn struct {
	Order string `json:"order"`
}

func refundTool(t testing.TB, ran *[]string) tools.Tool {
	t.Helper()
	return must.Get(tools.Func("refund", "Refunds an order.", func(_ tools.Context, in refundIn) (string, error) {
		*ran = append(*ran, in.Order)
		return "refunded " + in.Order, nil
	}, tools.NeedsApproval(tools.ByUser())))
}

func TestApproval(t *testing.T) {
	for name, c := range map[string]struct {
		answer *sdk.Part
		ran    bool
	}{
		"yes in words": {sdk.NewTextPart("Yes, please."), true},
		"no in words":  {sdk.NewTextPart("no!"), false},
		"yes as data":  {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			var ran []string
			script := scripted.New().Add("billing", scripted.Reply(scripted.Text("Let me see."), scripted.Call("refund", `{"order":"A1"}`)), scripted.Reply(scripted.Text("So be it.")))
			billing := must.Get(llmagent.New("billing", "You refund.", script.Model("billing"), llmagent.WithTools(refundTool(t, &ran))))
			h := newTestServer(t, billing, sessiontest.Memory(t)).RequestHandler()
			ctx := context.Background()
			task := sendTask(t, h, ctx, userMessage("m1", "refund A1"))
			require.Equal(t, sdk.TaskStateInputRequired, task.Status.State)
			ask := task.Status.Message
			require.Contains(t, ask.Parts[0].Text(), "refund")
			data := ask.Parts[1].Data().(map[string]any)
			require.Equal(t, "refund", data["tool"])
			require.Equal(t, map[string]any{"order": "A1"}, data["params"])
			require.Equal(t, ask, task.History[len(task.History)-1])

			for i, words := range []string{"perhaps", "Yes, but only half of it", "ok no"} {
				unclear := userMessage(fmt.Sprint("unclear", i), words)
				unclear.TaskID = task.ID
				require.Equal(t, sdk.TaskStateInputRequired, sendTask(t, h, ctx, unclear).Status.State)
				require.Empty(t, ran, words)
			}

			part := c.answer
			if part == nil {
				part = sdk.NewDataPart(map[string]any{"callId": data["callId"], "approved": true})
			}
			answer := sdk.NewMessage(sdk.MessageRoleUser, part)
			answer.TaskID = task.ID
			done := sendTask(t, h, ctx, answer)
			require.Equal(t, task.ID, done.ID)
			require.Equal(t, sdk.TaskStateCompleted, done.Status.State)
			require.Equal(t, c.ran, len(ran) == 1)
			require.Len(t, done.Artifacts, 2)
			if c.answer != nil {
				require.Equal(t, c.answer.Text(), done.History[len(done.History)-1].Parts[0].Text(), "the client's own words")
			}
			require.NoError(t, script.Done())
		})
	}
}

func TestWrongDecisions(t *testing.T) {
	var ran []string
	script := scripted.New().Add("billing", scripted.Reply(scripted.Call("refund", `{"order":"A1"}`), scripted.Call("refund", `{"order":"A2"}`)), scripted.Reply(scripted.Text("Both.")))
	billing := must.Get(llmagent.New("billing", "You refund.", script.Model("billing"), llmagent.WithTools(refundTool(t, &ran))))
	h := newTestServer(t, billing, sessiontest.Memory(t)).RequestHandler()
	ctx := context.Background()
	task := sendTask(t, h, ctx, userMessage("m1", "refund both"))
	var ids []string
	for _, p := range task.Status.Message.Parts[1:] {
		ids = append(ids, p.Data().(map[string]any)["callId"].(string))
	}
	require.Len(t, ids, 2)
	for _, part := range []*sdk.Part{
		sdk.NewTextPart("yes"),
		sdk.NewDataPart(map[string]any{"callId": "x", "approved": true}),
		sdk.NewDataPart(map[string]any{"callId": ids[0], "approved": "yes"}),
		sdk.NewDataPart(map[string]any{"callId": ids[0], "approved": true, "digest": "sha256:another"}),
		sdk.NewDataPart([]any{map[string]any{"callId": ids[0], "approved": true}, map[string]any{"callId": ids[0], "approved": false}}),
	} {
		m := sdk.NewMessage(sdk.MessageRoleUser, part)
		m.TaskID = task.ID
		require.ErrorIs(t, must.Err(h.SendMessage(ctx, &sdk.SendMessageRequest{Message: m})), sdk.ErrInvalidParams)
	}
	one := sdk.NewMessage(sdk.MessageRoleUser, sdk.NewDataPart(map[string]any{"callId": ids[0], "approved": true}))
	one.TaskID = task.ID
	task = sendTask(t, h, ctx, one)
	require.Equal(t, sdk.TaskStateInputRequired, task.Status.State, "the other one waits")
	two := sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart("no"))
	two.TaskID = task.ID
	task = sendTask(t, h, ctx, two)
	require.Equal(t, sdk.TaskStateCompleted, task.Status.State)
	require.Equal(t, []string{"A1"}, ran)
}

// TestAnswersToAnEarlierQuestion: a yes that names its question approves no call that is asked about when it arrives.
func TestAnswersToAnEarlierQuestion(t *testing.T) {
	var ran []string
	script := scripted.New().Add("billing", scripted.Reply(scripted.Call("refund", `{"order":"A1"}`)), scripted.Reply(scripted.Call("refund", `{"order":"A2"}`)), scripted.Reply(scripted.Text("Done.")))
	billing := must.Get(llmagent.New("billing", "You refund.", script.Model("billing"), llmagent.WithTools(refundTool(t, &ran))))
	h := newTestServer(t, billing, sessiontest.Memory(t)).RequestHandler()
	ctx := context.Background()
	task := sendTask(t, h, ctx, userMessage("m1", "refund"))
	reply := func(id, words, question string) *sdk.Message {
		m := userMessage(id, words)
		m.TaskID = task.ID
		m.SetMeta(a2a.Extension, map[string]any{"answers": question})
		return m
	}
	first := reply("m2", "yes", task.Status.Message.ID)
	task = sendTask(t, h, ctx, reply("m3", "no", task.Status.Message.ID))
	require.Equal(t, sdk.TaskStateInputRequired, task.Status.State)
	_, err := h.SendMessage(ctx, &sdk.SendMessageRequest{Message: first})
	require.ErrorIs(t, err, sdk.ErrInvalidParams)
	require.ErrorContains(t, err, "a question that the task no longer asks")
	require.Empty(t, ran)
	last := reply("m4", "yes", task.Status.Message.ID)
	for range 2 { // sent again, it finds what it did
		task = sendTask(t, h, ctx, last)
		require.Equal(t, sdk.TaskStateCompleted, task.Status.State)
		require.Equal(t, []string{"A2"}, ran)
	}
}

// TestAnswersToOneQuestionOfTwo: answers to a message that asks about two calls count also after one of them was answered,
// if each names its call's digest. Words and answers without a digest do not.
func TestAnswersToOneQuestionOfTwo(t *testing.T) {
	var ran []string
	script := scripted.New().Add("billing", scripted.Reply(scripted.Call("refund", `{"order":"A1"}`), scripted.Call("refund", `{"order":"A2"}`)),
		scripted.Reply(scripted.Call("refund", `{"order":"A2"}`)), scripted.Reply(scripted.Text("Both.")))
	billing := must.Get(llmagent.New("billing", "You refund.", script.Model("billing"), llmagent.WithTools(refundTool(t, &ran))))
	h := newTestServer(t, billing, sessiontest.Memory(t)).RequestHandler()
	ctx := context.Background()
	task := sendTask(t, h, ctx, userMessage("m1", "refund both"))
	asked := task.Status.Message
	answer := func(part *sdk.Part) error {
		m := sdk.NewMessage(sdk.MessageRoleUser, part)
		m.TaskID = task.ID
		m.SetMeta(a2a.Extension, map[string]any{"answers": asked.ID})
		_, err := h.SendMessage(ctx, &sdk.SendMessageRequest{Message: m})
		return err
	}
	one, two := asked.Parts[1].Data().(map[string]any), asked.Parts[2].Data().(map[string]any)
	yes := func(callID, digest any) *sdk.Part {
		return sdk.NewDataPart(map[string]any{"callId": callID, "approved": true, "digest": digest})
	}
	require.NoError(t, answer(yes(one["callId"], one["digest"])))
	for name, part := range map[string]*sdk.Part{"words": sdk.NewTextPart("yes"), "no digest": yes(two["callId"], ""), "answered": yes(one["callId"], one["digest"])} {
		require.ErrorIs(t, answer(part), sdk.ErrInvalidParams, name)
	}
	require.NoError(t, answer(yes(two["callId"], two["digest"])))
	require.Equal(t, []string{"A1", "A2"}, ran)
	again := must.Get(h.GetTask(ctx, &sdk.GetTaskRequest{ID: task.ID})).Status.Message.Parts[1].Data().(map[string]any)
	require.Equal(t, two["digest"], again["digest"])
	require.ErrorIs(t, answer(yes(again["callId"], again["digest"])), sdk.ErrInvalidParams, "a later call with the same digest")
	require.Equal(t, []string{"A1", "A2"}, ran)
}

// blocked is an agent that says something and then waits until its turn is canceled,
// or it is let go on.
type blocked struct {
	begun chan string
	free  chan struct{}
}

func newBlocked(t testing.TB) (*blocked, agent.Agent) {
	t.Helper()
	b := &blocked{make(chan string, 10), make(chan struct{})}
	a := must.Get(agent.New("slow", "Takes its time.", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			id := inv.NewID()
			if !yield(&event.Event{ID: id, Partial: true, Attempt: 1, Data: &event.Text{Content: "thin"}}, nil) {
				return
			}
			b.begun <- inv.TurnID()
			select {
			case <-b.free:
				yield(&event.Event{ID: id, Data: &event.Text{Content: "thinking done"}}, nil)
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
			}
		}
	}))
	return b, a
}

func sendAtOnce(t testing.TB, h a2asrv.RequestHandler, ctx context.Context, m *sdk.Message) *sdk.Task {
	t.Helper()
	res := must.Get(h.SendMessage(ctx, &sdk.SendMessageRequest{Message: m, Config: &sdk.SendMessageConfig{ReturnImmediately: true}}))
	return res.(*sdk.Task)
}

// A task is followed in another process than its own, and goes on there when that one
// has gone without a word.
func TestOtherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store := sessiontest.Memory(t)
		b, slow := newBlocked(t)
		one := must.Get(New(slow, store))
		two := must.Get(New(slow, store))
		task := sendAtOnce(t, one.RequestHandler(), ctx, userMessage("m1", "think"))
		<-b.begun
		var lines []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for e, err := range two.RequestHandler().SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: task.ID}) {
				require.NoError(t, err)
				lines = append(lines, told([]sdk.Event{e})...)
			}
		}()
		synctest.Wait()
		require.Equal(t, []string{"task working"}, lines)
		require.NoError(t, one.Close(ctx))
		<-b.begun // the other one took it up
		close(b.free)
		<-done
		require.Equal(t, "status completed", lines[len(lines)-1])
		require.NoError(t, two.Close(ctx))
	})
}

// TestCancelAtAnotherServer: a task is canceled at a server that does not work on it.
func TestCancelAtAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store := sessiontest.Memory(t)
		b, slow := newBlocked(t)
		one, two := must.Get(New(slow, store)), must.Get(New(slow, store))
		task := sendAtOnce(t, one.RequestHandler(), ctx, userMessage("m1", "think"))
		<-b.begun
		task = must.Get(two.RequestHandler().CancelTask(ctx, &sdk.CancelTaskRequest{ID: task.ID}))
		require.Equal(t, sdk.TaskStateCanceled, task.Status.State)
		require.NoError(t, one.Close(ctx))
		require.NoError(t, two.Close(ctx))
	})
}

// A client that waits for a task that no process adopts any more gets an error, and the task continues when its turn is
// resumed by hand.
func TestTaskThatNoProcessAdopts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store := sessiontest.Memory(t)
		b, slow := newBlocked(t)
		s := must.Get(New(slow, store))
		task := sendAtOnce(t, s.RequestHandler(), ctx, userMessage("m1", "think"))
		for range 10 {
			<-b.begun
			require.NoError(t, s.Close(ctx))
			s = must.Get(New(slow, store))
			subscriber, leave := context.WithCancel(ctx)
			for _, err := range s.RequestHandler().SubscribeToTask(subscriber, &sdk.SubscribeToTaskRequest{ID: task.ID}) {
				require.NoError(t, err)
				break
			}
			leave()
		}
		var failed error
		for _, failed = range s.RequestHandler().SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: task.ID}) {
		}
		require.ErrorIs(t, failed, sdk.ErrInternalError)
		require.ErrorContains(t, failed, "it continues when a user resumes its turn")
		again := userMessage("m1", "think")
		again.ContextID = task.ContextID
		_, err := s.RequestHandler().SendMessage(ctx, &sdk.SendMessageRequest{Message: again})
		require.ErrorContains(t, err, "it continues when a user resumes its turn")

		x := must.Get(s.trees[""].turns.Resume(ctx, session.Key{App: s.trees[""].app, User: session.DefaultUser, ID: task.ContextID}))
		<-b.begun
		close(b.free)
		require.NoError(t, x.Wait(ctx))
		got := must.Get(s.RequestHandler().GetTask(ctx, &sdk.GetTaskRequest{ID: task.ID}))
		require.Equal(t, sdk.TaskStateCompleted, got.Status.State)
		require.NoError(t, s.Close(ctx))
	})
}

// A task that waits yields its snapshot and is then followed.
func TestSubscribeToWaitingTask(t *testing.T) {
	var ran []string
	script := scripted.New().Add("billing", scripted.Reply(scripted.Call("refund", `{"order":"A1"}`)), scripted.Reply(scripted.Text("Done.")))
	billing := must.Get(llmagent.New("billing", "You refund.", script.Model("billing"), llmagent.WithTools(refundTool(t, &ran))))
	h := newTestServer(t, billing, sessiontest.Memory(t)).RequestHandler()
	ctx := context.Background()
	task := sendTask(t, h, ctx, userMessage("m1", "refund A1"))
	lines := make(chan string, 20)
	go func() {
		defer close(lines)
		for e, err := range h.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: task.ID}) {
			if err != nil {
				lines <- err.Error()
				return
			}
			lines <- told([]sdk.Event{e})[0]
		}
	}()
	require.Equal(t, "task input required", <-lines)
	answer := userMessage("m2", "yes")
	answer.TaskID = task.ID
	sendTask(t, h, ctx, answer)
	var rest []string
	for l := range lines {
		rest = append(rest, l)
	}
	require.Equal(t, []string{"status working", `billing "Done."`, `billing "Done." last`, "status completed"}, rest)
}

// Callers see their own tasks only; another caller's is not there.
func TestCallersAreIsolated(t *testing.T) {
	script := scripted.New().Add("a", scripted.Reply(scripted.Text("Hi.")), scripted.Reply(scripted.Text("Ho.")))
	a := must.Get(llmagent.New("a", "Greet.", script.Model("a")))
	h := newTestServer(t, a, sessiontest.Memory(t)).RequestHandler()
	ann, bob := withCaller(context.Background(), "ann"), withCaller(context.Background(), "bob")
	task := sendTask(t, h, ann, userMessage("m1", "hi"))
	require.ErrorIs(t, must.Err(h.GetTask(bob, &sdk.GetTaskRequest{ID: task.ID})), sdk.ErrTaskNotFound)
	require.ErrorIs(t, must.Err(h.CancelTask(bob, &sdk.CancelTaskRequest{ID: task.ID})), sdk.ErrTaskNotFound)
	_, err := h.CreateTaskPushConfig(bob, &sdk.PushConfig{TaskID: task.ID, URL: "https://example.com/"})
	require.ErrorIs(t, err, sdk.ErrTaskNotFound)
	for _, err := range h.SubscribeToTask(bob, &sdk.SubscribeToTaskRequest{ID: task.ID}) {
		require.ErrorIs(t, err, sdk.ErrTaskNotFound)
	}
	m := userMessage("m2", "hi")
	m.TaskID = task.ID
	require.ErrorIs(t, must.Err(h.SendMessage(bob, &sdk.SendMessageRequest{Message: m})), sdk.ErrTaskNotFound)
	list := must.Get(h.ListTasks(bob, &sdk.ListTasksRequest{}))
	require.NotNil(t, list.Tasks)
	require.Empty(t, list.Tasks)
	m = userMessage("m2", "hi")
	m.ContextID = task.ContextID
	mine := sendTask(t, h, bob, m) // a context of the same name is another one
	require.Len(t, mine.History, 1)
	got := must.Get(h.GetTask(ann, &sdk.GetTaskRequest{ID: task.ID}))
	require.Equal(t, task, got)
}

func TestBadMessages(t *testing.T) {
	a := must.Get(llmagent.New("a", "Greet.", scripted.New().Model("a")))
	h := newTestServer(t, a, sessiontest.Memory(t)).RequestHandler()
	ok := userMessage("m", "hi")
	long := userMessage("m", "hi")
	long.ContextID = strings.Repeat("x", 200)
	odd := userMessage("m", "hi")
	odd.ContextID = "a/b"
	for name, req := range map[string]*sdk.SendMessageRequest{
		"blank":        {Message: userMessage("m", "  ")},
		"not UTF-8":    {Message: userMessage("m", "\xff")},
		"tenant":       {Message: ok, Tenant: "nobody"},
		"long context": {Message: long},
		"odd context":  {Message: odd},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, must.Err(h.SendMessage(context.Background(), req)), sdk.ErrInvalidParams)
			for _, err := range h.SendStreamingMessage(context.Background(), req) {
				require.ErrorIs(t, err, sdk.ErrInvalidParams)
			}
		})
	}
	for _, id := range []sdk.TaskID{"x", ".", "-.", "1-.", "01-a.b", "-1-a.b", "zzzzzzzzzzzzzzzzzzzz-a.b", "1-a.", sdk.TaskID("1-a." + strings.Repeat("x", 300)), "1-a.\x00"} {
		_, err := h.GetTask(context.Background(), &sdk.GetTaskRequest{ID: id})
		require.ErrorIs(t, err, sdk.ErrTaskNotFound, "%q", id)
	}
}

// A message that has been through this agent is refused, whoever says so.
func TestChain(t *testing.T) {
	script := scripted.New().Add("a", scripted.Reply(scripted.Text("Hi.")))
	a := must.Get(llmagent.New("a", "Greet.", script.Model("a")))
	store := sessiontest.Memory(t)
	h := newTestServer(t, a, store, WithURL("https://a.example.com/agents/")).RequestHandler()
	ctx := context.Background()
	chained := func(ids ...any) *sdk.Message {
		m := userMessage("m1", "hi")
		m.Metadata = map[string]any{a2a.Extension: map[string]any{"chain": ids}}
		return m
	}
	task := sendTask(t, h, ctx, chained("https://b.example.com/"))
	require.Equal(t, sdk.TaskStateCompleted, task.Status.State)
	for _, e := range must.All(store.Load(ctx, session.ID(task.ContextID), 0)) {
		if u, ok := e.Data.(*event.User); ok {
			require.Equal(t, []any{"https://b.example.com/", "https://a.example.com/agents/"}, u.Metadata["a2a"].(map[string]any)["chain"])
		}
	}
	_, err := h.SendMessage(ctx, &sdk.SendMessageRequest{Message: chained("https://a.example.com/agents/", "https://b.example.com/")})
	require.ErrorIs(t, err, sdk.ErrUnsupportedOperation)
	var many []any
	for i := range 20 {
		many = append(many, fmt.Sprint(i))
	}
	_, err = h.SendMessage(ctx, &sdk.SendMessageRequest{Message: chained(many...)})
	require.ErrorIs(t, err, sdk.ErrUnsupportedOperation)
}

// What went wrong inside is nobody else's business.
func TestFailuresTellNoSecrets(t *testing.T) {
	a := must.Get(agent.New("a", "Fails.", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(nil, &agent.RunError{Agent: "a", Code: "boom", Err: errors.New("password hunter2 was refused")})
		}
	}))
	h := newTestServer(t, a, sessiontest.Memory(t)).RequestHandler()
	task := sendTask(t, h, context.Background(), userMessage("m1", "hi"))
	require.Equal(t, sdk.TaskStateFailed, task.Status.State)
	require.Equal(t, "the agent failed (boom)", task.Status.Message.Parts[0].Text())
	require.Equal(t, task.Status.Message, task.History[len(task.History)-1])
}

// What a workflow gives out without a word is data.
func TestOutputWithoutWords(t *testing.T) {
	a := must.Get(agent.New("a", "Counts.", func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			yield(&event.Event{Data: &event.Finish{Output: []byte(`{"n":2}`)}}, nil)
		}
	}))
	h := newTestServer(t, a, sessiontest.Memory(t)).RequestHandler()
	task := sendTask(t, h, context.Background(), userMessage("m1", "count"))
	require.Equal(t, map[string]any{"n": 2.0}, task.Artifacts[0].Parts[0].Data())
}

func TestTenants(t *testing.T) {
	script := scripted.New().Add("a", scripted.Reply(scripted.Text("I am a."))).Add("b", scripted.Reply(scripted.Text("I am b.")))
	a := must.Get(llmagent.New("a", "Greet.", script.Model("a")))
	b := must.Get(llmagent.New("b", "Greet.", script.Model("b")))
	h := newTestServer(t, a, sessiontest.Memory(t), WithTenant("bees", b)).RequestHandler()
	ctx := context.Background()
	res := must.Get(h.SendMessage(ctx, &sdk.SendMessageRequest{Tenant: "bees", Message: userMessage("m", "hi")}))
	task := res.(*sdk.Task)
	require.Equal(t, "I am b.", task.Artifacts[0].Parts[0].Text())
	require.ErrorIs(t, must.Err(h.GetTask(ctx, &sdk.GetTaskRequest{ID: task.ID})), sdk.ErrTaskNotFound)
	must.Get(h.GetTask(ctx, &sdk.GetTaskRequest{ID: task.ID, Tenant: "bees"}))
	require.Equal(t, "I am a.", sendTask(t, h, ctx, userMessage("m", "hi")).Artifacts[0].Parts[0].Text())

	for name, opts := range map[string][]Option{
		"nil":        {nil},
		"bad tenant": {WithTenant("a b", b)},
		"twice":      {WithTenant("x", b), WithTenant("x", b)},
		"app":        {WithTenant("app", b)},
		"no app":     {WithApp("")},
		"nil tree":   {WithTenant("x", nil)},
		"bad URL":    {WithURL("ftp://x")},
		"secret URL": {WithURL("https://ann:hunter2@x/")},
		"no logger":  {WithLogger(nil)},
		"no URL":     {WithCard(CardOptions{Signer: signer(t)})},
	} {
		_, err := New(a, sessiontest.Memory(t), opts...)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "hunter2")
	}
	require.Error(t, must.Err(New(a, nil)))
	require.Error(t, must.Err(New(nil, sessiontest.Memory(t))))
}

func TestContentRoundTrip(t *testing.T) {
	all := sdk.ContentParts{sdk.NewTextPart("see"), {Content: sdk.Raw("abc"), MediaType: "image/png", Filename: "x.png"}, {Content: sdk.URL("https://x.test/y"), MediaType: "text/plain"}}
	c, err := contentOf(all)
	require.NoError(t, err)
	require.NoError(t, llm.CheckUser(llm.Message{Role: llm.RoleUser, Content: c}))
	require.Equal(t, all, parts.Of(c.Stored()))
	c, err = contentOf(sdk.ContentParts{sdk.NewDataPart(map[string]any{"n": 1})})
	require.NoError(t, err)
	require.Equal(t, `{"n":1}`, c.Text)
}

// The first piece of an artifact names its author for clients that asked for it. Appended pieces do not repeat it. The
// last chunk has the whole text and the author again, because it takes the place of the pieces.
func TestOneAuthorAnArtifact(t *testing.T) {
	script := scripted.New().Add("a", scripted.Reply(scripted.Text("one ", "two ", "three")))
	a := must.Get(llmagent.New("a", "Greet.", script.Model("a")))
	h := newTestServer(t, a, sessiontest.Memory(t)).RequestHandler()
	told := make(map[bool]int)
	for _, e := range collectEvents(t, h.SendStreamingMessage(withExtension(context.Background()), &sdk.SendMessageRequest{Message: userMessage("m1", "hi")})) {
		if u, ok := e.(*sdk.TaskArtifactUpdateEvent); ok {
			told[u.Append]++
			require.Equal(t, u.Append, u.Artifact.Metadata == nil)
			require.Equal(t, u.Append, u.Artifact.Extensions == nil)
		}
	}
	require.Equal(t, 2, told[false])
	require.Equal(t, 2, told[true])
}
