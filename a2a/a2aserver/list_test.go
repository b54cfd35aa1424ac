package a2aserver

import (
	"context"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
)

// A page of tasks that hold much is short, and the rest is on the next ones.
func TestPageOfLargeTasks(t *testing.T) {
	script := scripted.New()
	for range 5 {
		script.Add("a", scripted.Reply(scripted.Text("Read.")))
	}
	a, err := llmagent.New("a", "Read.", script.Model("a"))
	require.NoError(t, err)
	h := newTestServer(t, a, session.NewMemory()).RequestHandler()
	ctx := context.Background()
	for i := range 5 {
		sendTask(t, h, ctx, userMessage(fmt.Sprint("m", i), strings.Repeat("word ", maxPage/10)))
	}
	seen, pages := make(map[sdk.TaskID]bool), 0
	for req := (&sdk.ListTasksRequest{}); ; {
		list, err := h.ListTasks(ctx, req)
		require.NoError(t, err)
		require.Equal(t, 5, list.TotalSize)
		require.LessOrEqual(t, len(list.Tasks), 3)
		for _, task := range list.Tasks {
			require.False(t, seen[task.ID])
			seen[task.ID] = true
		}
		pages++
		if req.PageToken = list.NextPageToken; req.PageToken == "" {
			break
		}
	}
	require.Len(t, seen, 5)
	require.Equal(t, 2, pages)
	none := 0
	list, err := h.ListTasks(ctx, &sdk.ListTasksRequest{HistoryLength: &none})
	require.NoError(t, err)
	require.Len(t, list.Tasks, 5, "without their messages they are small")
}
