package openaiapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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

// newTurns makes turns of a tree on a store, as a process of its own does.
func newTurns(t testing.TB, root agent.Agent, store session.Store, opts ...runner.Option) *live.Turns {
	t.Helper()
	followed := must.Get(tail.New(store))
	run := must.Get(runner.New(root, followed, append([]runner.Option{runner.WithStreaming()}, opts...)...))
	turns := must.Get(live.New(run, followed, live.WithApprover(tools.ByUser())))
	t.Cleanup(func() { require.NoError(t, turns.Close(context.Background())) })
	return turns
}

// newUsers are ann, whose token is secret, and bob.
func newUsers(t testing.TB) access.Authenticator {
	t.Helper()
	verify := must.Get(access.Secrets(map[string]string{"secret": "ann", "other": "bob"}))
	return must.Get(access.Bearer(verify))
}

func newGuard(t testing.TB) *access.Guard {
	t.Helper()
	return must.Get(access.New(access.Options{Users: newUsers(t)}))
}

// world is an API with its store and runner.
type world struct {
	testing.TB
	*Handler
	turns *live.Turns
}

func newWorld(t testing.TB, root agent.Agent, opts ...Option) *world {
	t.Helper()
	return newWorldOn(t, newTurns(t, root, sessiontest.Memory(t)), opts...)
}

func newWorldOn(t testing.TB, turns *live.Turns, opts ...Option) *world {
	t.Helper()
	handler := must.Get(New(turns, append([]Option{WithGuard(newGuard(t))}, opts...)...))
	handler.silence = time.Hour // however slow the machine is
	return &world{t, handler, turns}
}

// reply is what a client got.
type reply struct {
	Status  int
	Header  http.Header
	Content string
	Finish  string
	Arbor   wireArbor
	Usage   *wireUsage
	Error   *wireError
	Chunks  []string
	Events  []*event.Event
}

// is requires the status. A failure prints the error, and what about says.
func (r *reply) is(t testing.TB, status int, about ...any) *reply {
	t.Helper()
	require.Equal(t, status, r.Status, "%v %+v", about, r.Error)
	return r
}

// refused requires an error with the status and the code.
func (r *reply) refused(t testing.TB, status int, code string) *reply {
	t.Helper()
	require.Equal(t, code, r.is(t, status).Error.Code)
	return r
}

type change func(*http.Request)

func with(header, value string) change {
	return func(r *http.Request) { r.Header.Set(header, value) }
}

// post sends a body to a path.
func (w *world) post(ctx context.Context, path string, body any, changes ...change) *httptest.ResponseRecorder {
	data, ok := body.(string)
	if !ok {
		data = string(event.EncodeJSON(body))
	}
	r := httptest.NewRequest(http.MethodPost, "http://localhost/v1"+path, strings.NewReader(data)).WithContext(ctx)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer secret")
	for _, c := range changes {
		c(r)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec
}

// chat asks for a chat completion and reads the answer.
func (w *world) chat(ctx context.Context, body map[string]any, changes ...change) *reply {
	w.Helper()
	rec := w.post(ctx, "/chat/completions", body, changes...)
	return readReply(w, rec)
}

func readReply(t testing.TB, rec *httptest.ResponseRecorder) *reply {
	t.Helper()
	out := &reply{Status: rec.Code, Header: rec.Header()}
	type answer struct {
		wireChat
		Error *wireError `json:"error"`
	}
	take := func(data []byte) {
		a := must.JSON[answer](data)
		if a.Error != nil {
			out.Error = a.Error
		}
		for _, c := range a.Choices {
			for _, m := range []*wireMessage{c.Message, c.Delta} {
				if m != nil && m.Content != nil {
					out.Content += *m.Content
				}
			}
			if c.FinishReason != nil {
				out.Finish = *c.FinishReason
			}
		}
		if a.Arbor != nil {
			out.Events = append(out.Events, a.Arbor.Events...)
			if a.Arbor.Session != "" {
				out.Arbor = *a.Arbor
			}
		}
		if a.Usage != nil {
			out.Usage = a.Usage
		}
	}
	if !strings.HasPrefix(rec.Header().Get("Content-Type"), "text/event-stream") {
		take(rec.Body.Bytes())
		return out
	}
	for frame := range strings.SplitSeq(strings.TrimSuffix(rec.Body.String(), "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(frame, "data: ")
		if !ok {
			continue // a comment
		}
		out.Chunks = append(out.Chunks, data)
		if data != "[DONE]" {
			take([]byte(data))
		}
	}
	return out
}

// window is a chat window: it sends the whole conversation each time.
type window struct {
	*world
	model    string
	messages []map[string]any
	stream   bool
}

func (w *window) clone() *window {
	c := *w
	c.messages = append([]map[string]any(nil), w.messages...)
	return &c
}

// say sends words, and keeps the answer.
func (w *window) say(words string, changes ...change) *reply {
	w.Helper()
	w.messages = append(w.messages, map[string]any{"role": "user", "content": words})
	return w.again(changes...)
}

// again sends the conversation as it is.
func (w *window) again(changes ...change) *reply {
	w.Helper()
	out := w.chat(context.Background(), w.body(), changes...)
	if out.Content != "" {
		w.messages = append(w.messages, map[string]any{"role": "assistant", "content": out.Content})
	}
	return out
}

func (w *window) body() map[string]any {
	return map[string]any{"model": w.model, "messages": w.messages, "stream": w.stream}
}

// log reads a session of ann's.
func (w *world) log(key session.Key) []*event.Event {
	return must.All(w.turns.Store().Load(context.Background(), key, 0))
}

func ann(id string) session.Key { return session.Key{App: session.DefaultApp, User: "ann", ID: id} }

// sessions lists ann's, the latest first.
func (w *world) list() []session.Info {
	w.Helper()
	return must.Get(w.turns.Store().List(context.Background(), session.Key{User: "ann"}, session.Page{}))
}

// loopback serves handlers on loopback, each below its prefix.
func loopback(t testing.TB, handler http.Handler) (url string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func lines(s string) []string {
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}
