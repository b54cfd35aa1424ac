package mcpserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/mcppeers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/mcpserver"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/tools"
)

// TestMain makes the test binary a server over its input and output where a test has started
// it as one.
func TestMain(m *testing.M) {
	if os.Getenv("SERVER") == "" {
		os.Exit(m.Run())
	}
	t := &serving{}
	s, err := mcpserver.New(support(t, nil))
	if err == nil {
		err = s.Serve(context.Background(), os.Stdin, os.Stdout)
	}
	if err != nil {
		panic(err)
	}
}

// serving stands for a test in a process that is a server.
type serving struct{ testing.TB }

func (*serving) Helper()        {}
func (*serving) Cleanup(func()) {}
func (*serving) FailNow()       { os.Exit(1) }

// support is a tree whose model repeats, refunds and asks.
func support(t testing.TB, opts []runner.Option) *runner.Runner {
	model := scripted.Func("m", func(req *llm.Request) scripted.Answer {
		var said []string
		var result string
		for _, m := range req.Messages {
			switch {
			case m.Role == llm.RoleUser:
				said, result = append(said, m.PlainText()), ""
			case m.Role == llm.RoleTool:
				for _, p := range m.Parts {
					if r, ok := p.(llm.ToolResult); ok {
						result = r.Output
					}
				}
			}
		}
		switch last := said[len(said)-1]; {
		case result != "":
			return scripted.Reply(scripted.Text("The tool said: " + result))
		case last == "refund":
			return scripted.Reply(scripted.Call("refund", `{"amount":5}`))
		case last == "seat":
			return scripted.Reply(scripted.Call("seat", `{}`))
		case last == "what did I say?":
			return scripted.Reply(scripted.Text("You said: " + strings.Join(said[:len(said)-1], ", ")))
		}
		return scripted.Reply(scripted.Text("Hello."))
	})
	refund, err := tools.Func("refund", "Refunds.", func(_ tools.Context, in struct {
		Amount int `json:"amount"`
	}) (string, error) {
		return "paid back", nil
	}, tools.NeedsApproval(tools.ByUser()))
	require.NoError(t, err)
	seat, err := tools.Func("seat", "Books.", func(ctx tools.Context, _ struct{}) (string, error) {
		got, err := ctx.Ask("Which seat?", json.RawMessage(`{"type":"object","properties":{"seat":{"type":"integer"}},"required":["seat"]}`))
		return "booked " + string(got), err
	})
	require.NoError(t, err)
	a, err := llmagent.New("support", "Help.", model, llmagent.WithDescription("Helps customers"), llmagent.WithTools(refund, seat))
	require.NoError(t, err)
	r, err := runner.New(a, sessiontest.Memory(t), opts...)
	require.NoError(t, err)
	return r
}

// web serves the tree to two users.
func web(t *testing.T) string { return webOf(t, support(t, nil)) }

func webOf(t *testing.T, r *runner.Runner, opts ...mcpserver.Option) string {
	users, err := access.Secrets(map[string]string{"ann-token": "ann", "bob-token": "bob"})
	require.NoError(t, err)
	bearer, err := access.Bearer(users)
	require.NoError(t, err)
	s, err := mcpserver.New(r, append(opts, mcpserver.WithAccess(access.Options{Users: bearer}))...)
	require.NoError(t, err)
	server := httptest.NewServer(s)
	t.Cleanup(func() { _ = server.Config.Close() }) // server.Close would wait for streams that clients have begun again
	return server.URL
}

// TestPageOfAnotherOrigin: a page whose origin is allowed may call, and reads the header with which it names its session.
func TestPageOfAnotherOrigin(t *testing.T) {
	s, err := mcpserver.New(support(t, nil), mcpserver.WithAccess(access.Options{Origins: []string{"https://app.example.com"}}))
	require.NoError(t, err)
	ask := func(method, origin, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://localhost/", strings.NewReader(body))
		r.Header.Set("Origin", origin)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", http.MethodPost)
			r.Header.Set("Access-Control-Request-Headers", "mcp-session-id, mcp-protocol-version")
		}
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		return rec
	}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"page","version":"1"}}}`
	first := ask(http.MethodOptions, "https://app.example.com", "")
	require.Equal(t, http.StatusNoContent, first.Code)
	require.Equal(t, "mcp-session-id, mcp-protocol-version", first.Header().Get("Access-Control-Allow-Headers"))
	second := ask(http.MethodPost, "https://app.example.com", hello)
	require.Equal(t, http.StatusOK, second.Code, "%s", second.Body)
	require.NotEmpty(t, second.Header().Get("Mcp-Session-Id"))
	require.Equal(t, "Mcp-Session-Id, Retry-After, WWW-Authenticate", second.Header().Get("Access-Control-Expose-Headers"))
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut} { // whatever comes of it, the page may read it
		require.Equal(t, "https://app.example.com", ask(method, "https://app.example.com", "").Header().Get("Access-Control-Allow-Origin"), method)
	}
	require.Equal(t, http.StatusForbidden, ask(http.MethodPost, "https://evil.example.com", hello).Code)
}

type as struct{ token string }

func (a as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+a.token)
	return http.DefaultTransport.RoundTrip(r)
}

// client is a client over HTTP of a version of the protocol.
func client(t *testing.T, url, token, version string, opts *sdk.ClientOptions) *sdk.ClientSession {
	c, err := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, opts).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: as{token}}}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func ask(t *testing.T, c *sdk.ClientSession, in map[string]any) (text string, r mcpserver.Result, failed bool) {
	t.Helper()
	res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "ask", Arguments: in})
	require.NoError(t, err)
	if res.StructuredContent != nil {
		b, err := json.Marshal(res.StructuredContent)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &r))
	}
	return res.Content[0].(*sdk.TextContent).Text, r, res.IsError
}

var versions = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

func TestAsk(t *testing.T) {
	url := web(t)
	for _, version := range versions {
		c := client(t, url, "ann-token", version, nil)
		list, err := c.ListTools(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, list.Tools, 1)
		require.Contains(t, list.Tools[0].Description, "Helps customers")
		text, r, failed := ask(t, c, map[string]any{"message": "hello"})
		require.False(t, failed, text)
		require.Equal(t, "Hello.", text)
		require.Equal(t, "support", r.Agent)
		require.True(t, strings.HasPrefix(r.Session, "mcp-"))

		again := map[string]any{"message": "what did I say?"}
		if version >= "2026-07-28" { // which has no sessions over HTTP
			again["session"] = r.Session
		}
		text, later, _ := ask(t, c, again)
		require.Equal(t, "You said: hello", text)
		require.Equal(t, r.Session, later.Session)

		other := client(t, url, "bob-token", version, nil)
		text, _, _ = ask(t, other, map[string]any{"message": "what did I say?", "session": r.Session})
		require.Equal(t, "You said: ", text, "sessions are those of one user")
		for _, bad := range []map[string]any{{}, {"message": " "}, {"message": "x", "session": "s1"}, {"message": "x", "session": "mcp-\x00"},
			{"message": strings.Repeat("x", 1<<20+1)}, {"answers": map[string]any{"c": true}}} {
			text, _, failed = ask(t, c, bad)
			require.True(t, failed, text)
			require.NotContains(t, text, "ann", "the key of a session")
		}
	}
	_, err := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url}, nil)
	require.Error(t, err)
}

// The id of a session is no secret: nobody but its user can use it.
func TestSessionsOfOthers(t *testing.T) {
	url := web(t)
	c := client(t, url, "ann-token", "2025-11-25", nil)
	require.NotEmpty(t, c.ID())
	for token, status := range map[string]int{"ann-token": http.StatusOK, "bob-token": http.StatusNotFound, "": http.StatusUnauthorized} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		require.NoError(t, err)
		for name, value := range map[string]string{"Mcp-Session-Id": c.ID(), "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token} {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, status, resp.StatusCode, token)
	}
}

// Approvals and questions are asked where the client can ask, and stand in the result where
// it cannot; in both versions of how clients are asked.
func TestQuestions(t *testing.T) {
	url := web(t)
	for _, version := range versions {
		var asked []string
		action, content := "accept", map[string]any{}
		can := &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			asked = append(asked, req.Params.Message)
			return &sdk.ElicitResult{Action: action, Content: content}, nil
		}}
		c := client(t, url, "ann-token", version, can)
		content = map[string]any{"approved": true}
		text, _, _ := ask(t, c, map[string]any{"message": "refund"})
		require.Equal(t, "The tool said: paid back", text)
		require.Equal(t, []string{"The tool refund wants to run. amount=5 Let it run?"}, asked)
		content = map[string]any{"approved": false, "reason": "too much"}
		text, _, _ = ask(t, c, map[string]any{"message": "refund"})
		require.Equal(t, "The tool said: denied: too much", text)
		content = map[string]any{"seat": 7.0}
		text, _, _ = ask(t, c, map[string]any{"message": "seat"})
		require.Equal(t, `The tool said: booked {"seat":7}`, text)
		require.Equal(t, "Which seat?", asked[2])
		action = "decline"
		text, _, _ = ask(t, c, map[string]any{"message": "seat"})
		require.Contains(t, text, "The tool said: the user declined to answer")
		action = "cancel"
		text, r, _ := ask(t, c, map[string]any{"message": "refund"})
		require.Contains(t, text, "The turn waits for answers.")
		require.Len(t, r.Questions, 1)

		c = client(t, url, "ann-token", version, nil)
		text, r, _ = ask(t, c, map[string]any{"message": "refund"})
		require.Contains(t, text, "call ask with session")
		id := r.Questions[0].CallID
		require.JSONEq(t, `{"amount":5}`, string(r.Questions[0].Params))
		require.NotEmpty(t, r.Questions[0].Digest)
		_, _, failed := ask(t, c, map[string]any{"session": r.Session, "answers": map[string]any{id: map[string]any{"approved": true, "digest": "sha256:another"}}})
		require.True(t, failed, "it is about another question")
		text, _, failed = ask(t, c, map[string]any{"session": r.Session, "answers": map[string]any{id: true, "another": true}})
		require.True(t, failed, "an answer would be lost")
		require.Contains(t, text, `no question of the call "another" is open`)
		text, _, failed = ask(t, c, map[string]any{"session": r.Session, "message": "And hurry.", "answers": map[string]any{id: true}})
		require.True(t, failed, "the message would be lost")
		require.Contains(t, text, "send the answers alone")
		text, _, _ = ask(t, c, map[string]any{"session": r.Session, "answers": map[string]any{id: "surely"}})
		require.Equal(t, "The tool said: denied", text, "what is no clear yes is a no")
		_, r, _ = ask(t, c, map[string]any{"message": "seat"})
		text, _, _ = ask(t, c, map[string]any{"session": r.Session, "answers": map[string]any{r.Questions[0].CallID: map[string]any{"seat": 3}}})
		require.Equal(t, `The tool said: booked {"seat":3}`, text)
	}
}

// seen is what the scripts of the official clients print.
type seen struct {
	Tools   []string
	Answers []struct {
		Text, Session string
		IsError       bool
	}
	Asked, Progress []string
}

func TestOfficialClients(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for name, command := range map[string]func(t *testing.T) (string, string){
		"typescript": func(t *testing.T) (string, string) { return mcppeers.Node(t, "ask.mjs") },
		"python":     func(t *testing.T) (string, string) { return mcppeers.Python(t, "ask.py") },
		"fastmcp":    func(t *testing.T) (string, string) { return mcppeers.Python(t, "askfast.py") },
	} {
		for how, args := range map[string][]string{"http": {web(t), "ann-token"}, "stdio": {"-", self}} {
			t.Run(name+" "+how, func(t *testing.T) {
				program, script := command(t)
				cmd := exec.CommandContext(t.Context(), program, append([]string{script}, args...)...)
				cmd.Env, cmd.Stderr = []string{"SERVER=yes", "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, os.Stderr
				out, err := cmd.Output()
				require.NoError(t, err)
				var got seen
				require.NoError(t, json.Unmarshal(out, &got), string(out))
				require.Equal(t, []string{"ask"}, got.Tools)
				require.Equal(t, "Hello.", got.Answers[0].Text)
				require.Equal(t, "You said: hello", got.Answers[1].Text)
				require.Equal(t, "The tool said: paid back", got.Answers[2].Text)
				require.Equal(t, got.Answers[0].Session, got.Answers[2].Session)
				require.Equal(t, []string{"The tool refund wants to run. amount=5 Let it run?"}, got.Asked)
				require.Contains(t, got.Progress, "support calls refund")
			})
		}
	}
}

// TestInspector: the command line of the MCP inspector lists the tool and calls it.
func TestInspector(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for how, where := range map[string][]string{
		"http":  {web(t), "--transport", "http", "--header", "Authorization: Bearer ann-token"},
		"stdio": {self, "-e", "SERVER=yes", "--transport", "stdio"},
	} {
		t.Run(how, func(t *testing.T) {
			node, inspector := mcppeers.Node(t, "node_modules", ".bin", "mcp-inspector")
			inspect := func(out any, method ...string) {
				cmd := exec.CommandContext(t.Context(), node, slices.Concat([]string{inspector, "--cli"}, where, []string{"--method"}, method)...)
				cmd.Env, cmd.Stderr = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, os.Stderr
				printed, err := cmd.Output()
				require.NoError(t, err, string(printed))
				require.NoError(t, json.Unmarshal(printed, out), string(printed))
			}
			var listed struct{ Tools []struct{ Name string } }
			inspect(&listed, "tools/list")
			require.Len(t, listed.Tools, 1)
			require.Equal(t, "ask", listed.Tools[0].Name)
			var answer struct {
				Content           []struct{ Type, Text string }
				StructuredContent struct{ Session, Agent string }
			}
			inspect(&answer, "tools/call", "--tool-name", "ask", "--tool-arg", "message=hello")
			require.Len(t, answer.Content, 1)
			require.Equal(t, "Hello.", answer.Content[0].Text)
			require.Regexp(t, "^mcp-", answer.StructuredContent.Session)
			require.Equal(t, "support", answer.StructuredContent.Agent)
		})
	}
}

// Another tree is served from the next message on, also to sessions that are open.
func TestSwap(t *testing.T) {
	_, err := mcpserver.New(nil)
	require.ErrorContains(t, err, "the runner is nil")
	s, err := mcpserver.New(support(t, nil), mcpserver.WithUser("here"))
	require.NoError(t, err)
	server := httptest.NewServer(s)
	t.Cleanup(func() { _ = server.Config.Close() }) // server.Close would wait for streams that clients have begun again
	c := client(t, server.URL, "", "2025-11-25", nil)
	text, _, _ := ask(t, c, map[string]any{"message": "hello"})
	require.Equal(t, "Hello.", text)
	other, err := llmagent.New("other", "", scripted.Always("m", scripted.Reply(scripted.Text("Another."))))
	require.NoError(t, err)
	r, err := runner.New(other, sessiontest.Memory(t))
	require.NoError(t, err)
	s.Swap(r)
	text, _, _ = ask(t, c, map[string]any{"message": "hello"})
	require.Equal(t, "Another.", text)
}

// TestLimit: turns beyond the limit are refused in words that say so, those of other users run, and a turn that waits for its user
// does not count.
func TestLimit(t *testing.T) {
	began, goOn := make(chan struct{}, 3), make(chan struct{})
	model := scripted.Func("m", func(req *llm.Request) scripted.Answer {
		if req.Messages[len(req.Messages)-1].Text == "wait" {
			began <- struct{}{}
			<-goOn
		}
		return scripted.Reply(scripted.Text("Hello."))
	})
	a, err := llmagent.New("support", "Help.", model)
	require.NoError(t, err)
	r, err := runner.New(a, sessiontest.Memory(t))
	require.NoError(t, err)
	url := webOf(t, r, mcpserver.WithLimit(access.NewLimit(1, 2)))
	first, second, third := client(t, url, "ann-token", "", nil), client(t, url, "ann-token", "", nil), client(t, url, "bob-token", "", nil)
	answered := make(chan string, 2)
	for _, c := range []*sdk.ClientSession{first, third} {
		go func() {
			text, _, _ := ask(t, c, map[string]any{"message": "wait"})
			answered <- text
		}()
		<-began
	}
	text, _, failed := ask(t, second, map[string]any{"message": "hello"})
	require.True(t, failed)
	require.Contains(t, text, "the server has reached its limit of 2")
	goOn <- struct{}{}
	goOn <- struct{}{}
	require.Contains(t, <-answered+<-answered, "Hello.")
	text, _, failed = ask(t, second, map[string]any{"message": "hello"})
	require.False(t, failed, text)
}

// TestErrorsSayNoAddress checks that no client reads the address of a model or of the store.
func TestErrorsSayNoAddress(t *testing.T) {
	model, err := openai.New("m", openai.WithBaseURL("http://127.0.0.1:1/secret-path"), openai.WithAPIKey("sk-secret"), openai.WithRetries(0))
	require.NoError(t, err)
	a, err := llmagent.New("support", "Help.", model)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "s.db")
	db, err := sqlite.Open(file)
	require.NoError(t, err)
	r, err := runner.New(a, db)
	require.NoError(t, err)
	c := client(t, webOf(t, r), "ann-token", "", nil)
	text, _, failed := ask(t, c, map[string]any{"message": "hello"})
	require.True(t, failed)
	t.Log(text)
	require.NotContains(t, text, "127.0.0.1")
	require.NotContains(t, text, "secret")
	require.NoError(t, db.Close())
	text, _, failed = ask(t, c, map[string]any{"message": "hello"})
	require.True(t, failed)
	t.Log(text)
	require.NotContains(t, text, file)
}
