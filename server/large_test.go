package server_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
)

// TestLargeMessagesAtEveryAPI: a message that is too large for the model's window is refused with the figures and in the
// form of each API, and the session answers the next one.
func TestLargeMessagesAtEveryAPI(t *testing.T) {
	a := must.Get(llmagent.New("clerk", "You answer.", scripted.Always("clerk", scripted.Reply(scripted.Text("It is well."))),
		llmagent.WithCompaction(llmagent.Compaction{Window: 2000})))
	s := newStand(t, a, session.NewMemory())
	local, remote, n := s.listen(t), s.peers(t), 0
	ask := func(base, path, accept, body, words string) string {
		n++
		res, err := post(t.Context(), base, path, accept, strings.NewReplacer("MESSAGE", words, "NUMBER", fmt.Sprint(n)).Replace(body))
		if err != nil {
			return err.Error()
		}
		defer res.Body.Close()
		data := must.Get(io.ReadAll(res.Body))
		return string(data)
	}
	require.Contains(t, ask(local, "/api/v1/sessions", "", `{"id":"s","content":"MESSAGE"}`, "hello"), "It is well.")
	for _, c := range []struct{ base, path, body, form string }{
		{local, "/api/v1/sessions/s/turns", `{"content":"MESSAGE"}`, `: 413 .*"code":"too_large"`},
		{local, "/v1/chat/completions", `{"model":"clerk","messages":[{"role":"user","content":"MESSAGE"}]}`, `: 413 .*"error":.*"code":"too_large"`},
		{local, "/v1/responses", `{"model":"clerk","input":"MESSAGE"}`, `: 413 .*"error":.*"code":"too_large"`},
		{local, "/agui", `{"threadId":"t","runId":"rNUMBER","state":{},"messages":[{"id":"mNUMBER","role":"user","content":"MESSAGE"}],"tools":[],"context":[],"forwardedProps":{}}`, `RUN_ERROR|: 413 `},
		{remote, "/message:send", `{"message":{"messageId":"mNUMBER","contextId":"c","role":"ROLE_USER","parts":[{"text":"MESSAGE"}]}}`, `: 400 .*INVALID`},
	} {
		t.Run(c.path, func(t *testing.T) {
			for range 2 {
				accept := ""
				if c.path == "/agui" {
					accept = "text/event-stream"
				}
				refused := ask(c.base, c.path, accept, c.body, strings.Repeat("many words ", 1000))
				require.Regexp(t, c.form, refused)
				require.Regexp(t, `it has about \d+ tokens, .* and 2000 are left; nothing was stored`, refused)
				require.Contains(t, ask(c.base, c.path, accept, c.body, "hello"), "It is well.")
			}
		})
	}
}
