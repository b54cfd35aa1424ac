package cassette_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/cassette"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
)

// exchange is a request and its answer as a client sees them.
type exchange struct {
	method, path, body string
	status             int
	answer             string
}

func (e *exchange) do(t testing.TB, client *http.Client, base string, header ...string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), e.method, base+e.path, strings.NewReader(e.body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	e.status, e.answer = res.StatusCode, string(answer)
	return err
}

// record has a handler answer requests, and returns what came, the file, and the base address.
func record(t *testing.T, h http.HandlerFunc, asked []exchange, header ...string) (answers []exchange, path string) {
	t.Helper()
	s := httptest.NewServer(h)
	defer s.Close()
	path = filepath.Join(t.TempDir(), "tape.json")
	tape, err := cassette.Record(path, nil)
	require.NoError(t, err)
	for _, e := range asked {
		require.NoError(t, e.do(t, &http.Client{Transport: tape}, s.URL, header...))
		answers = append(answers, e)
	}
	require.NoError(t, tape.Close())
	return answers, path
}

func stream(w http.ResponseWriter, parts ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, p := range parts {
		_, _ = io.WriteString(w, p)
		w.(http.Flusher).Flush()
	}
}

// odd answers with all kinds of bodies.
func odd(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch r.URL.Path {
	case "/json":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append([]byte(`{"b":1,"a":<`[:11]), body...)) // no JSON
	case "/compact":
		_, _ = io.WriteString(w, `{"b":[1,2.50,"<&>\u2028"],"a":{}}`)
	case "/spaced":
		_, _ = io.WriteString(w, "{ \"b\": 1 }\n")
	case "/bytes":
		_, _ = w.Write([]byte{0, 0xff, '\r', '\n', 0x80})
	case "/stream":
		stream(w, "data: {\"a\"", ":1}\n\ndata: two\n\n", ": comment\r\n\r\ndata: \xff\n\n", "data: [DONE]\n\n", "no end")
	case "/late":
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, "later")
	}
}

// What was recorded is played byte for byte, in any order of different requests, and in its own order of the same.
func TestByteForByte(t *testing.T) {
	asked := []exchange{
		{method: "GET", path: "/json"}, {method: "POST", path: "/json", body: `{"x": 1, "y": 2.0}`}, {method: "GET", path: "/compact"},
		{method: "GET", path: "/spaced"}, {method: "GET", path: "/bytes"}, {method: "POST", path: "/stream", body: "\xff"}, {method: "GET", path: "/late"}, {method: "GET", path: "/none"},
	}
	want, path := record(t, odd, asked)
	p, err := cassette.Replay(path)
	require.NoError(t, err)
	for i := range want {
		i = len(want) - 1 - i
		got := asked[i]
		if got.body == `{"x": 1, "y": 2.0}` {
			got.body = `{"y":2.0,"x":1}`
		}
		require.NoError(t, got.do(t, &http.Client{Transport: p}, "http://elsewhere.test"))
		require.Equal(t, want[i].answer, got.answer)
		require.Equal(t, want[i].status, got.status)
	}
	require.NoError(t, p.Err())
	require.Zero(t, p.Left())

	n := 0
	want, path = record(t, func(w http.ResponseWriter, _ *http.Request) { n++; fmt.Fprint(w, n) }, []exchange{{method: "GET"}, {method: "GET"}})
	p, err = cassette.Replay(path)
	require.NoError(t, err)
	for _, w := range want {
		got := exchange{method: "GET"}
		require.NoError(t, got.do(t, &http.Client{Transport: p}, "http://elsewhere.test"))
		require.Equal(t, w.answer, got.answer)
	}
}

// A request that was not recorded is told with what was, in an answer that no client asks for again.
func TestMismatch(t *testing.T) {
	_, path := record(t, odd, []exchange{
		{method: "POST", path: "/compact", body: `{"model":"m","messages":[{"role":"user","content":"Hello"}],"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7}`},
		{method: "POST", path: "/compact", body: `[]`},
	})
	p, err := cassette.Replay(path)
	require.NoError(t, err)
	client := &http.Client{Transport: p}
	e := exchange{method: "POST", path: "/compact", body: `{"model":"m","messages":[{"role":"user","content":"Bye"}],"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"h":7}`}
	require.NoError(t, e.do(t, client, "http://x.test"))
	require.Equal(t, 400, e.status)
	var said struct{ Error struct{ Message string } }
	require.NoError(t, json.Unmarshal([]byte(e.answer), &said))
	var wrong *cassette.MismatchError
	require.ErrorAs(t, p.Err(), &wrong)
	require.Equal(t, wrong.Error(), said.Error.Message)
	require.Equal(t, `    "e": 5,
    "f": 6,
-   "g": 7,
+   "h": 7,
    "messages": [
      {
-       "content": "Hello",
+       "content": "Bye",
        "role": "user"
      }`, wrong.Diff)
	require.Contains(t, wrong.Error(), path)
	require.Equal(t, 2, p.Left())

	for range 2 {
		e = exchange{method: "POST", path: "/compact", body: ` [] `}
		require.NoError(t, e.do(t, client, "http://x.test"))
	}
	require.Contains(t, e.answer, "was recorded 1 times and is requested again")
	require.ErrorIs(t, p.Err(), wrong, "the first one stays")
}

// No secret of a request is in the file, though the endpoint repeats it.
func TestNoSecrets(t *testing.T) {
	const key, cookie, password, session = "sk-live-0123456789", "chocolate-chip", "hunter2-hunter2", "abcdefabcdefabcdefabcdef12"
	h := func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "id", Value: session})
		w.Header().Set("X-Request-Id", session)
		w.Header().Set("Content-Type", "text/event-stream")
		user, pass, _ := r.BasicAuth()
		stream(w, "data: "+r.Header.Get("Api-Key")+"\n\n", "data: "+r.Header.Get("Authorization")[:9], r.Header.Get("Authorization")[9:]+"\n\n",
			"data: "+r.Header.Get("Cookie")+r.URL.String()+user+pass+"\n\n")
	}
	want, path := record(t, h, []exchange{{method: "POST", path: "/v1?api_key=" + key + "&sig=" + session, body: `{"echo":"` + key + `"}`}},
		"Authorization", "Bearer "+key, "Api-Key", password, "Cookie", cookie, "X-Session", session, "X-Title", "support")
	require.Contains(t, want[0].answer, key, "the client gets what it was sent")
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, secret := range []string{key, cookie, password, session} {
		require.NotContains(t, string(file), secret)
	}
	require.Contains(t, string(file), "[redacted]")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	// With another key the same request is found.
	p, err := cassette.Replay(path)
	require.NoError(t, err)
	got := exchange{method: "POST", path: "/v1?api_key=another-key&sig=x", body: `{"echo":"another-key"}`}
	require.NoError(t, got.do(t, &http.Client{Transport: p}, "http://x.test", "Authorization", "Bearer another-key"))
	require.NoError(t, p.Err())
	require.Equal(t, 200, got.status)
}

// Connections that fail, and clients that hang up, are played as they were.
func TestBrokenOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tape.json")
	down := errors.New("dial tcp: connection refused")
	fails := true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream(w, "data: one\n\n")
		<-r.Context().Done()
	}))
	defer s.Close()
	tape, err := cassette.Record(path, roundTrip(func(r *http.Request) (*http.Response, error) {
		if fails {
			return nil, down
		}
		return http.DefaultTransport.RoundTrip(r)
	}))
	require.NoError(t, err)
	talk := func(client *http.Client) {
		e := exchange{method: "GET", path: "/"}
		require.ErrorContains(t, e.do(t, client, s.URL), down.Error())
		fails = false
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/", http.NoBody)
		require.NoError(t, err)
		res, err := client.Do(req)
		require.NoError(t, err)
		part := make([]byte, len("data: one\n\n"))
		_, err = io.ReadFull(res.Body, part)
		require.NoError(t, err)
		cancel()
		require.NoError(t, res.Body.Close())
	}
	talk(&http.Client{Transport: tape})
	require.NoError(t, tape.Close())
	p, err := cassette.Replay(path)
	require.NoError(t, err)
	talk(&http.Client{Transport: p})
	require.NoError(t, p.Err())
	require.Zero(t, p.Left())

	p, err = cassette.Replay(path)
	require.NoError(t, err)
	e := exchange{method: "GET", path: "/"}
	require.Error(t, e.do(t, &http.Client{Transport: p}, s.URL))
	require.ErrorIs(t, e.do(t, &http.Client{Transport: p}, s.URL), io.ErrUnexpectedEOF, "nobody knows what would have come")
	require.Equal(t, "data: one\n\n", e.answer)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Streams are played in the time that they took only if that is asked for.
func TestPace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tape.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"request": {"method": "GET", "url": "/"}, "response": {"status": 200, "stream": [{"text": "a"}, {"after": 3000, "text": "b"}]}}`), 0o600))
	for want, opts := range map[time.Duration][]cassette.Option{0: nil, 3 * time.Second: {cassette.WithPace()}} {
		synctest.Test(t, func(t *testing.T) {
			p, err := cassette.Replay(path, opts...)
			require.NoError(t, err)
			began := time.Now()
			e := exchange{method: "GET", path: "/"}
			require.NoError(t, e.do(t, &http.Client{Transport: p}, "http://x.test"))
			require.Equal(t, "ab", e.answer)
			require.Equal(t, want, time.Since(began))
		})
	}
}

func TestBadFiles(t *testing.T) {
	_, err := cassette.Replay(filepath.Join(t.TempDir(), "none.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
	for name, text := range map[string]string{
		"no JSON":     `{"request"`,
		"no request":  `{"response": {"status": 200}}`,
		"no response": `{"request": {"method": "GET", "url": "/"}}`,
		"bad bytes":   `{"request": {"method": "GET", "url": "/"}, "response": {"status": 200, "body": {"base64": "?"}}}`,
		"bad piece":   `{"request": {"method": "GET", "url": "/"}, "response": {"status": 200, "stream": [{"base64": "?"}]}}`,
		"bad body":    `{"request": {"method": "GET", "url": "/", "body": {"base64": "?"}}, "response": {"status": 200}}`,
	} {
		path := filepath.Join(t.TempDir(), "tape.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := cassette.Replay(path)
		require.ErrorContains(t, err, path+": recording 1", name)
	}
	_, err = cassette.Record(filepath.Join(t.TempDir(), "none", "tape.json"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// tb is a test that notes what becomes of it.
type tb struct {
	ends []func()
	said []string
}

func (*tb) Helper()                          {}
func (t *tb) Cleanup(f func())               { t.ends = append(t.ends, f) }
func (t *tb) Errorf(format string, a ...any) { t.said = append(t.said, fmt.Sprintf(format, a...)) }
func (t *tb) Fatalf(format string, a ...any) { t.Errorf(format, a...); panic("failed") }
func (t *tb) end()                           { t.ends[0]() }

// A model behind its client says the same when it is recorded and when it is played: a failure that is tried again,
// calls, words in a stream.
func TestModel(t *testing.T) {
	script := scripted.New(scripted.WithRecording()).Add("m",
		scripted.Reply(scripted.Text("I look it "), scripted.Text("up."), scripted.Call("find", `{"id":"c1"}`)), scripted.Reply(scripted.Text("It is there.")))
	served, err := endpoint.Start(script.Models())
	require.NoError(t, err)
	defer served.Close()
	to, err := url.Parse(served.URL())
	require.NoError(t, err)
	behind, refused := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: to.Scheme, Host: to.Host}), false
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused {
			behind.ServeHTTP(w, r)
			return
		}
		refused = true
		w.Header().Set("Retry-After-Ms", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer busy.Close()
	path := filepath.Join(t.TempDir(), "tape.json")
	talk := func(t *testing.T, client *http.Client, base string) (chunks []llm.Chunk) {
		t.Helper()
		model, err := openai.New("m", openai.WithBaseURL(base), openai.WithAPIKey("sk-live-0123456789"), openai.WithHTTPClient(client))
		require.NoError(t, err)
		for _, words := range []string{"Where is it?", "And now?"} {
			for chunk, err := range model.Generate(t.Context(), &llm.Request{Stream: true, Messages: []llm.Message{{Role: llm.RoleUser, Content: llm.Content{Text: words}}}, Tools: []llm.ToolSpec{{Name: "find", Parameters: json.RawMessage(`{"type":"object"}`)}}}) {
				require.NoError(t, err)
				chunks = append(chunks, chunk)
			}
		}
		return chunks
	}
	t.Setenv("ARBOR_RECORD", "1")
	recording := &tb{}
	want := talk(t, cassette.Test(recording, path), busy.URL+to.Path)
	recording.end()
	require.Empty(t, recording.said)
	require.NotEmpty(t, want)

	t.Setenv("ARBOR_RECORD", "")
	playing := &tb{}
	require.Equal(t, want, talk(t, cassette.Test(playing, path), "http://nobody.test/v1"))
	playing.end()
	require.Empty(t, playing.said)

	idle := &tb{}
	cassette.Test(idle, path)
	idle.end()
	require.Contains(t, idle.said[0], "3 recordings were not requested")
	require.PanicsWithValue(t, "failed", func() { cassette.Test(idle, path+"x") })
	require.Contains(t, idle.said[1], "ARBOR_RECORD=1 records it")
}

// FuzzReplay plays what people have written into files, and plays what was recorded of any answer byte for byte.
func FuzzReplay(f *testing.F) {
	f.Add([]byte(`{"request": {"method": "GET", "url": "/"}, "response": {"status": 200, "stream": [{"text": "a"}]}}`), "data: a\n\n", true)
	f.Add([]byte(`{}`), `{"a":[1,{"b":"\u00e9"}]}`, false)
	f.Add([]byte{}, "\xff\r\n", true)
	f.Fuzz(func(t *testing.T, file []byte, answer string, events bool) {
		path := filepath.Join(t.TempDir(), "tape.json")
		require.NoError(t, os.WriteFile(path, file, 0o600))
		if p, err := cassette.Replay(path); err == nil {
			e := exchange{method: "GET", path: "/"}
			_ = e.do(t, &http.Client{Transport: p}, "http://x.test") // it may have been cut
		}
		tape, err := cassette.Record(path, roundTrip(func(r *http.Request) (*http.Response, error) {
			res := &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}
			if events {
				res.Header.Set("Content-Type", "text/event-stream")
			}
			return res, nil
		}))
		require.NoError(t, err)
		e := exchange{method: "POST", path: "/", body: answer}
		require.NoError(t, e.do(t, &http.Client{Transport: tape}, "http://x.test"))
		require.NoError(t, tape.Close())
		p, err := cassette.Replay(path)
		require.NoError(t, err)
		require.NoError(t, e.do(t, &http.Client{Transport: p}, "http://x.test"))
		require.NoError(t, p.Err())
		require.Equal(t, answer, e.answer)
	})
}
