package agui

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/tail"
	"github.com/agentarbor/arbor/tools"
)

// world is an API on loopback with its store and runner.
type world struct {
	testing.TB
	turns   *live.Turns
	handler *Handler
	url     string
	runs    int
}

func newTurns(t testing.TB, root agent.Agent, store session.Store, opts ...runner.Option) *live.Turns {
	t.Helper()
	followed := must.Get(tail.New(store))
	run := must.Get(runner.New(root, followed, opts...))
	return must.Get(live.New(run, followed, live.WithApprover(tools.ByUser())))
}

func newWorld(t testing.TB, turns *live.Turns, opts ...Option) *world {
	t.Helper()
	verify := must.Get(access.Secrets(map[string]string{"secret": "ann", "other": "bob"}))
	bearer := must.Get(access.Bearer(verify))
	guard := must.Get(access.New(access.Options{Users: bearer}))
	handler := must.Get(New(turns, append([]Option{WithGuard(guard)}, opts...)...))
	at := httptest.NewServer(handler)
	t.Cleanup(func() {
		require.NoError(t, turns.Close(context.Background()))
		at.Close()
	})
	return &world{TB: t, turns: turns, handler: handler, url: at.URL + "/agui"}
}

// streaming is a world whose models are streamed, in memory.
func streaming(t testing.TB, root agent.Agent, opts ...runner.Option) *world {
	return newWorld(t, newTurns(t, root, sessiontest.Memory(t), append(opts, runner.WithStreaming())...))
}

func (w *world) key(thread string) session.Key {
	return session.Key{App: session.DefaultApp, User: "ann", ID: thread}
}

// log returns the stored events of a thread.
func (w *world) log(thread string) []*event.Event {
	return must.All(w.turns.Store().Load(context.Background(), w.key(thread), 0))
}

// to fills in what commands of ann's page to the API have in common.
func (w *world) to(c peerCommand) peerCommand {
	c.URL, c.Headers = w.url, map[string]string{"Authorization": "Bearer secret"}
	if c.Thread == "" {
		c.Thread = "t1"
	}
	if c.Op == "" {
		c.Op = "run"
	}
	if !strings.HasPrefix(c.Page, w.Name()) { // the process of the clients is that of other tests, too
		c.Page = w.Name() + c.Page + c.Thread
	}
	if c.Run == "" {
		w.runs++
		c.Run = "run-" + strconv.Itoa(w.runs)
	}
	return c
}

// says is a message of the user's.
func says(id, text string) []map[string]any {
	return []map[string]any{{"id": id, "role": "user", "content": text}}
}

// types are the types of events, in their order.
func types(events []map[string]any) (all []string) {
	for _, e := range events {
		all = append(all, e["type"].(string))
	}
	return all
}

func last(events []map[string]any) map[string]any { return events[len(events)-1] }

// post sends a body and returns the status and the events, or what else is answered.
func (w *world) post(path, body string) (status int, events []map[string]any, answer string) {
	w.Helper()
	r := must.Get(http.NewRequest(http.MethodPost, w.url+path, strings.NewReader(body)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer secret")
	res := must.Get(http.DefaultClient.Do(r))
	defer res.Body.Close()
	var out strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := res.Body.Read(buf)
		out.Write(buf[:n])
		if err != nil {
			break
		}
	}
	for frame := range strings.SplitSeq(out.String(), "\n\n") {
		if data, ok := strings.CutPrefix(frame, "data: "); ok {
			e := must.JSON[map[string]any](data)
			events = append(events, e)
		}
	}
	return res.StatusCode, events, out.String()
}
