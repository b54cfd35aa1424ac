package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/human/webhook"
	"github.com/agentarbor/arbor/internal/testing/must"
)

func readJSON(t *testing.T, file string, v any) {
	b := must.Get(os.ReadFile(file))
	require.NoError(t, json.Unmarshal(b, v))
}

// deskPost is a post of the desk. Empty fields get valid values.
type deskPost struct {
	id, secret, body, timestamp, signature, method string
}

func body(event string) string {
	return `{"type":"handoff.event","timestamp":"2026-01-02T03:04:05Z","data":{"session":{"app":"app","user":"ann","id":"s"},` + event + `}}`
}

func (p deskPost) request(target string) *http.Request {
	or := func(s *string, other string) {
		if *s == "" {
			*s = other
		}
	}
	or(&p.id, "1")
	or(&p.secret, secret)
	or(&p.body, body(`"id":"e1","handoffId":"h","text":"hello"`))
	or(&p.timestamp, strconv.FormatInt(time.Now().Unix(), 10))
	or(&p.signature, signed(p.secret, p.id, p.timestamp, p.body))
	or(&p.method, http.MethodPost)
	r := httptest.NewRequest(p.method, target, strings.NewReader(p.body))
	r.RequestURI = ""
	r.Header.Set("Webhook-Id", p.id)
	r.Header.Set("Webhook-Timestamp", p.timestamp)
	r.Header.Set("Webhook-Signature", p.signature)
	return r
}

func (p deskPost) post(h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, p.request("/"))
	return w
}

// sessionOf is the other end of a handler: a handoff that refuses what cannot follow and counts
// an event once, as a runner does.
type sessionOf struct {
	mu     sync.Mutex
	calls  int
	state  human.Controller
	events map[string]bool
	texts  []string
	fail   error
}

func (s *sessionOf) deliver(_ context.Context, key agent.SessionKey, e human.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	switch {
	case s.fail != nil:
		return s.fail
	case key != session || e.HandoffID != "h" || s.state.Status().Final():
		return fmt.Errorf("%w: %s", human.ErrGone, e.HandoffID)
	case s.events[e.ID]:
		return nil
	}
	if e.Status != "" && e.Status != s.state.Status() {
		way := s.state.Way(e.Status)
		if way == nil {
			return &human.TransitionError{From: s.state.Status(), To: e.Status}
		}
		for _, status := range way {
			if err := s.state.Apply(human.Step{Status: status}); err != nil {
				return err
			}
		}
	}
	if s.events == nil {
		s.events = map[string]bool{}
	}
	s.events[e.ID] = true
	s.texts = append(s.texts, e.Text)
	return nil
}

func deskAt(t testing.TB, opts ...webhook.Option) *webhook.Desk {
	return must.Get(webhook.New("https://desk.example.com/", secret, opts...))
}

func TestHandler(t *testing.T) {
	var s sessionOf
	server := httptest.NewServer(deskAt(t).Handler(s.deliver))
	defer server.Close()
	post := func(id, event string) int {
		resp, err := server.Client().Do(deskPost{id: id, body: body(event)}.request(server.URL))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	require.Equal(t, 204, post("1", `"id":"1","handoffId":"h","status":"connected","targetAgent":"anna"`))
	require.Equal(t, 204, post("2", `"id":"2","handoffId":"h","text":"hello"`))
	require.Equal(t, 204, post("2", `"id":"2","handoffId":"h","text":"hello"`), "the answer was lost")
	require.Equal(t, 409, post("3", `"id":"3","handoffId":"h","status":"ringing"`), "it comes too late")
	require.Equal(t, 410, post("4", `"id":"4","handoffId":"other","text":"hello"`))
	require.Equal(t, 204, post("5", `"id":"5","handoffId":"h","status":"completed"`))
	require.Equal(t, 410, post("6", `"id":"6","handoffId":"h","text":"one more thing"`))
	require.Equal(t, []string{"", "hello", ""}, s.texts)
	require.Equal(t, 6, s.calls, "what was delivered before is not delivered again")
}

func TestHandlerRefuses(t *testing.T) {
	var s sessionOf
	h := deskAt(t).Handler(s.deliver)
	at := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
	ours := deskBody(t)
	for name, c := range map[string]struct {
		post deskPost
		code int
		says string
	}{
		"another secret":    {deskPost{secret: secret2}, 401, "does not match"},
		"no version":        {deskPost{signature: "v2," + signed(secret, "1", at(0), "")[3:]}, 401, "does not match"},
		"half a signature":  {deskPost{signature: "v1,"}, 401, "does not match"},
		"garbage":           {deskPost{signature: " , ,,v1 v1,\x80"}, 401, "does not match"},
		"stale":             {deskPost{timestamp: at(-6 * time.Minute)}, 401, "five minutes"},
		"from the future":   {deskPost{timestamp: at(6 * time.Minute)}, 401, "five minutes"},
		"end of time":       {deskPost{timestamp: "9223372036854775807"}, 401, "five minutes"},
		"beginning of time": {deskPost{timestamp: "-9223372036854775808"}, 401, "five minutes"},
		"no time":           {deskPost{timestamp: "now"}, 401, "malformed"},
		"long id":           {deskPost{id: strings.Repeat("x", 300)}, 401, "malformed"},
		"large":             {deskPost{body: strings.Repeat(" ", 256<<10+1)}, 413, "larger than the limit"},
		"GET":               {deskPost{method: http.MethodGet}, 405, "POST"},
		"no JSON":           {deskPost{body: "hello"}, 400, "not a JSON object"},
		"other type":        {deskPost{body: ours}, 400, `type must be "handoff.event"`},
		"no data":           {deskPost{body: `{"type":"handoff.event"}`}, 400, "JSON"},
		"no session":        {deskPost{body: `{"type":"handoff.event","data":{"id":"1","handoffId":"h","text":"x"}}`}, 400, "data.session"},
		"odd session":       {deskPost{body: `{"type":"handoff.event","data":{"id":"1","handoffId":"h","text":"x","session":"s"}}`}, 400, "data.session"},
		"odd status":        {deskPost{body: body(`"id":"1","handoffId":"h","status":"asleep"`)}, 400, `"asleep"`},
		"nothing said":      {deskPost{body: body(`"id":"1","handoffId":"h"`)}, 400, "needs a status"},
	} {
		w := c.post.post(h)
		require.Equal(t, c.code, w.Code, name)
		require.Contains(t, w.Body.String(), c.says, name)
		require.NotContains(t, w.Body.String(), "whsec", name)
	}
	r := deskPost{}.request("/")
	r.Header.Del("Webhook-Id")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, 401, w.Code)
	r = deskPost{}.request("/")
	r.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, 400, w.Code, "the rest of the body did not come")
	require.Zero(t, s.calls)
	require.Equal(t, 204, deskPost{timestamp: at(-4 * time.Minute), body: body(`"id":"1","handoffId":"h","status":"connected"`)}.post(h).Code)
}

func TestHandlerWaitsForNoBody(t *testing.T) {
	d := deskAt(t)
	webhook.Hurry(d)
	server := httptest.NewServer(d.Handler(func(context.Context, agent.SessionKey, human.Event) error { return nil }))
	defer server.Close()
	conn := must.Get(net.Dial("tcp", server.Listener.Addr().String()))
	defer conn.Close()
	_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: desk.example.com\r\nContent-Length: 4\r\n\r\n{")
	require.NoError(t, err)
	answer := must.Get(io.ReadAll(conn))
	require.Contains(t, string(answer), "408 Request Timeout")
}

// deskBody returns the body of a post to the desk, which the handler must refuse even with a valid signature.
func deskBody(t *testing.T) string {
	f := newDeskServer(t)
	require.NoError(t, newDesk(t, f.URL).Cancel(t.Context(), leg, ""))
	return f.posts[0].body
}

func TestHandlerErrors(t *testing.T) {
	var log bytes.Buffer
	var s sessionOf
	h := deskAt(t, webhook.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Handler(s.deliver)
	for err, code := range map[error]int{
		fmt.Errorf("s: %w", agent.ErrSessionBusy):            503,
		fmt.Errorf("s: %w", agent.ErrConflict):               503,
		fmt.Errorf("s: %w", human.ErrGone):                   410,
		&human.TransitionError{From: "ended", To: "ringing"}: 409,
		fmt.Errorf("key hidden: %w", agent.ErrBadInput):      400,
		errors.New("password=hidden"):                        500,
	} {
		s.fail = err
		w := deskPost{}.post(h)
		require.Equal(t, code, w.Code, err)
		require.Equal(t, code == 503, w.Header().Get("Retry-After") != "")
		require.NotContains(t, w.Body.String(), "hidden")
	}
	require.Contains(t, log.String(), "hidden", "it is in the log, for those who run the server")
	require.NotContains(t, log.String(), "hello")
	s.fail = nil
	require.Equal(t, 204, deskPost{}.post(h).Code, "the same again, after it failed")
	require.Equal(t, []string{"hello"}, s.texts)
}

// TestHandlerHangUp delivers an event whose desk did not wait for the answer.
func TestHandlerHangUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var got error
	h := deskAt(t).Handler(func(ctx context.Context, _ agent.SessionKey, _ human.Event) error {
		cancel()
		got = ctx.Err()
		return nil
	})
	h.ServeHTTP(httptest.NewRecorder(), deskPost{}.request("/").WithContext(ctx))
	require.NoError(t, got)
}

// TestHandlerForgets delivers a request again only when its signature has long been too old, or
// after a restart, and then the event is known.
func TestHandlerForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sessionOf
		d := deskAt(t)
		h := d.Handler(s.deliver)
		first := deskPost{timestamp: strconv.FormatInt(time.Now().Add(5*time.Minute).Unix(), 10)}
		require.Equal(t, 204, first.post(h).Code)
		for range 10 {
			time.Sleep(time.Minute - time.Millisecond)
			require.Equal(t, 204, first.post(h).Code)
			require.Equal(t, 1, s.calls)
		}
		time.Sleep(time.Minute)
		require.Equal(t, 401, first.post(h).Code)

		for i := range 9000 {
			require.Equal(t, 204, deskPost{id: fmt.Sprint("n", i)}.post(h).Code)
		}
		calls := s.calls
		require.Equal(t, 204, deskPost{id: "n0"}.post(h).Code)
		require.Equal(t, calls, s.calls)
		require.Equal(t, 204, deskPost{id: "n0"}.post(d.Handler(s.deliver)).Code)
		require.Equal(t, calls+1, s.calls)
		require.Equal(t, []string{"hello"}, s.texts)
	})
}

func FuzzHandler(f *testing.F) {
	f.Add([]byte(body(`"id":"e1","handoffId":"h","text":"hello"`)))
	f.Add([]byte(body(`"id":"e1","handoffId":"h","status":"queued","queuePosition":1,"estimatedWaitTime":1e9`)))
	f.Add([]byte(`{"type":"handoff.event","data":null}`))
	f.Add([]byte(`{"type":"handoff.event","data":[{}]}`))
	f.Add([]byte(strings.Repeat("[", 20000)))
	d := deskAt(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var heard []human.Event
		h := d.Handler(func(_ context.Context, key agent.SessionKey, e human.Event) error {
			require.NotEmpty(t, key.ID)
			heard = append(heard, e)
			return nil
		})
		at := strconv.FormatInt(time.Now().Unix(), 10)
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(b))
		r.Header.Set("Webhook-Id", "1")
		r.Header.Set("Webhook-Timestamp", at)
		r.Header.Set("Webhook-Signature", signed(secret, "1", at, string(b)))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if len(heard) == 0 {
			require.Equal(t, 400, w.Code)
			require.Less(t, w.Body.Len(), 1000)
			return
		}
		require.Equal(t, 204, w.Code)
		require.NoError(t, heard[0].Validate())
		again := must.Get(json.Marshal(heard[0]))
		var e human.Event
		require.NoError(t, json.Unmarshal(again, &e))
	})
}
