package cli_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/access/usersfile"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
)

// A user who is taken out of the users file waits no longer at any door.
func TestServeRevokesWaitingRequests(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 100)
	thinks := scripted.Always("model", scripted.Reply(scripted.Text("Hm"), scripted.Wait(func(ctx context.Context) error {
		asked <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})))
	models := must.Get(endpoint.Start(func(string) (llm.Model, bool) { return thinks, true }))
	defer models.Close()
	home := t.TempDir()
	users := filepath.Join(home, "users.yaml")
	ann := must.Get(usersfile.Add(users, "ann", 0))
	s := invocation{home: home, env: []string{"OPENAI_BASE_URL=" + models.URL(), "OPENAI_MODEL=model"}}.serve(t, desk, "--db", ":memory:", "--users", users)

	answers := map[string]chan string{}
	for name, c := range map[string]struct{ path, body, header string }{
		"api":              {"/api/v1/sessions", `{"id":"1","content":"think"}`, "Prefer: wait=60"},
		"api stream":       {"/api/v1/sessions", `{"id":"2","content":"think"}`, "Accept: text/event-stream"},
		"chat":             {"/v1/chat/completions", `{"model":"support","messages":[{"role":"user","content":"think"}]}`, ""},
		"chat stream":      {"/v1/chat/completions", `{"model":"support","stream":true,"messages":[{"role":"user","content":"think"}]}`, ""},
		"responses":        {"/v1/responses", `{"model":"support","input":"think"}`, ""},
		"responses stream": {"/v1/responses", `{"model":"support","stream":true,"input":"think"}`, ""},
		"agui":             {"/agui", `{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":"think"}],"tools":[],"context":[],"state":{},"forwardedProps":{}}`, "Accept: text/event-stream"},
		"a2a":              {"/message:send", sending("think"), ""},
		"a2a stream":       {"/message:stream", sending("think more"), ""},
	} {
		got := make(chan string, 1)
		answers[name] = got
		req := must.Get(http.NewRequestWithContext(t.Context(), "POST", s.base+c.path, strings.NewReader(c.body)))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+ann)
		if key, value, ok := strings.Cut(c.header, ": "); ok {
			req.Header.Set(key, value)
		}
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				got <- err.Error()
				return
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			got <- resp.Status + " " + string(body)
		}()
		receive(t, asked)
	}
	require.NoError(t, usersfile.Remove(users, "ann"))
	late := time.After(patience)
	for name, got := range answers {
		select {
		case answer := <-got:
			t.Logf("%s: %s", name, answer)
			if !strings.Contains(name, "stream") && name != "agui" {
				require.Contains(t, answer, "401", name)
			}
			require.Contains(t, answer, "revoked", name)
		case <-late:
			require.Fail(t, "the request still waits", name)
		}
	}
	require.Equal(t, 0, s.stop(os.Interrupt))
}
