package a2aserver

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/oddbytes"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sqlite"
)

// TestServedBytes is FuzzServed with what is too large for it.
func TestServedBytes(t *testing.T) {
	readAgain, accepted := newServedReader(t)
	for _, odd := range oddbytes.Large() {
		for _, body := range messagesWith(odd) {
			readAgain(t, []byte(body))
		}
	}
	require.Greater(t, *accepted, len(oddbytes.Large()), "most of them are")
}

// FuzzServed sends any request to a tree that repeats what it is told. What is accepted
// can be listed and fetched, also from another server of the file, and what is refused
// is no failure of the server.
func FuzzServed(f *testing.F) {
	for _, odd := range oddbytes.JSON() {
		for _, body := range messagesWith(odd) {
			f.Add([]byte(body))
		}
	}
	readAgain, _ := newServedReader(f)
	f.Fuzz(readAgain)
}

// messagesWith returns requests that hold what may be JSON.
func messagesWith(odd string) []string {
	send := func(message string) string {
		return rpcBody("SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER",`+message+`}}`)
	}
	return []string{
		send(`"parts":[{"text":` + string(event.EncodeJSON("x"+odd)) + `}]`),
		send(`"parts":[{"text":"hi"},{"data":` + odd + `,"metadata":{"a":` + odd + `}}]`),
		send(`"parts":[{"text":"hi"}],"metadata":{"a":` + odd + `}`),
		rpcBody("SendMessage", `{"message":{"messageId":`+odd+`,"role":"ROLE_USER","parts":[{"text":"hi"}],"extensions":`+odd+`},"metadata":{"a":`+odd+`}}`),
	}
}

func newServedReader(f testing.TB) (readAgain func(*testing.T, []byte), accepted *int) {
	accepted = new(int)
	path := filepath.Join(f.TempDir(), "sessions.db")
	serve := func() (session.Store, http.Handler) {
		store := must.Get(sqlite.Open(path))
		f.Cleanup(func() { _ = store.Close() })
		root := must.Get(agent.New("root", "Repeats", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
			return func(yield func(*event.Event, error) bool) {
				said := inv.Message().PlainText()
				if yield(&event.Event{Data: &event.Text{Content: said}, More: true}, nil) {
					yield(&event.Event{Data: &event.Finish{Output: json.RawMessage(strings.TrimPrefix(said, "x"))}}, nil)
				}
			}
		}))
		s := must.Get(New(root, store))
		f.Cleanup(func() { _ = s.Close(context.Background()) })
		return store, s
	}
	store, first := serve()
	_, second := serve()
	ask := func(t *testing.T, h http.Handler, body string) (answer struct {
		Result json.RawMessage
		Error  *struct{ Code int }
	}) {
		r := httptest.NewRequest("POST", "/rpc", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2A-Version", "1.0")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
			return answer
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), "%.300s", w.Body)
		if answer.Error != nil {
			require.NotEqual(t, -32603, answer.Error.Code, "%.300s", w.Body)
		}
		return answer
	}
	return func(t *testing.T, body []byte) {
		answer := ask(t, first, string(body))
		var result struct{ Task *struct{ ID string } }
		if answer.Result != nil && json.Unmarshal(answer.Result, &result) == nil && result.Task != nil {
			*accepted++
			for _, h := range []http.Handler{first, second} {
				require.Nil(t, ask(t, h, rpcBody("GetTask", `{"id":`+string(event.EncodeJSON(result.Task.ID))+`}`)).Error)
				listed := ask(t, h, rpcBody("ListTasks", `{"includeArtifacts":true,"historyLength":10}`))
				require.Nil(t, listed.Error)
				require.Contains(t, string(listed.Result), result.Task.ID)
			}
		}
		infos := must.Get(store.List(t.Context(), session.Key{}, session.Page{}))
		for _, info := range infos {
			for _, e := range must.All(store.Load(t.Context(), info.Key, 0)) {
				require.NotEqual(t, event.TypeUnreadable, e.Type())
			}
			require.NoError(t, store.Delete(t.Context(), info.Key))
		}
	}, accepted
}
