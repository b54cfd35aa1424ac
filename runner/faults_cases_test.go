package runner_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
)

// A fault is one way in which an endpoint misbehaves, with its outcome.
type fault struct {
	name string // as docs/faults.md calls it
	only string // "streamed" or "whole": the form of answer that it concerns; both if empty

	// serve answers a request badly. Without it the connection is refused.
	serve func(b *breakage)
	opts  []openai.Option // of the model, while its endpoint is sick

	again     again
	code      llm.ErrorCode
	status    int
	retryable bool
	after     time.Duration // what the error says of the wait asked for, give or take two seconds
	waits     time.Duration // the least time between one request and the next
	shown     bool          // a consumer that streams sees a part of the answer
	want      string        // a part of the message
}

// again says who sends the request once more.
type again int

const (
	nobody     again = iota // the turn fails at once
	theAdapter              // nothing was shown; nobody notices
	theAgent                // an answer was under way; it is discarded
)

// What broken answers hold, and what must be found nowhere afterwards.
const half, wrong = "Half an answ", "707070707070"

// limit bounds answers while an endpoint is sick, so that not all 50 MB of an
// answer have to be read. Without it the bound is 16 MiB, tested in llm/openai.
const limit = 256 << 10

var faults = []fault{
	{name: "The connection is refused", again: theAdapter, code: llm.CodeUnreachable, retryable: true, want: "the connection was refused"},
	{name: "The connection is reset before an answer", serve: (*breakage).reset,
		again: theAdapter, code: llm.CodeUnreachable, retryable: true, want: "the connection broke before an answer"},
	{name: "400", serve: status(400, `{"error":{"message":"no such parameter","type":"invalid_request_error"}}`),
		code: llm.CodeBadRequest, status: 400, want: "no such parameter"},
	{name: "400, and the conversation is too long", serve: status(400, `{"error":{"message":"too long","code":"context_length_exceeded"}}`),
		code: llm.CodeContextLength, status: 400, want: "shorten the conversation"},
	{name: "401", serve: status(401, `{"error":{"message":"wrong key","code":"invalid_api_key"}}`),
		code: llm.CodeUnauthorized, status: 401, want: "OPENAI_API_KEY"},
	{name: "402", serve: status(402, `{"error":{"message":"Insufficient Balance"}}`), code: llm.CodeRateLimited, status: 402, want: "Insufficient Balance"},
	{name: "404", serve: status(404, "404 page not found"), code: llm.CodeNotFound, status: 404, want: "is OPENAI_BASE_URL right?"},
	{name: "408", serve: status(408, ""), again: theAdapter, code: llm.CodeTimeout, status: 408, retryable: true},
	{name: "409", serve: status(409, ""), again: theAdapter, code: llm.CodeBadRequest, status: 409, retryable: true},
	{name: "413", serve: status(413, "<html>too big</html>"), code: llm.CodeBadRequest, status: 413, want: "shorten the conversation"},
	{name: "422", serve: status(422, `{"detail":[{"msg":"field required"}]}`), code: llm.CodeBadRequest, status: 422, want: "field required"},
	{name: "429 without `Retry-After`", serve: status(429, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`),
		again: theAdapter, code: llm.CodeRateLimited, status: 429, retryable: true, want: "slow down"},
	{name: "429, and the quota is used up", serve: status(429, `{"error":{"message":"pay","code":"insufficient_quota"}}`),
		code: llm.CodeRateLimited, status: 429, want: "pay"},
	{name: "429 with `Retry-After` in seconds", serve: status(429, "", "Retry-After", "1"),
		again: theAdapter, code: llm.CodeRateLimited, status: 429, retryable: true, after: time.Second, waits: time.Second},
	{name: "429 with `Retry-After` as a date", serve: status(429, "", "Retry-After", "Sat, 01 Jan 2000 00:00:10 GMT", "Date", "Sat, 01 Jan 2000 00:00:09 GMT"),
		again: theAdapter, code: llm.CodeRateLimited, status: 429, retryable: true, after: time.Second, waits: time.Second},
	{name: "429 with an absurd `Retry-After`", serve: status(429, "", "Retry-After", "99999999999999999999"),
		code: llm.CodeRateLimited, status: 429, retryable: true, after: 1000 * time.Hour, want: "longer than this client waits"},
	{name: "429 whose text says how long to wait", serve: status(429, `{"error":{"message":"slow down: try again in 1.5s"}}`),
		again: theAdapter, code: llm.CodeRateLimited, status: 429, retryable: true, after: 1500 * time.Millisecond, waits: time.Second},
	{name: "500", serve: status(500, `{"error":{"message":"broken","type":"server_error"}}`),
		again: theAdapter, code: llm.CodeServer, status: 500, retryable: true, want: "broken"},
	{name: "502 with a page of HTML", serve: status(502, "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"),
		again: theAdapter, code: llm.CodeServer, status: 502, retryable: true, want: `a web page with the title "502 Bad Gateway"`},
	{name: "503", serve: status(503, "overloaded"), again: theAdapter, code: llm.CodeServer, status: 503, retryable: true, want: "overloaded"},
	{name: "Silence before the first byte", serve: (*breakage).silence,
		opts: []openai.Option{openai.WithTimeouts(llm.Timeouts{First: 5 * time.Second, Answer: 5 * time.Second})},
		code: llm.CodeTimeout, retryable: true, want: "WithTimeouts"},
	{name: "Silence in the middle of an answer", only: "streamed", serve: (*breakage).stall,
		opts:  []openai.Option{openai.WithTimeouts(llm.Timeouts{Silence: 5 * time.Second})},
		again: theAgent, code: llm.CodeTimeout, retryable: true, shown: true, want: "stalled"},
	{name: "Silence in the middle of an answer", only: "whole", serve: (*breakage).stall,
		opts: []openai.Option{openai.WithTimeouts(llm.Timeouts{Silence: 5 * time.Second})},
		code: llm.CodeTimeout, retryable: true, want: "stalled"},
	{name: "Cut off after some text", serve: func(b *breakage) { b.text(); b.cut() },
		again: theAgent, code: llm.CodeTruncated, retryable: true, shown: true, want: "cut off"},
	{name: "Cut off inside a call's arguments", serve: func(b *breakage) { b.call(false); b.cut() },
		again: theAgent, code: llm.CodeTruncated, retryable: true, want: "cut off"},
	{name: "Cut off after a complete call", serve: func(b *breakage) { b.text(); b.call(true); b.cut() },
		again: theAgent, code: llm.CodeTruncated, retryable: true, shown: true, want: "cut off"},
	{name: "An end without a finish reason or `[DONE]`", only: "streamed", serve: func(b *breakage) { b.text(); b.call(true) },
		again: theAgent, code: llm.CodeTruncated, retryable: true, shown: true, want: "without the final event"},
	{name: "An empty answer", serve: func(b *breakage) { b.write("") },
		again: theAgent, code: llm.CodeTruncated, retryable: true, want: "without the final event"},
	{name: "An unknown finish reason, such as `abort`", serve: (*breakage).abort,
		again: theAgent, code: llm.CodeServer, retryable: true, shown: true, want: "finish_reason is abort"},
	{name: "Garbage in place of JSON", serve: func(b *breakage) { b.textOrElse("{oops}", "data: {oops}\n\n") },
		code: llm.CodeBadResponse, shown: true, want: "{oops}"},
	{name: "A page of HTML with the status 200", serve: func(b *breakage) { b.write("<html><title>Please log in</title></html>") },
		code: llm.CodeBadResponse, want: `a web page with the title "Please log in"`},
	{name: "An error object in place of an answer", serve: func(b *breakage) { b.object() },
		again: theAdapter, code: llm.CodeServer, retryable: true, want: "burning"},
	{name: "An error object in the stream, after some text", only: "streamed", serve: func(b *breakage) { b.text(); b.object() },
		again: theAgent, code: llm.CodeServer, retryable: true, shown: true, want: "burning"},
	{name: "An answer of 50 MB", serve: func(b *breakage) { b.endless(50 << 20) },
		opts: []openai.Option{openai.WithMaxAnswerBytes(limit)},
		code: llm.CodeBadResponse, shown: true, want: "longer than 262144 bytes"},
}

func status(code int, body string, header ...string) func(*breakage) {
	return func(b *breakage) {
		for i := 0; i+1 < len(header); i += 2 {
			b.w.Header().Set(header[i], header[i+1])
		}
		b.w.WriteHeader(code)
		b.write(body)
	}
}

// breakage is a request that is answered badly.
type breakage struct {
	w        http.ResponseWriter
	r        *http.Request
	streamed bool
	tool     string // the tool that broken answers call
	input    string
	begun    bool
}

func (b *breakage) write(s string) { _, _ = b.w.Write([]byte(s)) } // if this fails the client has disconnected

// flush sends what is written, header and all in one piece.
func (b *breakage) flush() { _ = http.NewResponseController(b.w).Flush() }

// part writes a part of an answer: an event, or what belongs into the message of
// an answer that is not streamed.
func (b *breakage) part(delta, message string) {
	if b.streamed {
		b.w.Header().Set("Content-Type", "text/event-stream")
		b.write(`data: {"choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}` + "\n\n")
		return
	}
	if !b.begun {
		b.w.Header().Set("Content-Type", "application/json")
		b.w.Header().Set("Content-Length", "100000") // never reached
		b.write(`{"choices":[{"index":0,"message":{"role":"assistant"`)
		b.begun = true
	}
	b.write("," + message)
}

func (b *breakage) text() {
	content := fmt.Sprintf(`"content":%q`, half)
	b.part("{"+content+"}", content)
}

// textOrElse writes some text and then the rest of a stream, or a whole answer.
func (b *breakage) textOrElse(whole, rest string) {
	if !b.streamed {
		b.write(whole)
		return
	}
	b.text()
	b.write(rest)
}

// object reports an error under the status 200.
func (b *breakage) object() {
	object := `{"error":{"message":"burning","type":"server_error","code":null}}`
	if b.streamed {
		object = "data: " + object + "\n\n"
	}
	b.write(object)
}

// abort writes an answer that the endpoint gives up.
func (b *breakage) abort() {
	if !b.streamed {
		b.write(fmt.Sprintf(`{"choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"abort"}]}`, half))
		return
	}
	b.text()
	b.call(true)
	b.write(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}` + "\n\ndata: [DONE]\n\n")
}

func (b *breakage) call(complete bool) {
	arguments := fmt.Sprintf("%q", b.input)
	head := fmt.Sprintf(`"id":"call-%s","type":"function","function":{"name":%q,"arguments":`, wrong, b.tool)
	switch {
	case complete:
		b.part(`{"tool_calls":[{"index":0,`+head+arguments+`}}]}`, `"tool_calls":[{`+head+arguments+`}}]`)
	default: // a stream sends the first half in an event of its own
		begun := arguments[:len(arguments)-4]
		b.part(`{"tool_calls":[{"index":0,`+head+begun+`"}}]}`, `"tool_calls":[{`+head+begun)
	}
}

func (b *breakage) cut() {
	b.flush()
	panic(http.ErrAbortHandler)
}

// silence waits until the client has given up.
func (b *breakage) silence() { <-b.r.Context().Done() }

func (b *breakage) stall() {
	b.text()
	b.flush()
	b.silence()
}

func (b *breakage) reset() {
	conn, _, err := http.NewResponseController(b.w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(interface{ SetLinger(int) error }).SetLinger(0) // makes the close a reset
	_ = conn.Close()
}

func (b *breakage) endless(n int) {
	piece := strings.Repeat("x", 64<<10)
	if !b.streamed {
		b.write(`{"choices":[{"message":{"role":"assistant","content":"`)
	}
	for ; n > 0; n -= len(piece) {
		if b.r.Context().Err() != nil {
			return
		}
		if b.streamed {
			b.part(`{"content":"`+piece+`"}`, "")
		} else {
			b.write(piece)
		}
	}
	if !b.streamed {
		b.write(`"},"finish_reason":"stop"}]}`)
	} else {
		b.write("data: [DONE]\n\n")
	}
}

const faultsPage = "../docs/faults.md"

// TestFaultsPage compares the table of docs/faults.md with the cases above, in
// both directions. -update writes it.
func TestFaultsPage(t *testing.T) {
	page := must.Get(os.ReadFile(faultsPage))
	before, rest, ok := strings.Cut(string(page), "| the endpoint |")
	require.True(t, ok, "the page has no table of faults")
	_, after, ok := strings.Cut(rest, "\n\n")
	require.True(t, ok)
	want := before + faultTable() + "\n" + after
	if *update {
		require.NoError(t, os.WriteFile(faultsPage, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(page))
}

func faultTable() string {
	var b strings.Builder
	b.WriteString("| the endpoint | once | always | code | retryable |\n|---|---|---|---|---|\n")
	for i := range faults {
		f := &faults[i]
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` | %s |\n", f.title(), f.once(), f.always(), f.code, yesNo(f.retryable))
	}
	return b.String()
}

func (f *fault) title() string {
	switch {
	case f.only == "whole":
		return f.name + ", not streamed"
	case f.only == "streamed" && !strings.Contains(f.name, "stream"):
		return f.name + ", streamed"
	}
	return f.name
}

func (f *fault) once() string {
	switch {
	case f.again == theAgent && f.shown:
		return "back, again"
	case f.again == theAdapter && f.waits > 0:
		return "again, after that time"
	case f.again != nobody:
		return "again"
	case f.shown:
		return "back, the turn fails"
	}
	return "the turn fails"
}

func (f *fault) always() string {
	if f.again == nobody {
		return "the same"
	}
	return fmt.Sprintf("fails after %d requests", maxRequests)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
