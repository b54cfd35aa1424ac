package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

const secret = "the-token-of-ann"

// answering is a server of which each request gets the next answer, the last one for ever.
func answering(t *testing.T, answers ...http.HandlerFunc) *Client {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers[min(int(n.Add(1)), len(answers))-1](w, r)
	}))
	t.Cleanup(s.Close)
	return must.Get(New(s.URL, WithToken(secret)))
}

func problem(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func text(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// stream answers with frames, written as "ID JSON" or "end REASON", and then breaks off.
func stream(frames ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "retry: 1000\n\nevent: state\ndata: {\"state\":\"running\",\"seq\":1}\n\n: keep-alive\n\n")
		for _, f := range frames {
			id, data, _ := strings.Cut(f, " ")
			if id == "end" {
				fmt.Fprintf(w, "event: end\ndata: {\"reason\":%q}\n\n", data)
			} else {
				fmt.Fprintf(w, "id: %s\ndata: %s\n\n", id, data)
			}
		}
		w.(http.Flusher).Flush()
		if last := frames[len(frames)-1]; !strings.HasPrefix(last, "end ") {
			panic(http.ErrAbortHandler)
		}
	}
}

// from makes an answer check where the client goes on.
func from(t *testing.T, id string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Last-Event-ID"); got != id || r.Header.Get("Authorization") != "Bearer "+secret {
			t.Errorf("the client goes on behind %q, not %q", got, id)
		}
		next(w, r)
	}
}

func words1(block, text string) string {
	return fmt.Sprintf(`{"type":"text","id":%q,"runId":"r","partial":true,"content":%q}`, block, text)
}

func whole(seq int, block, text string) string {
	return fmt.Sprintf(`%d-0 {"seq":%d,"type":"text","id":%q,"runId":"r","content":%q}`, seq, seq, block, text)
}

const (
	user  = `1-0 {"seq":1,"type":"user","id":"u","runId":"r0","content":"hi"}`
	start = `2-0 {"seq":2,"type":"harness_start","id":"h","runId":"r","agentId":"a"}`
	usage = `4-0 {"seq":4,"type":"usage","id":"n","runId":"r","inputTokens":1,"outputTokens":1}`
)

// told renders what a stream yields.
func told(t *testing.T, c *Client, after string) (lines []string, err error) {
	t.Helper()
	for e, err := range c.Watch(t.Context(), "s", "t", after) {
		if err != nil {
			return lines, err
		}
		must.Get(session.ParsePosition(e.ID))
		line := e.Event.Type()
		if d, ok := e.Event.Data.(*event.Discard); ok {
			line += fmt.Sprint(d.IDs)
		}
		if text := e.Event.Text(); text != "" {
			line += " " + text
		}
		if e.Event.Partial {
			line += "…"
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// What a reader is shown although connections break and servers are restarted.
func TestStreams(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers func(*testing.T) []http.HandlerFunc
		want    string
	}{
		"a connection breaks, and what came is told again": {func(t *testing.T) []http.HandlerFunc {
			return []http.HandlerFunc{
				from(t, "", stream(user, start, "2-1 "+words1("b", "One "), "2-2 "+words1("b", "mo"))),
				from(t, "2-0", stream("2-1 "+words1("b", "One "), "2-2 "+words1("b", "mo"), "2-3 "+words1("b", "ment."), whole(3, "b", "One moment."))),
				from(t, "3-0", stream(whole(3, "b", "One moment."), usage, "end turn")),
			}
		}, "user|harness_start|text One …|text mo…|text ment.…|text One moment.|usage"},
		"the server is restarted, and its successor asks the model again": {func(t *testing.T) []http.HandlerFunc {
			return []http.HandlerFunc{
				stream(user, start, "2-1 "+words1("b", "One "), "2-2 "+words1("b", "mo"), "end stopping"),
				problem(503, `{"code":"stopping","detail":"later","status":503}`, "Retry-After", "1"),
				from(t, "2-0", stream("2-1 "+words1("c", "Two "), "2-2 "+words1("c", "moments."), whole(3, "c", "Two moments."), usage, "end turn")),
			}
		}, "user|harness_start|text One …|text mo…|discard[b]…|text Two …|text moments.…|text Two moments.|usage"},
		"nobody shows the rest word by word": {func(t *testing.T) []http.HandlerFunc {
			return []http.HandlerFunc{
				stream(user, start, "2-1 "+words1("b", "One ")),
				stream(whole(3, "b", "One moment."), usage, "end turn"),
			}
		}, "user|harness_start|text One …|text moment.…|text One moment.|usage"},
		"another answer came meanwhile": {func(t *testing.T) []http.HandlerFunc {
			return []http.HandlerFunc{
				stream(user, start, "2-1 "+words1("b", "One ")),
				stream(whole(3, "c", "Two."), usage, "end turn"),
			}
		}, "user|harness_start|text One …|discard[b]…|text Two.|usage"},
		"deltas were left out": {func(t *testing.T) []http.HandlerFunc {
			return []http.HandlerFunc{
				stream(user, start, "2-1 "+words1("b", "One "), "2-9 "+words1("b", "ment."), whole(3, "b", "One moment."), "end turn"),
			}
		}, "user|harness_start|text One …|text ment.…|discard[b]…|text One moment."},
		"the turn ends without the answer": {func(t *testing.T) []http.HandlerFunc {
			return []http.HandlerFunc{
				stream(user, start, "2-1 "+words1("b", "One ")),
				stream("end turn"),
			}
		}, "user|harness_start|text One …|discard[b]…"},
		"the server takes words back itself": {func(t *testing.T) []http.HandlerFunc {
			return []http.HandlerFunc{
				stream(user, start, "2-1 "+words1("b", "One "), `2-2 {"type":"discard","id":"d","partial":true,"ids":["b"],"code":"x","message":"y"}`, "2-3 "+words1("c", "Two.")),
				stream(`2-2 {"type":"discard","id":"d","partial":true,"ids":["b"],"code":"x","message":"y"}`, whole(3, "c", "Two."), "end turn"),
			}
		}, "user|harness_start|text One …|discard[b]…|text Two.…|text Two."},
		"there are too many streams until the server notices that one was lost": {func(t *testing.T) []http.HandlerFunc {
			return []http.HandlerFunc{stream(user), problem(429, `{"code":"too_many","detail":"too many","status":429}`), stream(user, start, "end turn")}
		}, "user|harness_start"},
		"all was read": {func(t *testing.T) []http.HandlerFunc { return []http.HandlerFunc{text(204, "")} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := must.Get(told(t, answering(t, c.answers(t)...), ""))
			require.Equal(t, c.want, strings.Join(lines, "|"))
		})
	}
}

// Streams that cannot go on end with one error that says why.
func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer http.HandlerFunc
		is     error
		says   string
	}{
		{stream(user, "end deleted"), agent.ErrConflict, "the session was deleted"},
		{stream(user, "end revoked"), agent.ErrBadInput, "the token is no longer valid"},
		{problem(412, `{"code":"position_moved","detail":"the log ends at 3","seq":3}`), agent.ErrConflict, "the log ends at 3"},
		{stream("1-0 {"), nil, "cannot be read"},
		{stream("x {}"), agent.ErrBadInput, "cannot be read"},
		{text(200, "<html>"), nil, "is not an Arbor server: 200 OK"},
	} {
		_, err := told(t, answering(t, c.answer), "")
		require.ErrorContains(t, err, c.says)
		if c.is != nil {
			require.ErrorIs(t, err, c.is)
		}
	}
	require.ErrorIs(t, must.Err(told(t, answering(t, text(500, "")), "x")), agent.ErrBadInput)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	enough := errors.New("enough")
	for e, err := range answering(t, stream(user, start)).Follow(ctx, "s", "") {
		if cancel(enough); err != nil {
			require.ErrorIs(t, err, enough)
			require.Zero(t, e)
		}
	}
}

// A server that goes silent is left, and one that stays away is waited for as long as was said.
func TestSilence(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	var n atomic.Int64
	defer close(hold)
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > 1 {
			stream(start, "end turn")(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		id, data, _ := strings.Cut(user, " ")
		fmt.Fprintf(w, "id: %s\ndata: %s\n\n", id, data)
		w.(http.Flusher).Flush()
		<-hold
	})
	c.silence = 100 * time.Millisecond
	lines := must.Get(told(t, c, ""))
	require.Equal(t, []string{"user", "harness_start"}, lines)

	away := 0
	c = answering(t, stream(user), text(502, ""))
	c.patience, c.lost = 300*time.Millisecond, func(err error) { away++; require.ErrorIs(t, err, ErrUnreachable) }
	_, err := told(t, c, "")
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 502, refused.Status)
	require.Equal(t, 1, away, "it is told once")
}

// One clear error for each thing that can be wrong with a server, and never the token.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer http.HandlerFunc
		is     []error
		want   string
	}{
		{problem(401, `{"code":"unauthenticated","detail":"a token is needed"}`), []error{agent.ErrBadInput}, "a token is needed"},
		{problem(404, `{"code":"not_found","detail":"not found"}`), []error{agent.ErrBadInput}, "not found"},
		{problem(409, `{"code":"session_busy","detail":"a turn is under way"}`), []error{agent.ErrSessionBusy}, "a turn is under way"},
		{problem(409, `{"code":"nothing_waits","detail":"no call waits"}`), []error{agent.ErrBadInput}, "no call waits"},
		{problem(412, `{"code":"position_moved","detail":"moved","seq":7}`), []error{agent.ErrConflict}, "moved"},
		{problem(429, `{"code":"too_many","detail":"too many"}`), nil, "too many"},
		{problem(400, `{"code":"bad_request","detail":"bad","problems":[{"path":"a","message":"is wrong"},{"path":"","message":"b"}]}`), []error{agent.ErrBadInput}, "bad; a: is wrong; b"},
		{problem(500, `{"code":"internal","detail":"ask the log","instance":"42"}`), nil, "ask the log"},
		{text(404, "<html>"), []error{agent.ErrBadInput}, "ADDRESS is not an Arbor server: 404 Not Found"},
		{text(200, "<html>"), []error{agent.ErrBadInput}, "ADDRESS is not an Arbor server: 200 OK"},
		{problem(301, "", "Location", "https://elsewhere.example/"), []error{agent.ErrBadInput}, "ADDRESS is not an Arbor server: 301 Moved Permanently, to https://elsewhere.example/"},
	} {
		client := answering(t, c.answer)
		_, err := client.Begin(t.Context(), "s", Message{Content: llm.Content{Text: "hi"}})
		require.EqualError(t, err, strings.ReplaceAll(c.want, "ADDRESS", client.address))
		for _, target := range []error{agent.ErrBadInput, agent.ErrConflict, agent.ErrSessionBusy} {
			require.Equal(t, len(c.is) > 0 && c.is[0] == target, errors.Is(err, target), "%s is %s", err, target)
		}
	}
	c := must.Get(New("http://127.0.0.1:1/", WithToken(secret)))
	_, err := c.Me(t.Context())
	require.ErrorIs(t, err, ErrUnreachable)
	require.EqualError(t, err, "the server cannot be reached: http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused")

	for _, address := range []string{"", "127.0.0.1:8420", "ftp://x", "http://", "http://a:" + secret + "@x", "http://x/#code=" + secret, "http://x/?" + secret, "http://x:" + secret} {
		_, err := New(address)
		require.ErrorContains(t, err, "http://127.0.0.1:8420")
		require.NotContains(t, err.Error(), secret)
	}
	for _, opt := range []Option{nil, WithToken("a b"), WithToken("a\n"), WithPatience(-1), WithHTTPClient(nil), WithLost(nil)} {
		require.Error(t, must.Err(New("http://x", opt)))
	}
}

// The decision of a caller who may not read the session is answered without the turn, and no other request is.
func TestDecideWithoutReading(t *testing.T) {
	t.Parallel()
	client := answering(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	turn := must.Get(client.Of("ann").Decide(t.Context(), "s", "t1", Decision{CallID: "c", Approved: true}))
	require.Equal(t, &Turn{ID: "t1"}, turn)
	require.ErrorContains(t, must.Err(client.Resume(t.Context(), "s", "t1")), "is not an Arbor server: 204 No Content")
}

// A request whose answer was lost is sent again under the same name, and a session that does not
// exist begins.
func TestBegin(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex // nothing orders a request whose connection broke and the next one
	var seen []string
	note := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, r.Method+" "+r.URL.EscapedPath()+" "+r.Header.Get("If-Match")+r.Header.Get("Idempotency-Key"))
			next(w, r)
		}
	}
	lost := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	turn := text(202, `{"id":"t","session":"a/b","first":1,"seq":1,"state":"running","finishReason":"","usage":{"inputTokens":3}}`)
	c := answering(t, text(200, `{"user":"ann","tree":{"root":"desk"},"desk":true}`), note(lost), note(problem(404, `{"code":"not_found","detail":"no"}`)), note(turn), note(turn), note(turn))
	me := must.Get(c.Me(t.Context()))
	require.Equal(t, "ann desk true", fmt.Sprint(me.User, " ", me.Tree.Root, " ", me.Desk))
	got := must.Get(c.Begin(t.Context(), "a/b", Message{Request: "k"}))
	require.Equal(t, Turn{ID: "t", Session: "a/b", First: 1, Seq: 1, State: "running", Usage: llm.Usage{InputTokens: 3}}, *got)
	at := int64(12)
	must.Get(c.Begin(t.Context(), "s", Message{Request: "l", At: &at}))
	must.Get(c.Begin(t.Context(), "", Message{Request: "m"}))
	require.Equal(t, []string{"POST /api/v1/sessions/a%2Fb/turns k", "POST /api/v1/sessions/a%2Fb/turns k", "POST /api/v1/sessions k",
		`POST /api/v1/sessions/s/turns "12"l`, "POST /api/v1/sessions m"}, seen)

	require.NoError(t, got.Err())
	limit := &Turn{State: "failed", FinishReason: event.FinishReasonLimit}
	require.ErrorIs(t, limit.Err(), agent.ErrLimit)
	failed := &Turn{State: "failed", Error: &TurnError{Code: "model_error", Message: "no"}}
	require.EqualError(t, failed.Err(), "model_error: no")
	require.NotErrorIs(t, failed.Err(), agent.ErrLimit)
}
