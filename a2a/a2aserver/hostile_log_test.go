package a2aserver

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

// oddLog makes a log that no runner has written: any events, of any runs, at any time.
func oddLog(rnd *rand.Rand) (log []*event.Event) {
	payloads := sessiontest.Payloads()
	payloads = append(payloads, &event.User{}, &event.User{Metadata: map[string]any{"a2a": "x"}}, &event.User{Metadata: map[string]any{"a2a": map[string]any{"messageId": 1, "taskId": []any{}, "chain": "x"}}},
		&event.User{Metadata: map[string]any{"a2a": map[string]any{"messageId": "m", "taskId": "1-t0.c"}}}, &event.Text{}, &event.Relay{}, &event.RelayResolved{}, &event.ToolCall{}, &event.ToolResult{},
		&event.Transfer{}, &event.Discard{}, &event.Failure{}, &event.RemoteTask{}, &event.RemoteTask{TaskID: "x", Status: "input_required"}, &event.RemoteTask{Status: "auth_required"},
		&event.HarnessEnd{FinishReason: event.FinishReasonInputRequired}, &event.HarnessEnd{FinishReason: event.FinishReasonStop}, &event.HarnessEnd{FinishReason: event.FinishReasonCanceled}, &event.HarnessEnd{FinishReason: "odd"},
		&event.Notice{Code: event.NoticeForked}, &event.Notice{Code: event.NoticeTransferLimit}, &event.Usage{InputTokens: -1}, &event.Compaction{UpTo: -1})
	times := []time.Time{{}, time.Unix(0, 0).UTC(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2500, 1, 1, 0, 0, 0, 7, time.UTC), time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)}
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	for i := range 1 + rnd.IntN(40) {
		log = append(log, &event.Event{Seq: int64(i + 1), ID: pick("", "c1", "p1", "e", fmt.Sprint("e", i)), TurnID: pick("", "t0", "t1"), RunID: pick("", "r0", "r1"), ParentID: pick("", "r0:user", "c1"),
			Scope: pick("", "", "", "s1", "r0.1/x", "./", "r1."), Agent: pick("", "a", "far", "user"), Path: pick("", "a", "a/b"), Time: times[rnd.IntN(len(times))], Data: payloads[rnd.IntN(len(payloads))]})
	}
	return log
}

// Whatever stands in stored logs, nobody else's list is hurt by it, and no operation
// panics or gives what cannot be sent.
func TestOddLogs(t *testing.T) {
	a := must.Get(llmagent.New("a", "Answer.", scripted.Always("a", scripted.Reply(scripted.Text("Yes.")))))
	store := must.Get(sqlite.Open(filepath.Join(t.TempDir(), "sessions.db")))
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	h := newTestServer(t, a, store).RequestHandler()
	ctx := t.Context()
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		key := session.ID(fmt.Sprint("c", seed))
		lease := must.Get(sessiontest.Acquire(ctx, store, key, session.Self()))
		require.NoError(t, sessiontest.Append(ctx, store, key, 0, lease, oddLog(rnd)...))
		require.NoError(t, sessiontest.Release(ctx, store, key, lease))
	}
	good := sendTask(t, h, ctx, userMessage("m", "hi"))
	seen := make(map[sdk.TaskID]bool)
	var tasks []*sdk.Task
	req := &sdk.ListTasksRequest{PageSize: 7, IncludeArtifacts: true}
	for pages := 0; ; pages++ {
		require.Less(t, pages, 200, "the list ends")
		list := must.Get(h.ListTasks(ctx, req))
		must.Get(json.Marshal(list))
		for _, task := range list.Tasks {
			require.False(t, seen[task.ID], "%s is on two pages", task.ID)
			seen[task.ID] = true
			tasks = append(tasks, task)
		}
		if req.PageToken = list.NextPageToken; req.PageToken == "" {
			break
		}
	}
	require.True(t, seen[good.ID])
	require.Greater(t, len(tasks), 60)
	for _, task := range tasks {
		got := must.Get(h.GetTask(ctx, &sdk.GetTaskRequest{ID: task.ID}))
		must.Get(json.Marshal(got))
		m := userMessage("again", "and this?")
		m.TaskID = task.ID
		_, _ = h.SendMessage(ctx, &sdk.SendMessageRequest{Message: m})
		_, _ = h.CancelTask(ctx, &sdk.CancelTaskRequest{ID: task.ID})
		m = userMessage("new", "and this?")
		m.ContextID = task.ContextID
		_, _ = h.SendMessage(ctx, &sdk.SendMessageRequest{Message: m})
	}
}
