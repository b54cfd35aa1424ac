package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/tail"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/summarize"
)

// desk is a tree that does what it is told: to think until it is let go on, to ask, to fail, to
// make a file, to hand over to billing.
type desk struct {
	root   agent.Agent
	thinks chan string   // what it was told, when it thinks about it
	free   chan struct{} // lets the thought end that is under way
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	d := &desk{thinks: make(chan string, 1000), free: make(chan struct{})}
	refund := must.Get(tools.Func("refund", "Refunds.", func(tools.Context, struct{}) (string, error) { return "refunded", nil }, tools.NeedsApproval(tools.ByUser())))
	report := must.Get(tools.Func("report", "Makes a report.", func(c tools.Context, _ struct{}) (string, error) {
		c.Set("reports", 1)
		_, err := c.SaveFile("report.html", "text/html", []byte("<script>1</script>"))
		return "made", err
	}))
	color := must.Get(tools.Func("color", "Asks for a color.", func(c tools.Context, _ struct{}) (string, error) {
		answer, err := c.Ask("Which color?", json.RawMessage(`{"type":"object","properties":{"color":{"type":"string"}},"required":["color"]}`))
		return string(answer), err
	}))
	model := scripted.Func("desk", func(req *llm.Request) scripted.Answer {
		last := req.Messages[len(req.Messages)-1]
		switch text := last.PlainText(); {
		case last.Role == llm.RoleTool:
			return scripted.Reply(scripted.Text("Thank you."))
		case strings.Contains(text, "think"):
			return scripted.Reply(scripted.Text("thin"), scripted.Wait(func(context.Context) error { d.thinks <- text; return nil }),
				scripted.WaitFor(d.free), scripted.Text("king done"))
		case strings.Contains(text, "ask twice"):
			return scripted.Reply(scripted.Call("refund", `{}`), scripted.Call("refund", `{}`))
		case strings.Contains(text, "ask"):
			return scripted.Reply(scripted.Call("refund", `{}`))
		case strings.Contains(text, "color"):
			return scripted.Reply(scripted.Call("color", `{}`))
		case strings.Contains(text, "file"):
			return scripted.Reply(scripted.Call("report", `{}`))
		case strings.Contains(text, "fail"):
			return scripted.Reply(scripted.Status(400, 0))
		case strings.Contains(text, "bill"):
			return scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`))
		}
		return scripted.Reply(scripted.Text("Hel"), scripted.Text("lo."))
	})
	billing := must.Get(llmagent.New("billing", "You bill.", scripted.Func("billing", func(*llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Text("It is paid."))
	}), llmagent.WithDescription("Bills.")))
	summary := must.Get(summarize.New(model))
	d.root = must.Get(llmagent.New("desk", "You obey.", model, llmagent.WithTools(refund, report, color, summary), llmagent.WithSubAgents(billing)))
	return d
}

// The users of the tests, by their tokens.
var users = map[string]access.User{
	"ann":   {Name: "ann"},
	"bob":   {Name: "bob"},
	"ann!":  {Name: "ann", Rights: access.Inspect}, // who may look, too
	"eve":   {Name: "eve", Rights: access.Inspect},
	"owner": {Name: session.DefaultUser, Rights: access.All},
	// who has every right, as the owner of a machine
	"machine": {Name: session.DefaultUser, Rights: access.All | access.Owner},
}

type tokens struct{}

func (tokens) Authenticate(_ context.Context, c access.Credentials) (access.User, error) {
	header := c.Header("Authorization")
	if len(header) == 0 {
		return access.User{}, access.ErrNoCredentials
	}
	u, ok := users[strings.TrimPrefix(header[0], "Bearer ")]
	if !ok {
		return access.User{}, access.ErrUnauthenticated
	}
	return u, nil
}

// served is the API on loopback.
type served struct {
	*desk
	url     string
	store   live.Store
	turns   *live.Turns
	handler *server.Handler
	http    *http.Client
}

func newServed(t testing.TB, opts ...server.Option) *served {
	t.Helper()
	return serveOn(t, newDesk(t), sessiontest.Memory(t), opts...)
}

// serveOn serves a tree on a store as a process of its own does.
func serveOn(t testing.TB, d *desk, store session.Store, opts ...server.Option) *served {
	t.Helper()
	return serveWith(t, d, store, nil, opts...)
}

func serveWith(t testing.TB, d *desk, store session.Store, how []runner.Option, opts ...server.Option) *served {
	t.Helper()
	followed := must.Get(tail.New(store))
	run := must.Get(runner.New(d.root, followed, append(how, runner.WithStreaming())...))
	turns := must.Get(live.New(run, followed))
	guard := must.Get(access.New(access.Options{Users: tokens{}}))
	handler := must.Get(server.New(turns, append([]server.Option{server.WithGuard(guard), server.WithVersion("test")}, opts...)...))
	srv := httptest.NewServer(server.Mux(handler))
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(func() {
		require.NoError(t, turns.Close(context.Background()))
		transport.CloseIdleConnections()
		srv.CloseClientConnections()
		srv.Close()
	})
	return &served{d, srv.URL, followed, turns, handler, &http.Client{Transport: checkedTransport{t, transport}}}
}

// answer is what the API has answered.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) json(t testing.TB) (v map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(a.body, &v), string(a.body))
	return v
}

// code returns the code of a problem.
func (a answer) code(t testing.TB) string {
	t.Helper()
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"), string(a.body))
	return a.json(t)["code"].(string)
}

// send sends a request; what follows the body are headers and their values.
func (s *served) send(t testing.TB, token, method, path, body string, headers ...string) *http.Response {
	t.Helper()
	if strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "/api/") {
		path = "/api/v1" + path
	}
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := must.Get(http.NewRequestWithContext(t.Context(), method, s.url+path, reader))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return must.Get(s.http.Do(r))
}

func (s *served) do(t testing.TB, token, method, path, body string, headers ...string) answer {
	t.Helper()
	res := s.send(t, token, method, path, body, headers...)
	defer res.Body.Close()
	return answer{res.StatusCode, res.Header, must.Get(io.ReadAll(res.Body))}
}

func (s *served) get(t testing.TB, token, path string, headers ...string) answer {
	t.Helper()
	return s.do(t, token, "GET", path, "", headers...)
}

// health asks a path for its status.
func (s *served) health(t testing.TB, path string) int {
	t.Helper()
	res := must.Get(s.http.Get(s.url + path))
	res.Body.Close()
	return res.StatusCode
}

// say begins a turn of ann's and waits until it rests.
func (s *served) say(t testing.TB, id, words string) map[string]any {
	t.Helper()
	path, body := "/sessions/"+id+"/turns", fmt.Sprintf(`{"content":%q}`, words)
	a := s.do(t, "ann", "POST", path, body, "Prefer", "wait=60")
	if a.status == 404 {
		a = s.do(t, "ann", "POST", "/sessions", fmt.Sprintf(`{"id":%q,"content":%q}`, id, words), "Prefer", "wait=60")
	}
	require.Equal(t, 200, a.status, string(a.body))
	return a.json(t)
}

// begin begins a turn of ann's that thinks, and returns when it does.
func (s *served) begin(t testing.TB, id string) map[string]any {
	t.Helper()
	a := s.do(t, "ann", "POST", "/sessions", fmt.Sprintf(`{"id":%q,"content":"think"}`, id))
	require.Equal(t, 202, a.status, string(a.body))
	<-s.thinks
	return a.json(t)
}

// frame is one of a stream.
type frame struct{ id, event, data, retry string }

func (f frame) json(t testing.TB) (v map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(f.data), &v), f.data)
	return v
}

// decoded is the event of a frame.
func (f frame) decoded(t testing.TB) *event.Event {
	t.Helper()
	e := &event.Event{}
	require.NoError(t, json.Unmarshal([]byte(f.data), e), f.data)
	return e
}

// stream is a stream that is being read.
type stream struct {
	t   testing.TB
	res *http.Response
	in  *bufio.Scanner
}

func (s *served) stream(t testing.TB, token, method, path, body string, headers ...string) *stream {
	t.Helper()
	res := s.send(t, token, method, path, body, append(headers, "Accept", "text/event-stream")...)
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 {
		data, _ := io.ReadAll(res.Body)
		require.Equal(t, 200, res.StatusCode, string(data))
	}
	in := bufio.NewScanner(res.Body)
	in.Buffer(nil, 16<<20)
	in.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.Index(data, []byte("\n\n")); i >= 0 {
			return i + 2, data[:i], nil
		}
		if atEOF && len(data) > 0 {
			return 0, nil, io.ErrUnexpectedEOF
		}
		return 0, nil, nil
	})
	return &stream{t, res, in}
}

// next returns the next frame, which must be as the document says; ok is false at the end.
func (s *stream) next() (f frame, ok bool) {
	s.t.Helper()
	for s.in.Scan() {
		f = frame{}
		for line := range strings.SplitSeq(s.in.Text(), "\n") {
			name, value, _ := strings.Cut(line, ": ")
			switch name {
			case "id":
				f.id = value
			case "event":
				f.event = value
			case "data":
				f.data = value
			case "retry":
				f.retry = value
			}
		}
		if f.data == "" {
			continue // a comment
		}
		schema := map[string]string{"": "Event", "state": "StreamState", "end": "StreamEnd", "tree": "StreamTree"}[f.event]
		if strings.HasSuffix(s.res.Request.URL.Path, "/changes") && f.event == "" {
			schema = "Session"
		}
		if err := theDocument().check([]byte(f.data), "components", "schemas", schema); err != nil {
			s.t.Errorf("a frame of %s: %s: %v", s.res.Request.URL, f.data, err)
		}
		return f, true
	}
	return f, false
}

// until reads frames up to the first one that a function wants.
func (s *stream) until(wanted func(frame) bool) (all []frame) {
	s.t.Helper()
	for {
		f, ok := s.next()
		require.True(s.t, ok, "the stream ended: %v", all)
		if all = append(all, f); wanted(f) {
			return all
		}
	}
}

// rest reads all frames that are left.
func (s *stream) rest() (all []frame) {
	s.t.Helper()
	for f, ok := s.next(); ok; f, ok = s.next() {
		all = append(all, f)
	}
	require.NoError(s.t, s.in.Err())
	return all
}

// lines draws frames: an event by its id, its type and its words, another frame by its data.
func lines(t testing.TB, frames []frame) (out []string) {
	t.Helper()
	for _, f := range frames {
		switch f.event {
		case "":
			e := f.decoded(t)
			out = append(out, strings.TrimSpace(f.id+" "+e.Type()+" "+e.Text()))
		case "state":
			v := f.json(t)
			out = append(out, fmt.Sprintf("state %v seq %v active %v", v["state"], v["seq"], v["active"]))
		default:
			out = append(out, fmt.Sprintf("%s %v", f.event, f.json(t)["reason"]))
		}
	}
	return out
}
