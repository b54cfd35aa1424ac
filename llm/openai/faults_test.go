package openai

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goopenai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
)

// The fault matrix: whatever an endpoint does, one clear error comes of it, with
// the right code, and nothing that was not whole.
func TestFaultMatrix(t *testing.T) {

	object := func(message, kind, code string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%q}}`, message, kind, code)
	}
	cases := map[string]struct {
		h     http.HandlerFunc
		code  llm.ErrorCode
		http  int
		retry bool
		want  string
		after time.Duration
	}{
		"400":               {status(400, object("bad thing", "invalid_request_error", "")), llm.CodeBadRequest, 400, false, "Bad Request: bad thing", 0},
		"400 context":       {status(400, object("This model's maximum context length is 8192 tokens", "invalid_request_error", "context_length_exceeded")), llm.CodeContextLength, 400, false, "shorten the conversation", 0},
		"400 llama.cpp":     {status(400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`), llm.CodeContextLength, 400, false, "shorten", 0},
		"400 text":          {status(400, "no\nsuch\tthing"), llm.CodeBadRequest, 400, false, "no such thing", 0},
		"400 nothing":       {status(400, ""), llm.CodeBadRequest, 400, false, "without a message", 0},
		"401":               {status(401, object("Incorrect API key provided: "+testKey, "invalid_request_error", "invalid_api_key")), llm.CodeUnauthorized, 401, false, "Incorrect API key provided: [secret] (invalid_api_key); is OPENAI_API_KEY right", 0},
		"403":               {status(403, `{"detail":"Forbidden"}`), llm.CodeUnauthorized, 403, false, "Forbidden: Forbidden; is OPENAI_API_KEY right", 0},
		"404":               {status(404, "404 page not found"), llm.CodeNotFound, 404, false, "is OPENAI_BASE_URL right? It usually ends in /v1. Does the endpoint serve this model?", 0},
		"404 no tools":      {status(404, object("No endpoints found that support tool use.", "", "")), llm.CodeNotFound, 404, false, "set OPENAI_MODEL to another model", 0},
		"400 no tools":      {status(400, object("registry.ollama.ai/library/gemma3:4b does not support tools", "api_error", "")), llm.CodeBadRequest, 400, false, "set OPENAI_MODEL to another model", 0},
		"404 responses":     {status(404, object("This model is only supported in v1/responses and not in v1/chat/completions.", "", "")), llm.CodeNotFound, 404, false, "set OPENAI_API=responses", 0},
		"500 as number":     {status(500, `{"error":500,"message":"it is down"}`), llm.CodeServer, 500, true, "Internal Server Error: it is down", 0},
		"401 OAuth":         {status(401, `{"error":"invalid_token","error_description":"it is expired"}`), llm.CodeUnauthorized, 401, false, "invalid_token: it is expired", 0},
		"405":               {status(405, ""), llm.CodeNotFound, 405, false, "is OPENAI_BASE_URL right?", 0},
		"redirect":          {status(301, "", "Location", "https://other.example/v1/chat/completions?token=x"), llm.CodeNotFound, 301, false, "it redirects to other.example/v1/chat/completions; set OPENAI_BASE_URL", 0},
		"408":               {status(408, ""), llm.CodeTimeout, 408, true, "Request Timeout", 0},
		"409":               {status(409, ""), llm.CodeBadRequest, 409, true, "Conflict", 0},
		"413":               {status(413, "<html>too big"), llm.CodeBadRequest, 413, false, "a web page; shorten the conversation", 0},
		"422":               {status(422, `{"detail":[{"loc":["body","messages"],"msg":"field required"}]}`), llm.CodeBadRequest, 422, false, "body.messages: field required", 0},
		"422 lists":         {status(422, `{"detail":[{"loc":["body","messages"],"msg":"field required"},{"loc":["body",0],"msg":"not right"}]}`), llm.CodeBadRequest, 422, false, "body.messages: field required; body.0: not right", 0},
		"429 place":         {status(429, `{"error":{"message":"no more","code":"insufficient_quota","loc":"eu","metadata":"x"}}`), llm.CodeRateLimited, 429, false, "Too Many Requests: no more (ins", 0},
		"429":               {status(429, object("slow down", "", "rate_limit_exceeded")), llm.CodeRateLimited, 429, true, "slow down", 0},
		"429 quota":         {status(429, object("pay", "", "insufficient_quota")), llm.CodeRateLimited, 429, false, "pay (insufficient_quota)", 0},
		"429 spent":         {status(429, object("Budget exceeded", "", "")), llm.CodeRateLimited, 429, false, "nothing more is to be had", 0},
		"429 budget":        {status(429, object("Budget exceeded", "", ""), "Retry-After", "3"), llm.CodeRateLimited, 429, true, "Budget exceeded", 3 * time.Second},
		"429 seconds":       {status(429, "", "Retry-After", "3"), llm.CodeRateLimited, 429, true, "", 3 * time.Second},
		"429 date":          {status(429, "", "Date", "Mon, 02 Nov 2026 10:00:00 GMT", "Retry-After", "Tue, 03 Nov 2026 10:00:00 GMT"), llm.CodeRateLimited, 429, true, "it asks to wait 2", 24 * time.Hour},
		"429 no retry":      {status(429, "", "X-Should-Retry", "false"), llm.CodeRateLimited, 429, false, "Too Many Requests", 0},
		"429 in an event":   {status(429, "event: error\ndata: {\"error\":{\"message\":\"no more\",\"code\":\"insufficient_quota\"}}\n\n"), llm.CodeRateLimited, 429, false, "Too Many Requests: no more (ins", 0}, // openclaw/openclaw#76444
		"429 event, lines":  {status(429, "event: error\ndata: {\"error\":\ndata: {\"message\":\"no more\",\"code\":\"insufficient_quota\"}}\n\ndata: [DONE]\n\n"), llm.CodeRateLimited, 429, false, "Too Many Requests: no more (ins", 0},
		"429 event, text":   {status(429, "data: no more credits\n\n"), llm.CodeRateLimited, 429, true, "Too Many Requests: no more credits", 0},
		"429 no data":       {status(429, "event: error happened\n\n"), llm.CodeRateLimited, 429, true, "error happened", 0},
		"429 BOM":           {status(429, "\ufeff{\"error\":{\"message\":\"no more\",\"code\":\"insufficient_quota\"}}"), llm.CodeRateLimited, 429, false, "Too Many Requests: no more (ins", 0},
		"429 detail":        {status(429, `{"detail":{"message":"no more","code":"insufficient_quota"}}`), llm.CodeRateLimited, 429, false, "Too Many Requests: no more (ins", 0},
		"429 as a text":     {status(429, `{"error":"{\"error\":{\"message\":\"no more\",\"code\":\"insufficient_quota\"}}"}`), llm.CodeRateLimited, 429, false, "Too Many Requests: no more (ins", 0},
		"400 quoted quota":  {status(400, `{"error":"failed for input {\"error\":{\"role\":\"user\",\"code\":\"insufficient_quota\"}}"}`), llm.CodeBadRequest, 400, false, "insufficient_quota", 0},
		"400 quoted type":   {status(400, `{"error":"failed for input {'message':'x','type':'rate_limit_error'}"}`), llm.CodeBadRequest, 400, false, "rate_limit_error", 0},
		"429 other reset":   {status(429, `{"metadata":{"headers":{"X-RateLimit-Remaining":"49","X-RateLimit-Reset":"4000000000000"}}}`), llm.CodeRateLimited, 429, true, "", 0},
		"429 absurd":        {status(429, "", "Retry-After", "99999999999999999999"), llm.CodeRateLimited, 429, true, "longer than this client waits", 1000 * time.Hour},
		"429 negative":      {status(429, "", "Retry-After", "-5"), llm.CodeRateLimited, 429, true, "", 0},
		"429 NaN":           {status(429, "", "Retry-After", "nan"), llm.CodeRateLimited, 429, true, "", 0},
		"429 infinite":      {status(429, "", "Retry-After", "inf"), llm.CodeRateLimited, 429, true, "", 0},
		"429 nonsense":      {status(429, "", "Retry-After", "soon"), llm.CodeRateLimited, 429, true, "", 0},
		"500 no images":     {status(500, object("image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", "server_error", "")), llm.CodeBadRequest, 500, false, "mmproj", 0},
		"500":               {status(500, object("broken", "server_error", "")), llm.CodeServer, 500, true, "broken", 0},
		"502 HTML":          {status(502, "<html><head><title>502 Bad\nGateway</title></head><body>"+repeat("x", 1000)), llm.CodeServer, 502, true, `a web page with the title "502 Bad Gateway"`, 0},
		"503":               {status(503, "", "Retry-After", "1.5"), llm.CodeServer, 503, true, "Service Unavailable", 1500 * time.Millisecond},
		"529":               {status(529, "overloaded"), llm.CodeServer, 529, true, "status 529: overloaded", 0},
		"reset":             {reset, llm.CodeUnreachable, 0, true, "the connection broke before an answer", 0},
		"closed":            {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, llm.CodeUnreachable, 0, true, "the connection broke before an answer", 0},
		"empty":             {func(http.ResponseWriter, *http.Request) {}, llm.CodeTruncated, 0, true, "without the final event of the chat-completions protocol", 0},
		"cut at once":       {cutAfter(""), llm.CodeTruncated, 0, true, "cut off (unexpected EOF)", 0},
		"cut after text":    {cutAfter(text("par")), llm.CodeTruncated, 0, true, "cut off", 0},
		"cut in a line":     {cutAfter(text("par") + "data: {\"choi"), llm.CodeTruncated, 0, true, "cut off", 0},
		"end in a line":     {bodyOf(text("par") + "data: {\"choi"), llm.CodeTruncated, 0, true, "without the final event", 0},
		"cut in arguments":  {cutAfter(toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{\"a\""}}`)), llm.CodeTruncated, 0, true, "cut off", 0},
		"cut after a call":  {cutAfter(toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}`)), llm.CodeTruncated, 0, true, "cut off", 0},
		"end after a call":  {bodyOf(toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}`)), llm.CodeTruncated, 0, true, "without the final event", 0},
		"end in JSON":       {jsonOf(`{"choices":[{"message":{"content":"a`), llm.CodeTruncated, 0, true, "cut off", 0},
		"garbage":           {bodyOf(text("a") + "data: {oops}\n\n" + done), llm.CodeBadResponse, 0, false, "{oops}", 0},
		"error in stream":   {bodyOf(text("a") + "data: " + object("burning "+testKey, "server_error", "") + "\n\n"), llm.CodeServer, 0, true, "burning [secret]", 0},
		"redirect nowhere":  {status(300, ""), llm.CodeNotFound, 300, false, "is OPENAI_BASE_URL right", 0},
		"key split":         {status(400, repeat("x", 290)+testKey+repeat("y", 100)), llm.CodeBadRequest, 400, false, "x[secret]y", 0},
		"402 out of credit": {status(402, object("Insufficient Balance", "", "")), llm.CodeRateLimited, 402, false, "Payment Required: Insufficient Balance", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, req := range []*llm.Request{hello, helloS} {
				got, err := ask(t, serve(t, c.h), req)
				var e *llm.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, c.code, e.Code)
				require.Equal(t, c.http, e.Status)
				require.Equal(t, c.retry, e.Retryable)
				require.Contains(t, e.Message, c.want)
				require.InDelta(t, c.after, e.RetryAfter, float64(2*time.Second))
				require.Regexp(t, `^127\.0\.0\.1:\d+/v1/chat/completions: `, e.Message)
				require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), testKey)
				require.Less(t, len(e.Message), 1000)
				require.Empty(t, got.Calls)
			}
		})
	}
}

// status serves a fixed body under a status.
func status(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// TestBasicCredentials: an endpoint that quotes the header of a request quotes the credentials of its address in base64,
// and some addresses have a token in place of a user.
func TestBasicCredentials(t *testing.T) {
	for _, user := range []*url.Userinfo{url.UserPassword("ann", "hunter22"), url.User("tok-123456"), url.UserPassword("tok-123456", ""),
		url.UserPassword("tok-123456", "x-oauth-basic"), url.User("wrong")} {
		quotes := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name, password, _ := r.BasicAuth()
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprintf(w, `{"error":{"message":"wrong: %s, %s %s"}}`, r.Header.Get("Authorization"), name, password)
		}))
		address := must.Get(url.Parse(quotes.URL))
		address.User = user
		e := fails(t, must.Get(New("m", WithBaseURL(address.String()))), hello)
		quotes.Close()
		require.Contains(t, e.Message, "wrong: Basic [secret]", "a word stays")
		require.NotContains(t, e.Message, "hunter22")
		require.NotContains(t, e.Message, "tok-123456")
	}
}

// TestReported: what the endpoint reported itself is the cause, without secrets.
func TestReported(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"a status":            status(429, `{"error":{"message":"pay for `+testKey+`","type":"billing","code":"insufficient_quota"}}`),
		"within the answer":   bodyOf(`{"error":{"message":"pay for ` + testKey + `","type":"billing","code":"insufficient_quota"}}`),
		"a number, no object": status(500, `{"detail":"pay for `+testKey+`","type":"billing","code":7}`),
	} {
		e := fails(t, serve(t, h), helloS)
		var reported *goopenai.APIError
		require.ErrorAs(t, e, &reported, name)
		require.Equal(t, "billing", reported.Type, name)
		require.Contains(t, []any{"insufficient_quota", "7"}, reported.Code, name)
		require.Equal(t, "pay for [secret]", reported.Message, name)
		require.Equal(t, e.Status, reported.HTTPStatusCode, name)
	}
	e := fails(t, serve(t, status(502, "<html><title>Bad gateway</title>")), helloS)
	require.NoError(t, e.Err, "a page reports nothing")
}

// reset closes the connection so that the client gets a TCP reset.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

func TestRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	m, err := New("m", WithBaseURL("http://user:hunter22@"+addr+"/v1?sig=topsecret"), WithRetries(1), WithRetryDelay(0, 0))
	require.NoError(t, err)
	e := fails(t, m, helloS)
	require.Equal(t, llm.CodeUnreachable, e.Code)
	require.ErrorIs(t, e, syscall.ECONNREFUSED)
	require.Contains(t, e.Message, addr+"/v1/chat/completions: the connection was refused")
	require.Contains(t, e.Message, "is the endpoint running, and is OPENAI_BASE_URL right?")
	require.Contains(t, e.Message, "(tried 2 times)")
	for err := error(e); err != nil; err = errors.Unwrap(err) {
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), "hunter22")
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), "topsecret")
	}
}

func TestWrongScheme(t *testing.T) {
	m := serve(t, bodyOf(done))
	m, err := New("m", WithBaseURL("https://"+strings.TrimSuffix(m.endpoint().where, "/chat/completions")), WithRetries(3))
	require.NoError(t, err)
	e := fails(t, m, helloS)
	require.Equal(t, llm.CodeUnreachable, e.Code)
	require.False(t, e.Retryable)
	require.Contains(t, e.Message, "it speaks HTTP, not HTTPS")
}

func TestUnknownHost(t *testing.T) {
	dns := &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}
	client := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) { return nil, dns })}
	m, err := New("m", WithBaseURL("http://nowhere.invalid/v1"), WithHTTPClient(client))
	require.NoError(t, err)
	e := fails(t, m, hello)
	require.Equal(t, llm.CodeUnreachable, e.Code)
	require.False(t, e.Retryable)
	require.Contains(t, e.Message, "nowhere.invalid/v1/chat/completions: the host's name was not resolved")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An answer of 50 MB, or without end, is given up at the limit.
func TestHugeAnswers(t *testing.T) {
	const mb = 1 << 20
	var written atomic.Int64
	forever := func(unit string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for range 50 * mb / len(unit) {
				if _, err := io.WriteString(w, unit); err != nil {
					return
				}
				written.Add(int64(len(unit)))
			}
		}
	}
	line := text(repeat("x", 1000))
	cases := map[string]http.HandlerFunc{
		"text":     forever(line),
		"comments": forever(": " + repeat("x", 1000) + "\n"),
		"one line": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "data: ")
			forever(repeat("x", 1000))(w, r)
		},
		"one event": forever("data: [\n"),
		"json": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"`)
			forever(repeat("x", 1000))(w, r)
		},
		"arguments": forever(toolDelta(`{"index":0,"id":"1","function":{"name":"f","arguments":"` + repeat("x", 1000) + `"}}`)),
		"spaces":    forever(repeat(" ", 1000)),
	}
	for name, h := range cases {
		t.Run(name, func(t *testing.T) {
			for _, req := range []*llm.Request{hello, helloS} {
				written.Store(0)
				var e *llm.Error
				for _, err := range serve(t, h, WithMaxAnswerBytes(mb)).Generate(t.Context(), req) {
					if err != nil {
						require.ErrorAs(t, err, &e)
					}
				}
				require.NotNil(t, e)
				require.Equal(t, llm.CodeBadResponse, e.Code)
				require.False(t, e.Retryable)
				require.Contains(t, e.Message, "longer than 1048576 bytes")
				require.Contains(t, e.Message, "WithMaxAnswerBytes")
				require.Less(t, written.Load(), int64(30*mb), "the rest is not read; much is the sockets' buffers")
			}
		})
	}
	// Under the limit it is a long answer like any other.
	got, err := ask(t, serve(t, bodyOf(repeat(line, 1500)+done), WithMaxAnswerBytes(2*mb)), helloS)
	require.NoError(t, err)
	require.Len(t, got.Text, 1_500_000)
	// A huge body of an error is not read to its end.
	written.Store(0)
	e := fails(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized) // after which no other form of the request is looked for in it
		forever(repeat("boom ", 200))(w, r)
	}), hello)
	require.Equal(t, llm.CodeUnauthorized, e.Code)
	require.Less(t, written.Load(), int64(30*mb))
}

// TestDeadConnections: a restarted endpoint, or a proxy, resets all connections that were kept. A retry uses a new one.
func TestDeadConnections(t *testing.T) {
	const kept = 5
	var used sync.Map
	var asked atomic.Int32
	all := make(chan bool)
	m := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, again := used.LoadOrStore(r.RemoteAddr, true); again {
			panic(http.ErrAbortHandler)
		}
		if asked.Add(1) == kept {
			close(all)
		}
		<-all
		jsonOf(`{"choices":[{"message":{"content":"all"}}]}`)(w, r)
	}, WithRetries(1))
	var group sync.WaitGroup
	for range kept {
		group.Go(func() { _, _ = collect(t.Context(), m, hello) })
	}
	group.Wait()
	_, err := ask(t, m, hello)
	require.NoError(t, err)
	require.EqualValues(t, kept+1, asked.Load())
}

// Once the finish reason is there, the answer is whole, whatever happens next.
func TestBreakAfterFinishReason(t *testing.T) {
	got, err := ask(t, serve(t, cutAfter(text("all")+delta(`{}`, "stop"))), helloS)
	require.NoError(t, err)
	require.Equal(t, "all", got.Text)
}
