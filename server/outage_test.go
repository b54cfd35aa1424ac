package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// unwritable is a store that can be read, and written unless it is full.
type unwritable struct {
	session.Store
	full atomic.Bool
}

func (s *unwritable) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if s.full.Load() {
		return session.Lease{}, session.Unavailable(errors.New("the disk of db.example is full"))
	}
	return s.Store.Write(ctx, key, w)
}

// TestOutage: while nothing can be stored, the server says that it is not ready, clients are told to come back, and read what
// there is. No address reaches them.
func TestOutage(t *testing.T) {
	store := &unwritable{Store: sessiontest.Memory(t)}
	s := serveOn(t, newDesk(t), store)
	for range 2 {
		require.Equal(t, 200, s.health(t, "/readyz"), "it takes a lease, and gives it back")
	}
	s.say(t, "s", "hello")
	store.full.Store(true)
	require.Equal(t, 200, s.health(t, "/healthz"))
	require.Equal(t, 503, s.health(t, "/readyz"))
	for _, path := range []string{"/sessions", "/sessions/s/turns"} {
		a := s.do(t, "ann", "POST", path, `{"content":"hello"}`)
		require.Equal(t, 503, a.status, string(a.body))
		require.Equal(t, "store_unavailable", a.code(t))
		require.NotEmpty(t, a.header.Get("Retry-After"))
		require.NotContains(t, string(a.body), "db.example")
	}
	require.Equal(t, 200, s.get(t, "ann", "/sessions/s/events").status)
	store.full.Store(false)
	require.Equal(t, 200, s.health(t, "/readyz"))
	s.say(t, "s", "hello")
}

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
		return string(must.Get(io.ReadAll(res.Body)))
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
