package openai

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
)

// The tests of this file run in bubbles of synctest: time is faked, and a
// goroutine that outlives its call would fail the test with a deadlock.

// bubble runs f with a model whose endpoint is h, reached through pipes.
func bubble(t *testing.T, h http.HandlerFunc, f func(t *testing.T, m *Model), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client, stop := pipeClient(h)
		m, err := New("m", append([]Option{WithBaseURL("http://pipe/v1"), WithAPIKey(testKey), WithHTTPClient(client), WithRetries(0)}, opts...)...)
		require.NoError(t, err)
		f(t, m)
		stop()
		synctest.Wait()
	})
}

// stall sends part of a body and then nothing until the client has gone.
func stall(part string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		if part != "" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, part)
			flush(w)
		}
		<-r.Context().Done()
	}
}

func TestTimeouts(t *testing.T) {
	slowly := func(n int, pause time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			for range n {
				_, _ = io.WriteString(w, ": still here\n\n")
				flush(w)
				select {
				case <-time.After(pause):
				case <-r.Context().Done():
					return
				}
			}
			_, _ = io.WriteString(w, text("ok")+done)
		}
	}
	within := func(own llm.Timeouts) *llm.Request {
		req := *helloS
		req.Timeouts = own
		return &req
	}
	cases := map[string]struct {
		h     http.HandlerFunc
		req   *llm.Request
		after time.Duration
		want  string
	}{
		"first byte":                {stall(""), helloS, 5 * time.Minute, "no answer began within 5m0s; raise the limit with WithTimeouts or the key timeouts"},
		"of the request":            {stall(""), within(llm.Timeouts{First: 20 * time.Minute, Answer: time.Hour}), 20 * time.Minute, "no answer began within 20m0s"},
		"idle of the request":       {stall(text("a")), within(llm.Timeouts{Silence: 2 * time.Minute}), 2 * time.Minute, "nothing came for 2m0s"},
		"attempt of the request":    {stall(""), within(llm.Timeouts{First: -1, Answer: time.Hour}), time.Hour, "not complete within 1h0m0s"},
		"whole answers take longer": {stall(""), hello, 10 * time.Minute, "not complete within 10m0s"},
		"first word":                {stall(delta(`{"role":"assistant","content":""}`, "")), helloS, 5 * time.Minute, "no answer began within 5m0s"},
		"idle":                      {stall(text("a")), helloS, time.Minute, "the answer stalled: nothing came for 1m0s"},
		"idle, whole":               {stall(`{"choices":[`), hello, time.Minute, "stalled"},
		"attempt":                   {slowly(1000, 30*time.Second), helloS, 10 * time.Minute, "not complete within 10m0s"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, c.h, func(t *testing.T, m *Model) {
				start := time.Now()
				e := fails(t, m, c.req)
				require.Equal(t, c.after, time.Since(start))
				require.Equal(t, llm.CodeTimeout, e.Code)
				require.True(t, e.Retryable)
				require.Contains(t, e.Message, c.want)
			}, WithRetries(3))
		})
	}
	t.Run("comments keep it alive", func(t *testing.T) {
		bubble(t, slowly(8, 59*time.Second), func(t *testing.T, m *Model) {
			got, err := ask(t, m, helloS)
			require.NoError(t, err)
			require.Equal(t, "ok", got.Text)
		})
	})
	t.Run("a long prompt is read before the first word", func(t *testing.T) {
		bubble(t, slowly(2, 4*time.Minute), func(t *testing.T, m *Model) {
			got, err := ask(t, m, helloS)
			require.NoError(t, err)
			require.Equal(t, "ok", got.Text)
		})
	})
	t.Run("no limits", func(t *testing.T) {
		bubble(t, slowly(3, 24*time.Hour), func(t *testing.T, m *Model) {
			_, err := ask(t, m, helloS)
			require.NoError(t, err)
		}, WithTimeouts(llm.Timeouts{First: -1, Silence: -1, Answer: -1}))
	})
	t.Run("a slow consumer is no silence", func(t *testing.T) {
		bubble(t, bodyOf(text("a")+text("b")+done), func(t *testing.T, m *Model) {
			for _, err := range m.Generate(t.Context(), helloS) {
				require.NoError(t, err)
				time.Sleep(2 * time.Minute)
			}
		})
	})
	t.Run("connect", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tr := &http.Transport{DialContext: endWithAttempt((&pipeListener{}).dial)} // nobody accepts
			m, err := New("m", WithBaseURL("http://pipe/v1"), WithHTTPClient(&http.Client{Transport: tr}), WithRetries(1), WithRetryDelay(0, 0))
			require.NoError(t, err)
			start := time.Now()
			e := fails(t, m, helloS)
			require.Equal(t, 20*time.Second, time.Since(start), "twice, for a connection may be tried again")
			require.Equal(t, llm.CodeTimeout, e.Code)
			require.Contains(t, e.Message, "no connection within 10s")
		})
	})
}

// Usage and [DONE] may never come; the answer is whole without them.
func TestStallAfterFinishReason(t *testing.T) {
	bubble(t, stall(text("all")+delta(`{}`, "stop")), func(t *testing.T, m *Model) {
		start := time.Now()
		got, err := ask(t, m, helloS)
		require.NoError(t, err)
		require.Equal(t, "all", got.Text)
		require.Equal(t, afterFinish, time.Since(start))
	})
}

// An endpoint that keeps the connection open after [DONE] costs little.
func TestOpenAfterDone(t *testing.T) {
	bubble(t, stall(text("all")+done), func(t *testing.T, m *Model) {
		start := time.Now()
		for c, err := range m.Generate(t.Context(), helloS) {
			require.NoError(t, err)
			if c.Finish != "" {
				require.Zero(t, time.Since(start), "the terminal chunk does not wait")
			}
		}
		require.Equal(t, 100*time.Millisecond, time.Since(start))
	})
}

func TestConnectionIsUsedAgain(t *testing.T) {
	conns := map[string]bool{}
	h := func(w http.ResponseWriter, r *http.Request) {
		conns[r.RemoteAddr] = true
		_, _ = io.ReadAll(r.Body)
		if r.Header.Get("Accept") == "text/event-stream" {
			bodyOf(text("a")+done)(w, r)
		} else {
			jsonOf(`{"choices":[{"message":{"content":"a"}}]}`)(w, r)
		}
	}
	m := serve(t, h)
	for range 5 {
		for _, req := range []*llm.Request{hello, helloS} {
			_, err := ask(t, m.Named("other"), req)
			require.NoError(t, err)
		}
	}
	require.Len(t, conns, 1)
}

func TestCancel(t *testing.T) {
	for name, part := range map[string]string{"before the answer": "", "within": text("a")} {
		t.Run(name, func(t *testing.T) {
			bubble(t, stall(part), func(t *testing.T, m *Model) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(time.Second, cancel)
				_, err := collect(ctx, m, helloS)
				require.Equal(t, context.Canceled, err)

				ctx, cancel = context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err = collect(ctx, m, hello)
				require.Equal(t, context.DeadlineExceeded, err)

				_, err = collect(ctx, m, hello)
				require.Equal(t, context.DeadlineExceeded, err, "and nothing is sent")
			}, WithRetries(5))
		})
	}
}

func TestCancelWhileWaitingForARetry(t *testing.T) {
	bubble(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(503)
	}, func(t *testing.T, m *Model) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		time.AfterFunc(10*time.Second, func() { cancel(errors.New("reason")) })
		start := time.Now()
		_, err := collect(ctx, m, helloS)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "HTTP 503", "budgets do not charge for a request that is over")
		require.Equal(t, 10*time.Second, time.Since(start))
	}, WithRetries(5))
}

func TestBreakingOutEndsTheRequest(t *testing.T) {
	gone := make(chan struct{})
	bubble(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		stall(text("I")+text("b"))(w, r)
	}, func(t *testing.T, m *Model) {
		for c, err := range m.Generate(t.Context(), helloS) {
			require.NoError(t, err)
			require.Equal(t, "I", c.Text)
			break
		}
		<-gone
	})
}

// Answers with each status in turn, then well; returns when each request came.
func statuses(codes []int, header http.Header) (http.HandlerFunc, *[]time.Time) {
	var at []time.Time
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		at = append(at, time.Now())
		if len(at) > len(codes) {
			bodyOf(text("ok")+done)(w, r)
			return
		}
		for k, v := range header {
			w.Header()[k] = v
		}
		w.WriteHeader(codes[len(at)-1])
	}, &at
}

func TestWhatIsTriedAgain(t *testing.T) {
	for _, status := range []int{408, 409, 429, 500, 502, 503, 504, 529} {
		h, at := statuses([]int{status, status}, nil)
		bubble(t, h, func(t *testing.T, m *Model) {
			got, err := ask(t, m, helloS)
			require.NoError(t, err)
			require.Equal(t, "ok", got.Text)
			require.Len(t, *at, 3)
		}, WithRetries(2))
	}
	for _, status := range []int{301, 400, 401, 402, 403, 404, 413, 422} {
		h, at := statuses([]int{status}, nil)
		bubble(t, h, func(t *testing.T, m *Model) {
			require.Equal(t, status, fails(t, m, helloS).Status)
			require.Len(t, *at, 1)
		}, WithRetries(2))
	}
	// Once an answer has begun nothing is repeated, however it goes on.
	for _, part := range []string{"", text("a"), text("a") + "data: {\"error\":\"x\"}\n\n"} {
		n := 0
		bubble(t, func(w http.ResponseWriter, r *http.Request) {
			n++
			cutAfter(part)(w, r)
		}, func(t *testing.T, m *Model) {
			for _, req := range []*llm.Request{hello, helloS} {
				n = 0
				fails(t, m, req)
				require.Equal(t, 1, n)
			}
		}, WithRetries(2))
	}
	// An error in place of an answer has shown nobody anything, and is tried again
	// as if its status had said so.
	role := delta(`{"role":"assistant","content":""}`, "")
	call := toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{"}}`)
	for body, requests := range map[string]int{
		"data: {\"error\":\"x\"}\n\n":                                          3,
		role + call + "data: {\"error\":{\"message\":\"x\",\"code\":503}}\n\n": 3,
		"data: {\"error\":{\"message\":\"x\",\"code\":400}}\n\n":               1,
		`{"error":{"message":"x","code":429}}`:                                 3,
		`{"error":{"message":"x","code":"invalid_api_key"}}`:                   1,
	} {
		n := 0
		bubble(t, func(w http.ResponseWriter, r *http.Request) {
			n++
			if body[0] == '{' {
				jsonOf(body)(w, r)
			} else {
				bodyOf(body)(w, r)
			}
		}, func(t *testing.T, m *Model) {
			e := fails(t, m, helloS)
			require.Equal(t, requests, n, body)
			require.Equal(t, requests > 1, e.Retryable)
		}, WithRetries(2), WithRetryDelay(0, 0))
	}
	// A connection that broke before that is tried again.
	n := 0
	bubble(t, func(w http.ResponseWriter, r *http.Request) {
		if n++; n < 3 {
			panic(http.ErrAbortHandler)
		}
		bodyOf(text("ok")+done)(w, r)
	}, func(t *testing.T, m *Model) {
		_, err := ask(t, m, helloS)
		require.NoError(t, err)
	}, WithRetries(2))
}

func TestRetriesAreCounted(t *testing.T) {
	h, at := statuses([]int{500, 500, 500, 500}, nil)
	bubble(t, h, func(t *testing.T, m *Model) {
		require.Contains(t, fails(t, m, helloS).Message, "(tried 3 times)")
		require.Len(t, *at, 3)
	}, WithRetries(2))
	h, at = statuses([]int{500}, nil)
	bubble(t, h, func(t *testing.T, m *Model) {
		require.NotContains(t, fails(t, m, helloS).Message, "tried")
		require.Len(t, *at, 1)
	}, WithRetries(0))
}

func TestBackoffIsJitteredAndBounded(t *testing.T) {
	h, at := statuses([]int{500, 500, 500, 500, 500, 500}, nil)
	var waits [][]time.Duration
	for range 20 {
		*at = nil
		bubble(t, h, func(t *testing.T, m *Model) {
			_, err := ask(t, m, helloS)
			require.NoError(t, err)
			var w []time.Duration
			for i := range len(*at) - 1 {
				w = append(w, (*at)[i+1].Sub((*at)[i]))
			}
			waits = append(waits, w)
		}, WithRetries(6), WithRetryDelay(time.Second, 4*time.Second))
	}
	different := false
	for _, w := range waits {
		for i, bound := range []time.Duration{1, 2, 4, 4, 4, 4} {
			require.LessOrEqual(t, w[i], bound*time.Second)
			different = different || w[i] != waits[0][i]
		}
	}
	require.True(t, different)
}

func TestRetryAfterIsObeyed(t *testing.T) {
	cases := map[string]struct {
		header http.Header
		wait   time.Duration // -1: not waited for
	}{
		"seconds":      {http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		"at the limit": {http.Header{"Retry-After": {"60"}}, time.Minute},
		"milliseconds": {http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"2"}}, 1500 * time.Millisecond},
		"date":         {http.Header{"Retry-After": {"Sat, 01 Jan 2000 00:00:09 GMT"}, "Date": {"Sat, 01 Jan 2000 00:00:00 GMT"}}, 9 * time.Second},
		"past date":    {http.Header{"Retry-After": {"Sat, 01 Jan 2000 00:00:00 GMT"}, "Date": {"Sat, 01 Jan 2000 00:00:09 GMT"}}, 0},
		"duration":     {http.Header{"Retry-After": {"1m0s"}}, time.Minute},
		"ISO date":     {http.Header{"Retry-After": {"2000-01-01T00:00:09Z"}, "Date": {"Sat, 01 Jan 2000 00:00:00 GMT"}}, 9 * time.Second},
		"since 1970":   {http.Header{"Retry-After": {"1800000009"}, "Date": {"Fri, 15 Jan 2027 08:00:00 GMT"}}, 9 * time.Second}, // cloudfoundry/cloud_controller_ng#2544
		"resets":       {http.Header{"X-Ratelimit-Reset-Requests": {"42s"}, "X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Tokens": {"50"}, "X-Ratelimit-Remaining-Tokens": {"9"}}, 42 * time.Second},
		"reset date":   {http.Header{"Anthropic-Ratelimit-Tokens-Reset": {"2000-01-01T00:00:09Z"}, "Anthropic-Ratelimit-Tokens-Remaining": {"0"}, "Date": {"Sat, 01 Jan 2000 00:00:00 GMT"}}, 9 * time.Second},
		"draft":        {http.Header{"Ratelimit": {`"default";r=0;t=30`}}, 30 * time.Second},
		"draft, left":  {http.Header{"Ratelimit": {`"default";r=10;t=30`}}, 0},
		"older draft":  {http.Header{"Ratelimit": {"limit=100, remaining=0, reset=30"}}, 30 * time.Second},
		"words":        {http.Header{"Retry-After": {"7 seconds"}}, 7 * time.Second},
		"Azure":        {http.Header{"X-Ms-Retry-After-Ms": {"1500"}}, 1500 * time.Millisecond},
		"zero, resets": {http.Header{"Retry-After": {"0"}, "X-Ratelimit-Reset": {"3600"}, "X-Ratelimit-Remaining": {"0"}}, 0},
		"zero":         {http.Header{"Retry-After": {"0"}}, 0},
		"too long":     {http.Header{"Retry-After": {"61"}}, -1},
		"absurd":       {http.Header{"Retry-After": {"1e300"}}, -1},
		"far date":     {http.Header{"Retry-After": {"Fri, 31 Dec 9999 23:59:59 GMT"}}, -1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h, at := statuses([]int{429}, c.header)
			bubble(t, h, func(t *testing.T, m *Model) {
				_, err := ask(t, m, helloS)
				if c.wait < 0 {
					require.ErrorContains(t, err, "longer than this client waits")
					require.Len(t, *at, 1)
					return
				}
				require.NoError(t, err)
				require.Len(t, *at, 2)
				require.Equal(t, c.wait, (*at)[1].Sub((*at)[0]))
			}, WithRetries(2), WithRetryDelay(0, 0))
		})
	}
	h, at := statuses([]int{429}, http.Header{"Retry-After": {"61"}})
	bubble(t, h, func(t *testing.T, m *Model) {
		_, err := ask(t, m, helloS)
		require.NoError(t, err)
		require.Equal(t, 61*time.Second, (*at)[1].Sub((*at)[0]))
	}, WithRetries(2), WithMaxRetryAfter(2*time.Minute))
}

func TestLog(t *testing.T) {
	var log bytes.Buffer
	h, _ := statuses([]int{503}, http.Header{"X-Echo": {testKey}})
	bubble(t, h, func(t *testing.T, m *Model) {
		_, err := ask(t, m, helloS)
		require.NoError(t, err)
	}, WithRetries(1), WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	require.Contains(t, log.String(), `level=WARN msg="model call is tried again" model=m endpoint=pipe/v1/chat/completions failed=1`)
	require.Contains(t, log.String(), "attempt=2")
	require.NotContains(t, log.String(), testKey)
}
