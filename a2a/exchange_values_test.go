package a2a_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
)

// What is small on the wire and large in memory is refused before it is read, as an
// answer that is too long is.
func TestAnswersOfMyriadsOfValues(t *testing.T) {
	task := `{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[` + strings.Repeat(`{"parts":[{}]},`, 1<<17) + `{"parts":[]}]}`
	for _, kind := range []string{"application/json", "text/event-stream"} {
		p := newWire(t, func(w http.ResponseWriter, c call) {
			w.Header().Set("Content-Type", kind)
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"task":%s}}`, c.ID, task)
			if kind != "application/json" {
				body = "data: " + body + "\n\n"
			}
			_, _ = io.WriteString(w, body)
		})
		f := newRunner(t, remotetest.Billing(t, p.URL))
		_, _, err := f.Turn("refund")
		var failed *a2a.Error
		require.ErrorAs(t, err, &failed, kind)
		require.Equal(t, a2a.CodeTooLarge, failed.Code)
		require.ErrorContains(t, err, "objects and lists")
		require.NotErrorAs(t, err, new(*agent.RefusedError), "it may have done what it was asked for")
		require.Len(t, p.made(sends), 1)
	}
}
