package a2atest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/internal/testing/must"
)

var _ a2a.Client = a2atest.New()

func message(text string) *sdk.SendMessageRequest {
	return &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(text))}
}

// to is a message that continues a task.
func to(id sdk.TaskID, text string) *sdk.SendMessageRequest {
	req := message(text)
	req.Message.TaskID = id
	return req
}

// hear writes down a stream, one line an event.
func hear(events iter.Seq2[sdk.Event, error]) (lines []string, err error) {
	for e, err := range events {
		if err != nil {
			return lines, err
		}
		lines = append(lines, line(e))
	}
	return lines, nil
}

func line(e sdk.Event) string {
	switch e := e.(type) {
	case *sdk.Task:
		return fmt.Sprintf("task %s %s %s%s", e.ID, e.ContextID, short(e.Status.State), artifacts(e.Artifacts))
	case *sdk.TaskStatusUpdateEvent:
		words := ""
		if e.Status.Message != nil {
			words = " " + join(e.Status.Message.Parts)
		}
		return short(e.Status.State) + words
	case *sdk.TaskArtifactUpdateEvent:
		s := string(e.Artifact.ID)
		if e.Append {
			s += " +"
		}
		s += " " + join(e.Artifact.Parts)
		if e.LastChunk {
			s += " (last)"
		}
		return s
	case *sdk.Message:
		return "message " + join(e.Parts)
	}
	return fmt.Sprintf("%T", e)
}

func artifacts(all []*sdk.Artifact) (s string) {
	for _, a := range all {
		s += " " + join(a.Parts)
	}
	return s
}

func join(parts sdk.ContentParts) string {
	var texts []string
	for _, p := range parts {
		if d := p.Data(); d != nil {
			texts = append(texts, fmt.Sprint(d))
			continue
		}
		texts = append(texts, p.Text())
	}
	return strings.Join(texts, "|")
}

func short(s sdk.TaskState) string {
	return strings.ToLower(strings.TrimPrefix(string(s), "TASK_STATE_"))
}

func TestStreamOfAnAnswer(t *testing.T) {
	m := a2atest.New().Add(a2atest.Reply(
		a2atest.Progress("looking"), a2atest.Text("two ", "charges"), a2atest.Snapshots("a", "ab"),
		a2atest.Parts(sdk.NewDataPart(map[string]any{"id": 7})), a2atest.Completed("done"), a2atest.Metadata("k", "v")))
	var metadata []any
	var lines []string
	for e, err := range m.SendStreamingMessage(t.Context(), message("hello")) {
		require.NoError(t, err)
		lines = append(lines, line(e))
		metadata = append(metadata, e.Meta()["k"])
	}
	require.Equal(t, []string{"task task-1 context-1 submitted", "working", "working looking",
		"artifact-1.1 two ", "artifact-1.1 + charges (last)", "artifact-1.2 a", "artifact-1.2 ab (last)",
		"artifact-1.3 map[id:7] (last)", "completed done"}, lines)
	for _, v := range metadata {
		require.Equal(t, "v", v)
	}
	require.NoError(t, m.Done())

	task := must.Get(m.GetTask(t.Context(), &sdk.GetTaskRequest{ID: "task-1"}))
	require.Equal(t, "task task-1 context-1 completed two |charges ab map[id:7]", line(task))
	require.Len(t, task.History, 3, "the message, what it was at, and the last words")
	require.Equal(t, "hello", m.Messages()[0].Parts[0].Text())
}

func TestResultWithoutStream(t *testing.T) {
	say := a2atest.Reply(a2atest.Text("two ", "charges"))
	for name, m := range map[string]*a2atest.Mock{"asked so": a2atest.New(), "peer": a2atest.New(a2atest.WithoutStreaming())} {
		m.Add(say, a2atest.Reply(a2atest.Message("no task")), say)
		result := must.Get(m.SendMessage(t.Context(), message("hello")))
		require.Equal(t, "task task-1 context-1 completed two |charges", line(result), name)
		result = must.Get(m.SendMessage(t.Context(), message("hello")))
		require.Equal(t, "message no task", line(result), name)

		now := message("hello")
		now.Config = &sdk.SendMessageConfig{ReturnImmediately: true}
		result = must.Get(m.SendMessage(t.Context(), now))
		require.Equal(t, "task task-2 context-2 working", line(result), name)
		task := must.Get(m.GetTask(t.Context(), &sdk.GetTaskRequest{ID: "task-2"}))
		require.Equal(t, "task task-2 context-2 completed two |charges", line(task), name)
		require.NoError(t, m.Done())
	}
	m := a2atest.New(a2atest.WithoutStreaming()).Add(a2atest.Reply(a2atest.InputRequired("which?")))
	lines := must.Get(hear(m.SendStreamingMessage(t.Context(), message("hello"))))
	require.Equal(t, []string{"task task-1 context-1 input_required"}, lines)
	_, err := hear(m.SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: "task-1"}))
	require.ErrorIs(t, err, sdk.ErrUnsupportedOperation)
}

// A task that is over takes no more messages, cannot be canceled, and is not followed.
func TestEnds(t *testing.T) {
	for last, item := range map[string]a2atest.Item{
		"failed no": a2atest.Failed("no"), "rejected": a2atest.Rejected(""), "canceled by others": a2atest.Canceled("by others"),
	} {
		m := a2atest.New().Add(a2atest.Reply(item))
		lines := must.Get(hear(m.SendStreamingMessage(t.Context(), message("hello"))))
		require.Equal(t, last, lines[len(lines)-1])
		_, err := hear(m.SendStreamingMessage(t.Context(), to("task-1", "more")))
		require.ErrorIs(t, err, sdk.ErrUnsupportedOperation)
		_, err = m.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: "task-1"})
		require.ErrorIs(t, err, sdk.ErrTaskNotCancelable)
		_, err = hear(m.SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: "task-1"}))
		require.ErrorIs(t, err, sdk.ErrUnsupportedOperation)
	}
}

// A call that does not reach the peer uses up no answer of the script, and the task continues.
func TestCutAndOutage(t *testing.T) {
	for outage, item := range map[int]a2atest.Item{0: a2atest.Cut(), 1: a2atest.Outage(1)} {
		m := a2atest.New().Add(a2atest.Reply(a2atest.Text("two "), item, a2atest.Text("charges")))
		require.ErrorIs(t, must.Err(hear(m.SendStreamingMessage(t.Context(), message("hello")))), io.ErrUnexpectedEOF)
		for range outage {
			_, err := hear(m.SendStreamingMessage(t.Context(), message("again")))
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}
		task := must.Get(m.GetTask(t.Context(), &sdk.GetTaskRequest{ID: "task-1"}))
		require.Equal(t, "task task-1 context-1 completed two  charges", line(task))
		require.NoError(t, m.Done())
	}
}

func TestFail(t *testing.T) {
	m := a2atest.New().Add(a2atest.Reply(a2atest.Fail(sdk.ErrUnauthenticated)), a2atest.Reply(a2atest.Text("x"), a2atest.Fail(io.ErrClosedPipe)))
	require.ErrorIs(t, must.Err(m.SendMessage(t.Context(), message("hello"))), sdk.ErrUnauthenticated)
	lines, err := hear(m.SendStreamingMessage(t.Context(), message("hello")))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.Equal(t, "task task-1 context-1 submitted", lines[0])
	require.ErrorIs(t, must.Err(m.GetTask(t.Context(), &sdk.GetTaskRequest{ID: "task-1"})), sdk.ErrTaskNotFound)
}

// A peer that blocks is freed by a cancellation, and by the end of its caller.
func TestBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := a2atest.New().Always(a2atest.Reply(a2atest.Text("wait"), a2atest.Block()))
		ended := make(chan error)
		var lines []string
		go func() {
			var err error
			lines, err = hear(m.SendStreamingMessage(t.Context(), message("hello")))
			ended <- err
		}()
		synctest.Wait()
		task := must.Get(m.GetTask(t.Context(), &sdk.GetTaskRequest{ID: "task-1"}))
		require.Equal(t, sdk.TaskStateWorking, task.Status.State)
		task = must.Get(m.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: "task-1"}))
		require.Equal(t, sdk.TaskStateCanceled, task.Status.State)
		require.NoError(t, <-ended)
		require.Equal(t, "canceled", lines[len(lines)-1])

		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := m.SendMessage(ctx, message("hello"))
			ended <- err
		}()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// Time passes for the peer, whether anybody listens or not.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after := func(d time.Duration) <-chan struct{} {
			ch := make(chan struct{})
			time.AfterFunc(d, func() { close(ch) })
			return ch
		}
		m := a2atest.New().Add(a2atest.Reply(a2atest.Text("one"), a2atest.WaitFor(after(time.Hour)), a2atest.Text("two")),
			a2atest.Reply(a2atest.WaitFor(after(61*time.Minute)), a2atest.Message("late")))
		started := time.Now()
		for e, err := range m.SendStreamingMessage(t.Context(), message("hello")) {
			require.NoError(t, err)
			if line(e) == "artifact-1.1 one (last)" {
				break // the task goes on without a listener
			}
		}
		get := func() *sdk.Task {
			return must.Get(m.GetTask(t.Context(), &sdk.GetTaskRequest{ID: "task-1"}))
		}
		require.Equal(t, sdk.TaskStateWorking, get().Status.State)
		time.Sleep(30 * time.Minute)
		require.Equal(t, sdk.TaskStateWorking, get().Status.State)
		var listeners sync.WaitGroup
		for range 3 {
			listeners.Go(func() {
				lines := must.Get(hear(m.SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: "task-1"})))
				require.Equal(t, []string{"task task-1 context-1 working one", "artifact-1.2 two (last)", "completed"}, lines)
			})
		}
		listeners.Wait()
		require.Equal(t, time.Hour, time.Since(started))
		require.Equal(t, "task task-1 context-1 completed one two", line(get()))

		must.Get(hear(m.SendStreamingMessage(t.Context(), message("hello"))))
		require.Equal(t, time.Hour+time.Minute, time.Since(started))
	})
}

// Who subscribes to a task that waits for the user hears what the answer leads to.
func TestSubscribeWhileInputIsRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := a2atest.New().Add(a2atest.Reply(a2atest.InputRequired("which?")), a2atest.Reply(a2atest.Text("ok")))
		must.Get(m.SendMessage(t.Context(), message("hello")))
		heard := make(chan []string)
		go func() {
			lines := must.Get(hear(m.SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: "task-1"})))
			heard <- lines
		}()
		synctest.Wait()
		must.Get(m.SendMessage(t.Context(), to("task-1", "the first")))
		require.Equal(t, []string{"task task-1 context-1 input_required", "working", "artifact-2.1 ok (last)", "completed"}, <-heard)
	})
}

func TestDriftIsLoud(t *testing.T) {
	long := a2atest.Reply(a2atest.Text("x"))
	cases := map[string]struct {
		mock *a2atest.Mock
		want string
	}{
		"beyond":     {a2atest.New(), `message 1, "hello", is beyond the script, which has 0 answers`},
		"text":       {a2atest.New().Add(a2atest.Reply(a2atest.ExpectText("bye"))), `message 1: the message is "hello" and does not contain "bye"`},
		"words":      {a2atest.New().Add(a2atest.Reply(a2atest.ExpectWords("a", "b"))), `the parts of the message are ["hello"], not ["a" "b"]`},
		"task":       {a2atest.New().Add(a2atest.Reply(a2atest.ExpectTask())), `names no task, but should continue one`},
		"own":        {a2atest.New().Add(a2atest.Reply(a2atest.Expect(func(*sdk.SendMessageRequest) error { return errors.New("odd") }))), `message 1: odd`},
		"impossible": {a2atest.New().Add(a2atest.Reply(a2atest.Failed("x"), a2atest.Text("y"))), `impossible: items follow the one that ends it`},
		"message":    {a2atest.New().Add(a2atest.Reply(a2atest.Text("x"), a2atest.Message("y"))), `impossible: a message is an answer without a task`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := hear(c.mock.SendStreamingMessage(t.Context(), message("hello")))
			require.ErrorIs(t, err, a2atest.ErrDrift)
			require.ErrorIs(t, err, sdk.ErrInvalidRequest)
			require.ErrorContains(t, err, c.want)
			require.ErrorIs(t, c.mock.Done(), a2atest.ErrDrift)
			require.ErrorContains(t, c.mock.Done(), c.want)
		})
	}
	m := a2atest.New().Add(long, long)
	must.Get(m.SendMessage(t.Context(), message("hello")))
	require.EqualError(t, m.Done(), a2atest.ErrDrift.Error()+": 1 message came, but the script has 2 answers")

	m = a2atest.New().Add(a2atest.Reply(a2atest.InputRequired("which?")), a2atest.Reply(a2atest.Message("no")))
	must.Get(m.SendMessage(t.Context(), message("hello")))
	_, err := m.SendMessage(t.Context(), to("task-1", "the first"))
	require.ErrorContains(t, err, "is a message, but the user's continues the task task-1")
}

// What peers refuse takes no answer from the script.
func TestRefused(t *testing.T) {
	m := a2atest.New().Add(a2atest.Reply(a2atest.InputRequired("which?")))
	must.Get(m.SendMessage(t.Context(), message("hello")))
	require.ErrorIs(t, must.Err(m.SendMessage(t.Context(), to("task-9", "the first"))), sdk.ErrTaskNotFound)
	elsewhere := to("task-1", "the first")
	elsewhere.Message.ContextID = "context-9"
	require.ErrorIs(t, must.Err(m.SendMessage(t.Context(), elsewhere)), sdk.ErrInvalidParams)
	require.ErrorIs(t, must.Err(m.GetTask(t.Context(), &sdk.GetTaskRequest{ID: "task-9"})), sdk.ErrTaskNotFound)
	require.NoError(t, m.Done())
}

// Many conversations at once get ids of their own, and keep their contexts.
func TestConcurrentUse(t *testing.T) {
	m := a2atest.New().Func(func(req *sdk.SendMessageRequest) a2atest.Answer {
		return a2atest.Reply(a2atest.Text("you said ", req.Message.Parts[0].Text()))
	})
	var all sync.WaitGroup
	ids := make(chan sdk.TaskID, 50)
	for i := range cap(ids) {
		all.Go(func() {
			req := message(fmt.Sprint(i))
			req.Message.ContextID = fmt.Sprintf("mine-%d", i)
			result := must.Get(m.SendMessage(t.Context(), req))
			task := result.(*sdk.Task)
			require.Equal(t, fmt.Sprintf("task %s mine-%d completed you said |%[2]d", task.ID, i), line(task))
			ids <- task.ID
		})
	}
	all.Wait()
	close(ids)
	seen := map[sdk.TaskID]bool{}
	for id := range ids {
		seen[id] = true
	}
	require.Len(t, seen, 50)
	require.Len(t, m.Messages(), 50)
}
