package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/human/webhook"
	"github.com/agentarbor/arbor/internal/testing/must"
)

var (
	secret  = "whsec_" + base64.StdEncoding.EncodeToString([]byte("a secret of thirty-two bytes, ok"))
	secret2 = base64.StdEncoding.EncodeToString([]byte("another one of twenty-nine by"))
	session = agent.SessionKey{App: "app", User: "ann", ID: "s"}
	leg     = human.Leg{ID: "h", Session: session}
)

// signed is the signature of Standard Webhooks, written once more after its specification.
func signed(secret, id, timestamp, body string) string {
	raw, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	h := hmac.New(sha256.New, raw)
	h.Write([]byte(id + "." + timestamp + "." + body))
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

type posted struct {
	id, body string
	json     struct {
		Type      string
		Timestamp time.Time
		Data      map[string]any
	}
}

// deskServer is a desk that gives prepared answers, and checks every signature.
type deskServer struct {
	*httptest.Server
	mu      sync.Mutex
	posts   []posted
	answers []func(http.ResponseWriter) // of the next requests; then 204
	secrets []string                    // each post must be signed with all of them
}

func newDeskServer(t *testing.T) *deskServer {
	f := &deskServer{secrets: []string{secret}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		b, err := io.ReadAll(r.Body)
		p := posted{id: r.Header.Get("Webhook-Id"), body: string(b)}
		at := r.Header.Get("Webhook-Timestamp")
		var want []string
		for _, s := range f.secrets {
			want = append(want, signed(s, p.id, at, p.body))
		}
		seconds, _ := strconv.ParseInt(at, 10, 64)
		if err != nil || r.Header.Get("Webhook-Signature") != strings.Join(want, " ") || r.Header.Get("Content-Type") != "application/json" ||
			time.Since(time.Unix(seconds, 0)).Abs() > time.Minute || json.Unmarshal(b, &p.json) != nil {
			t.Errorf("%s %v", p.body, r.Header)
		}
		f.posts = append(f.posts, p)
		if len(f.answers) > 0 {
			answer := f.answers[0]
			f.answers = f.answers[1:]
			answer(w)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(f.Close)
	return f
}

func status(code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(code) }
}

func says(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) }
}

func newDesk(t *testing.T, to string, opts ...webhook.Option) *webhook.Desk {
	d := must.Get(webhook.New(to, secret, append([]webhook.Option{webhook.WithHTTP(), webhook.WithLoopback(), webhook.WithGiveUpAfter(2 * time.Minute)}, opts...)...))
	webhook.Pause(d, time.Millisecond)
	return d
}

func TestPosted(t *testing.T) {
	f := newDeskServer(t)
	d := newDesk(t, f.URL)
	f.answers = append(f.answers, says(` {"status":"connecting","targetAgent":"anna","queuePosition":0,"later":1}`))
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	u, err := d.RequestTransfer(t.Context(), human.Request{Leg: leg, From: "billing", Reason: "frustrated", RouteDecision: "human",
		GraphPath: []string{"front", "human"}, Conversation: []human.Message{{ID: "1", Author: "user", Text: "a person!", Time: at}}})
	require.NoError(t, err)
	require.Equal(t, human.Update{Status: human.Connecting, TargetAgent: "anna", QueuePosition: new(0)}, u)
	require.NoError(t, d.Send(t.Context(), leg, []human.Message{{ID: "2", Author: "user", Text: "hello?", Time: at}, {ID: "3", Author: "user", Text: "?", Time: at}}))
	require.NoError(t, d.Cancel(t.Context(), leg, "never mind"))

	to := `"handoffId":"h","session":{"app":"app","user":"ann","id":"s"}`
	for i, want := range []struct{ kind, data string }{
		{"handoff.requested", `{` + to + `,"from":"billing","reason":"frustrated","routeDecision":"human","graphPath":["front","human"],
			"conversation":[{"id":"1","author":"user","text":"a person!","time":"2026-05-04T03:02:01Z"}]}`},
		{"handoff.message", `{` + to + `,"message":{"id":"2","author":"user","text":"hello?","time":"2026-05-04T03:02:01Z"}}`},
		{"handoff.message", `{` + to + `,"message":{"id":"3","author":"user","text":"?","time":"2026-05-04T03:02:01Z"}}`},
		{"handoff.cancelled", `{` + to + `,"reason":"never mind"}`},
	} {
		got := f.posts[i]
		require.Equal(t, want.kind, got.json.Type)
		require.WithinDuration(t, time.Now(), got.json.Timestamp, time.Minute)
		data := must.Get(json.Marshal(got.json.Data))
		require.JSONEq(t, want.data, string(data))
	}
}

// TestPostedID has one ID for one thing, whoever posts it and however often, and another for
// everything else.
func TestPostedID(t *testing.T) {
	f := newDeskServer(t)
	other := leg
	other.Session.User = "ben"
	everything := func() (ids []string) {
		f.posts = nil
		d := newDesk(t, f.URL) // as after a crash
		for _, l := range []human.Leg{leg, other} {
			_, err := d.RequestTransfer(t.Context(), human.Request{Leg: l})
			require.NoError(t, err)
			require.NoError(t, d.Send(t.Context(), l, []human.Message{{ID: "1"}, {ID: "2\r\n"}}))
			require.NoError(t, d.Cancel(t.Context(), l, ""))
		}
		for _, p := range f.posts {
			ids = append(ids, p.id)
		}
		return ids
	}
	first := everything()
	require.Len(t, first, 8)
	seen := map[string]bool{}
	for _, id := range first {
		require.Regexp(t, `^msg_[0-9a-f]{32}$`, id)
		require.False(t, seen[id])
		seen[id] = true
	}
	require.Equal(t, first, everything())
}

func TestRetries(t *testing.T) {
	f := newDeskServer(t)
	d := newDesk(t, f.URL)
	f.answers = []func(http.ResponseWriter){status(500), status(429), status(503),
		func(w http.ResponseWriter) { panic(http.ErrAbortHandler) }, says("ok")}
	u, err := d.RequestTransfer(t.Context(), human.Request{Leg: leg})
	require.NoError(t, err)
	require.Equal(t, human.Update{Status: human.Queued}, u, "what is no JSON object says nothing")
	require.Len(t, f.posts, 5)
	for _, p := range f.posts {
		require.Equal(t, f.posts[0].id, p.id)
		require.Equal(t, f.posts[0].body, p.body)
	}
}

// TestRefused is not tried again, and the errors tell what can be done.
func TestRefused(t *testing.T) {
	for code, want := range map[int]error{400: human.ErrUnavailable, 401: human.ErrUnavailable, 404: human.ErrUnavailable, 410: human.ErrUnavailable, 302: human.ErrUnavailable} {
		f := newDeskServer(t)
		d := newDesk(t, f.URL+"/?token=hidden")
		f.answers = []func(http.ResponseWriter){status(code), status(code), status(code)}
		_, err := d.RequestTransfer(t.Context(), human.Request{Leg: leg})
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, "127.0.0.1: the webhook answered "+strconv.Itoa(code))
		for _, err := range []error{d.Send(t.Context(), leg, []human.Message{{ID: "1"}, {ID: "2"}}), d.Cancel(t.Context(), leg, "")} {
			require.Error(t, err)
			require.Equal(t, code == 410, errors.Is(err, human.ErrGone), "%v", err)
			require.NotContains(t, err.Error(), "hidden")
		}
		require.Len(t, f.posts, 3)
	}
}

func TestAnswerIsNoUpdate(t *testing.T) {
	f := newDeskServer(t)
	f.answers = append(f.answers, says(`{"status":"busy"}`))
	_, err := newDesk(t, f.URL).RequestTransfer(t.Context(), human.Request{Leg: leg})
	require.ErrorContains(t, err, `not "busy"`)
	require.Len(t, f.posts, 1)
}

// TestGivesUp does not say that a desk that cannot be reached is not available: it may be later.
func TestGivesUp(t *testing.T) {
	f := newDeskServer(t)
	f.Close()
	d := newDesk(t, f.URL+"/?token=hidden", webhook.WithGiveUpAfter(time.Minute))
	webhook.Pause(d, time.Hour) // the time would be over before the next attempt
	_, err := d.RequestTransfer(t.Context(), human.Request{Leg: leg})
	require.Error(t, err)
	require.NotErrorIs(t, err, human.ErrUnavailable)
	require.NotContains(t, err.Error(), "hidden")

	f = newDeskServer(t)
	f.answers = append(f.answers, status(503))
	d = newDesk(t, f.URL, webhook.WithGiveUpAfter(time.Minute))
	webhook.Pause(d, time.Hour)
	_, err = d.RequestTransfer(t.Context(), human.Request{Leg: leg})
	require.ErrorContains(t, err, "answered 503", "why, and not only that time is up")
	require.NotErrorIs(t, err, human.ErrUnavailable)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, newDesk(t, f.URL).Cancel(ctx, leg, ""), context.Canceled)
}

// TestGuard does not reach this machine unless it is told to.
func TestGuard(t *testing.T) {
	f := newDeskServer(t)
	d := must.Get(webhook.New(f.URL, secret, webhook.WithHTTP()))
	_, err := d.RequestTransfer(t.Context(), human.Request{Leg: leg})
	require.ErrorIs(t, err, human.ErrUnavailable)
	require.ErrorContains(t, err, "not allowed")
	require.Empty(t, f.posts)
	d = must.Get(webhook.New(f.URL, secret, webhook.WithHTTP(), webhook.WithAddresses(netip.MustParsePrefix("127.0.0.1/32"))))
	require.NoError(t, d.Cancel(t.Context(), leg, ""))
}

// TestTLS reaches a desk whose certificate only the program's own configuration trusts.
func TestTLS(t *testing.T) {
	f := newDeskServer(t)
	private := httptest.NewUnstartedServer(f.Config.Handler)
	private.Config.ErrorLog = log.New(io.Discard, "", 0)
	private.StartTLS()
	defer private.Close()
	trusted := private.Client().Transport.(*http.Transport).TLSClientConfig
	require.NoError(t, newDesk(t, private.URL, webhook.WithTLS(trusted)).Cancel(t.Context(), leg, ""))
	require.Len(t, f.posts, 1)
	stranger := newDesk(t, private.URL)
	webhook.Pause(stranger, time.Hour)
	require.ErrorContains(t, stranger.Cancel(t.Context(), leg, ""), "certificate")
	require.Len(t, f.posts, 1)
}

func TestRotation(t *testing.T) {
	f := newDeskServer(t)
	f.secrets = []string{secret, secret2}
	d := newDesk(t, f.URL, webhook.WithSecrets(secret2))
	require.NoError(t, d.Cancel(t.Context(), leg, ""))
	h := d.Handler(func(context.Context, agent.SessionKey, human.Event) error { return nil })
	for i, s := range f.secrets {
		require.Equal(t, 204, deskPost{id: strconv.Itoa(i), secret: s}.post(h).Code)
	}
}

func TestNewRefused(t *testing.T) {
	for _, c := range []struct {
		url, secret, says string
		opts              []webhook.Option
	}{
		{"", secret, "not absolute", nil},
		{"https:///hidden", secret, "not absolute", nil},
		{"https://x/%zzhidden", secret, "not absolute", nil},
		{"http://desk.example.com/hidden", secret, "must be https", nil},
		{"ftp://desk.example.com/hidden", secret, "must be https", []webhook.Option{webhook.WithHTTP()}},
		{"https://me:hidden@desk.example.com/", secret, "credentials", nil},
		{"https://desk.example.com/", "", "secret 1", nil},
		{"https://desk.example.com/", "whsec_", "secret 1", nil},
		{"https://desk.example.com/", "hidden!", "secret 1", nil},
		{"https://desk.example.com/", "aGlkZGVu", "secret 1", nil},
		{"https://desk.example.com/", secret, "secret 2", []webhook.Option{webhook.WithSecrets("hidden!")}},
		{"https://desk.example.com/", secret, "option 0 is nil", []webhook.Option{nil}},
		{"https://desk.example.com/", secret, "above 0", []webhook.Option{webhook.WithGiveUpAfter(0)}},
	} {
		_, err := webhook.New(c.url, c.secret, c.opts...)
		require.ErrorContains(t, err, c.says, c.url)
		require.NotContains(t, err.Error(), "hidden")
		require.NotContains(t, err.Error(), "aGlkZGVu")
	}
}

// TestVector accepts what the JavaScript library signed, at the time at which it did.
func TestVector(t *testing.T) {
	var v struct {
		Secret, ID, Body, Signature string
		Timestamp                   int64
	}
	readJSON(t, "testdata/vector.json", &v)
	require.Equal(t, v.Signature, signed(v.Secret, v.ID, strconv.FormatInt(v.Timestamp, 10), v.Body))
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Unix(v.Timestamp, 0)))
		d := must.Get(webhook.New("https://desk.example.com/", v.Secret))
		var heard []human.Event
		h := d.Handler(func(_ context.Context, key agent.SessionKey, e human.Event) error {
			require.Equal(t, session, key)
			heard = append(heard, e)
			return nil
		})
		post := func(body string) int {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			r.Header.Set("Webhook-Id", v.ID)
			r.Header.Set("Webhook-Timestamp", strconv.FormatInt(v.Timestamp, 10))
			r.Header.Set("Webhook-Signature", v.Signature)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		require.Equal(t, 401, post(v.Body+" "))
		require.Equal(t, 204, post(v.Body))
		require.Equal(t, []human.Event{{ID: "e1", HandoffID: "h", Text: "Grüße ☎"}}, heard)
	})
}
