package openaiapi

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
)

// FuzzResponses sends bodies, ids and positions of all kinds: the answer is what was asked for, or one clear error.
func FuzzResponses(f *testing.F) {
	w := newWorld(f, newDesk(f).root)
	known := w.respond(says("refund")).Response
	for _, body := range []map[string]any{
		says("hello"), says("hello", "stream", true), says("hello", "conversation", known.Conversation.ID), says("hello", "previous_response_id", known.ID),
		says([]any{approval(known.Output[1], true)}, "previous_response_id", known.ID), says([]any{map[string]any{"role": "user", "content": []any{map[string]any{"type": "input_text", "text": "x"}}}}),
		says("hello", "background", true, "store", true, "metadata", map[string]any{"a": "b"}, "arbor", map[string]any{"events": true}),
	} {
		f.Add(string(event.EncodeJSON(body)), known.ID, "true", "0")
	}
	f.Add(`{"input":null,"model":"support"}`, "resp_$41-7~a:b.c", "x", "18014398509481983")
	f.Add("[]", "resp_"+strings.Repeat("$", 9), "true", "268435455")
	f.Fuzz(func(t *testing.T, body, id, stream, after string) {
		if strings.Contains(body, "think") { // which takes its time
			return
		}
		w := &world{t, w.Handler, w.turns}
		clear := func(got *responded) {
			require.Less(t, got.Status, 500, "%+v", got.Error)
			if got.Status != http.StatusOK {
				require.NotEmpty(t, got.Error.Message)
				require.NotEmpty(t, got.Error.Code)
			}
		}
		got := readResponded(t, w.post(t.Context(), "/responses", body))
		clear(got)
		if got.Events != nil {
			newReader(t).read(got.Events...).whole()
		}
		if got.Response != nil && got.Response.Store {
			clear(w.get(got.Response.ID, -1))
		}
		query := url.Values{"stream": {stream}, "starting_after": {after}}.Encode()
		for _, id := range []string{id, known.ID} {
			if path := "/responses/" + url.PathEscape(id); !strings.Contains(path, "..") {
				clear(w.request(http.MethodGet, path+"?"+query))
			}
		}
	})
}
