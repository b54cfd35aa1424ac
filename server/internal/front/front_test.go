package front_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/tail"
)

type body struct {
	Name string `json:"name"`
	List []struct {
		A int `json:"a"`
	} `json:"list"`
}

func newHandler(t *testing.T) *front.Handler {
	t.Helper()
	a := must.Get(llmagent.New("solo", "", scripted.Func("m", nil)))
	store := must.Get(tail.New(sessiontest.Memory(t)))
	run := must.Get(runner.New(a, store))
	turns := must.Get(live.New(run, store))
	t.Cleanup(func() { require.NoError(t, turns.Close(context.WithoutCancel(t.Context()))) })
	verify := must.Get(access.Secrets(map[string]string{"secret": "ann"}))
	bearer := must.Get(access.Bearer(verify))
	guard := must.Get(access.New(access.Options{Users: bearer, MaxBody: 100}))
	return must.Get(front.New(front.Config{Turns: turns, Guard: guard, Prefix: "/x", Routes: []front.Route{
		{"GET", "/open", true, 0, func(c *front.Call) error { return c.JSON(200, "open for "+c.User.Name) }},
		{"GET", "/panic", false, 0, func(c *front.Call) error { panic("oh") }},
		{"POST", "/body", false, 0, func(c *front.Call) error {
			var b body
			if err := c.Decode(&b); err != nil {
				return err
			}
			return c.JSON(200, b)
		}},
		{"GET", "/sessions/{id}", false, 0, func(c *front.Call) error {
			_, err := c.Find(c.R.PathValue("id"))
			return err
		}},
		{"GET", "/busy", false, 0, func(c *front.Call) error { return fmt.Errorf("turn: %w", agent.ErrSessionBusy) }},
		{"GET", "/stream", false, 0, func(c *front.Call) error {
			s, leave, err := c.Stream()
			if err != nil {
				return err
			}
			defer leave()
			<-s.Context().Done()
			return nil
		}},
		{"GET", "/bad", false, 0, func(c *front.Call) error { return fmt.Errorf("the message is empty: %w", agent.ErrBadInput) }},
		{"GET", "/broken", false, 0, func(c *front.Call) error { return errors.New("the password of the database") }},
	}, Fail: func(c *front.Call, f *front.Fault) {
		require.NoError(t, c.JSON(f.Status, map[string]any{"code": f.Code, "detail": f.Detail, "problems": f.Problems}))
	}}))
}

func TestFront(t *testing.T) {
	d := newHandler(t)
	for _, c := range []struct {
		method, path, token, body string
		status                    int
		says                      string
	}{
		{"GET", "/x/open", "", "", 200, `"open for "`},
		{"GET", "/x//open", "secret", "", 404, "not_found"},
		{"GET", "/x/./open", "secret", "", 404, "not_found"},
		{"POST", "/x/body", "secret", "\ufeff" + `{"name":"n"}`, 200, `"name":"n"`},
		{"GET", "/x/busy", "", "", 401, "unauthenticated"},
		{"GET", "/x/busy", "secret", "", 409, "session_busy"},
		{"GET", "/x/bad", "secret", "", 400, `"the message is empty"`},
		{"GET", "/x/panic", "secret", "", 500, "internal"},
		{"GET", "/x/broken", "secret", "", 500, "internal"},
		{"GET", "/x/nothing", "secret", "", 404, "not_found"},
		{"GET", "/x/nothing", "", "", 401, "unauthenticated"},
		{"DELETE", "/x/body", "secret", "", 405, "this path allows only POST"},
		{"DELETE", "/x/busy", "secret", "", 405, "this path allows only GET, HEAD"},
		{"HEAD", "/x/stream", "secret", "", 200, ""},
		{"GET", "/x/sessions/none", "secret", "", 404, "not_found"},
		{"GET", "/x/sessions/none?user=bob", "secret", "", 403, "right"},
		{"POST", "/x/body", "secret", `{"name":"n","list":[{"a":1}]}`, 200, `"name":"n"`},
		{"POST", "/x/body", "secret", `{"nam":"n","list":[{"a":1},{"other":1}]}`, 400, `"problems":[{"path":"list[1].other","message":"is not known"},{"path":"nam","message":"is not known; did you mean \"name\"?"}]`},
		{"POST", "/x/body", "secret", `{"name":1}`, 400, `{"path":"name","message":"must be a string, not number"}`},
		{"POST", "/x/body", "secret", `{"list":[{"a":1.5}]}`, 400, `"message":"must be an integer, not number 1.5"`},
		{"POST", "/x/body", "secret", `{"name":`, 400, "is not JSON"},
		{"POST", "/x/body", "secret", `{} {}`, 400, "after top-level value"},
		{"POST", "/x/body", "secret", `{}]`, 400, "after top-level value"},
		{"POST", "/x/body", "secret", `"` + strings.Repeat("x", 200) + `"`, 413, "too_large"},
	} {
		t.Run(c.method+" "+c.path+" "+c.body[:min(len(c.body), 30)], func(t *testing.T) {
			r := httptest.NewRequest(c.method, "http://localhost"+c.path, strings.NewReader(c.body))
			r.Header.Set("Content-Type", "application/json")
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			require.Equal(t, c.status, w.Code, w.Body)
			require.Contains(t, w.Body.String(), c.says)
			require.NotContains(t, w.Body.String(), "password")
			require.NotEmpty(t, w.Header().Get("X-Request-Id"))
			if c.status == 409 {
				require.Equal(t, "1", w.Header().Get("Retry-After"))
			}
		})
	}
}

// A request with ten thousand mistakes is answered in short, and told how many more there are.
func TestMistakesAreBounded(t *testing.T) {
	var members []string
	for i := range 10_000 {
		members = append(members, fmt.Sprintf("%q:1", strings.Repeat("x", 300)+fmt.Sprint(i)))
	}
	err := front.Decode([]byte("{"+strings.Join(members, ",")+"}"), &body{})
	f := front.FaultOf(err)
	require.Len(t, f.Problems, 21)
	require.Equal(t, "and 9980 more", f.Problems[20].Message)
	require.LessOrEqual(t, len(f.Problems[0].Path), 260)
	f = front.FaultOf(front.Decode([]byte(`{"name":`+strings.Repeat("1", 300)+`}`), &body{}))
	require.LessOrEqual(t, len(f.Problems[0].Message), 260)
	require.LessOrEqual(t, len(front.FaultOf(front.BadRequest("%s", strings.Repeat("ä", 10_000))).Detail), 1100)
	require.Equal(t, []string{"a", "b"}, front.Shortened([]string{"a", "b"}))
	require.Equal(t, "and 10 more", front.Shortened(make([]string, 30))[20])
}

func TestPrefer(t *testing.T) {
	for header, want := range map[string]time.Duration{"": 0, "wait=5": 5 * time.Second, `respond-async, Wait="7"`: 7 * time.Second, "wait=900": time.Minute, "wait=-1": 0, "wait=x": 0, "wait=99999999999": time.Minute} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Prefer", header)
		require.Equal(t, want, (&front.Call{R: r}).PreferredWait(), header)
	}
}

// TestPagesOfOtherOrigins: whatever an API has at a path, and at its bare prefix too, a browser that asks whether a page
// may call is answered there, and is not sent elsewhere.
func TestPagesOfOtherOrigins(t *testing.T) {
	guard := must.Get(access.New(access.Options{Users: access.FromContext(), Origins: []string{"https://app.example.com"}}))
	for _, routes := range [][]front.Route{nil, {{Method: "POST", Path: "", Handle: func(c *front.Call) error { return c.JSON(200, "here") }}}} {
		d := must.Get(front.New(front.Config{NoTurns: true, Guard: guard, Prefix: "/x", Fail: front.FailProblem, Routes: append(routes,
			front.Route{Method: "GET", Path: "/a/{b}", Handle: func(c *front.Call) error { return c.JSON(200, "here") }})}))
		for _, path := range []string{"/x", "/x/", "/x/a/b", "/x/none"} {
			for _, method := range []string{"OPTIONS", "POST", "GET", "DELETE"} {
				r := httptest.NewRequest(method, "http://localhost"+path, nil)
				r.Header.Set("Origin", "https://app.example.com")
				r.Header.Set("Access-Control-Request-Method", "POST")
				w := httptest.NewRecorder()
				d.ServeHTTP(w, r.WithContext(access.WithUser(r.Context(), access.User{Name: "ann"})))
				require.Equal(t, "https://app.example.com", w.Header().Get("Access-Control-Allow-Origin"), "%s %s", method, path)
				require.Empty(t, w.Header().Get("Location"), "%s %s", method, path)
				if method == "POST" && routes != nil && strings.Trim(path, "/") == "x" {
					require.Equal(t, http.StatusOK, w.Code, path)
				}
				if method == "OPTIONS" {
					require.Equal(t, http.StatusNoContent, w.Code, path)
				}
			}
		}
	}
}
