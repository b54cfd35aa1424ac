package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/agui"
	"github.com/agentarbor/arbor/server/inspector"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/server/openaiapi"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/tail"
	"github.com/agentarbor/arbor/tools"
)

// caller sends requests with a token, or as a browser that has signed in.
type caller struct {
	t     *testing.T
	base  string
	http  *http.Client
	token string
	key   string // the half of a sign-in that the page keeps
}

func (c *caller) request(method, path string, body any, header ...string) *http.Response {
	c.t.Helper()
	var data []byte
	if body != nil {
		data = must.Get(json.Marshal(body))
	}
	r := must.Get(http.NewRequestWithContext(c.t.Context(), method, c.base+path, bytes.NewReader(data)))
	if data != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.key != "" {
		r.Header.Set("Arbor-CSRF", c.key)
		r.Header.Set("Origin", c.base)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return must.Get(c.http.Do(r))
}

// ask sends a request and decodes its answer, which must have the status.
func (c *caller) ask(status int, method, path string, body any, header ...string) (answer map[string]any) {
	c.t.Helper()
	res := c.request(method, path, body, header...)
	defer res.Body.Close()
	data := must.Get(io.ReadAll(res.Body))
	require.Equal(c.t, status, res.StatusCode, "%s %s: %s", method, path, data)
	require.NoError(c.t, json.Unmarshal(data, &answer), string(data))
	return answer
}

// frames reads a stream of server-sent events in the background, until it ends.
func (c *caller) frames(method, path string, body any, header ...string) <-chan map[string]any {
	c.t.Helper()
	res := c.request(method, path, body, append(header, "Accept", "text/event-stream")...)
	require.Equal(c.t, http.StatusOK, res.StatusCode, path)
	out := make(chan map[string]any, 10_000)
	go func() {
		defer close(out)
		defer res.Body.Close()
		for lines := bufio.NewReader(res.Body); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			var frame map[string]any
			if data, ok := strings.CutPrefix(line, "data: "); ok && json.Unmarshal([]byte(data), &frame) == nil {
				out <- frame
			}
		}
	}()
	return out
}

// await reads frames until one fits, and returns all that came.
func await(t *testing.T, frames <-chan map[string]any, fits func(map[string]any) bool) (all []map[string]any) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		select {
		case f, ok := <-frames:
			if !ok {
				require.Fail(t, "the stream ended before", "%v", all)
			}
			if all = append(all, f); fits(f) {
				return all
			}
		case <-deadline:
			require.Fail(t, "nothing that fits came", "%v", all)
		}
	}
}

// newTurns runs a tree on a store in memory.
func newTurns(t *testing.T, root agent.Agent) *live.Turns {
	store := must.Get(tail.New(sessiontest.Memory(t)))
	run := must.Get(runner.New(root, store, runner.WithStreaming()))
	turns := must.Get(live.New(run, store))
	t.Cleanup(func() { require.NoError(t, turns.Close(context.Background())) })
	return turns
}

// everyAPI returns the handlers of all APIs for the same turns and users; A2A is the last one.
func everyAPI(t *testing.T, turns *live.Turns, users access.Authenticator, page ...inspector.Option) []http.Handler {
	guard := must.Get(access.New(access.Options{Users: users}))
	api := must.Get(server.New(turns, server.WithGuard(guard)))
	chat := must.Get(openaiapi.New(turns, openaiapi.WithGuard(guard)))
	forms := must.Get(agui.New(turns, agui.WithGuard(guard)))
	look := must.Get(inspector.New(append(page, inspector.WithGuard(guard))...))
	declared := must.Get(a2aserver.Declare(users, nil))
	peers := must.Get(a2aserver.NewOn(turns, a2aserver.WithAuthenticator(declared)))
	t.Cleanup(func() { require.NoError(t, peers.Close(context.Background())) })
	return []http.Handler{api, chat, forms, look, server.At("", peers)}
}

// TestPhoto checks that each API that takes images accepts the photo of a phone, of six megabytes, without any setting.
func TestPhoto(t *testing.T) {
	got := make(chan int, 4)
	a := must.Get(llmagent.New("looks", "You look.", scripted.Func("m", func(req *llm.Request) scripted.Answer {
		for _, part := range req.Messages[len(req.Messages)-1].Parts {
			if m, ok := part.(llm.Media); ok {
				got <- len(m.Data)
			}
		}
		return scripted.Reply(scripted.Text("Nice."))
	})))
	web := httptest.NewServer(server.Mux(everyAPI(t, newTurns(t, a), tokens{})...))
	t.Cleanup(web.Close)
	ann := &caller{t: t, base: web.URL, http: web.Client(), token: "ann"}
	size := 6 << 20
	if race.Enabled { // which takes 36 s of a processor for a large one
		size = 1 << 16
	}
	photo := base64.StdEncoding.EncodeToString(make([]byte, size))
	for _, r := range []struct{ path, body string }{
		{"/api/v1/sessions", `{"content":[{"type":"text","text":"Look"},{"type":"image","mediaType":"image/jpeg","data":"PHOTO"}]}`},
		{"/v1/chat/completions", `{"model":"looks","messages":[{"role":"user","content":[{"type":"text","text":"Look"},{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,PHOTO"}}]}]}`},
		{"/v1/responses", `{"model":"looks","input":[{"role":"user","content":[{"type":"input_text","text":"Look"},{"type":"input_image","image_url":"data:image/jpeg;base64,PHOTO"}]}]}`},
		{"/agui", `{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":[{"type":"text","text":"Look"},{"type":"image","source":{"type":"data","mimeType":"image/jpeg","value":"PHOTO"}}]}]}`},
		{"/message:send", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"Look"},{"raw":"PHOTO","mediaType":"image/jpeg"}]}}`},
	} {
		res := ann.request("POST", r.path, json.RawMessage(strings.ReplaceAll(r.body, "PHOTO", photo)), "Prefer", "wait=30")
		answer := must.Get(io.ReadAll(res.Body))
		require.Less(t, res.StatusCode, 300, "%s: %.300s", r.path, answer)
		require.Equal(t, size, <-got, r.path)
	}
}

const apology = "I am sorry. The second charge was refunded."

// A turn begins over A2A, is approved in a browser and read to its end with curl, while the native
// stream, a page of AG-UI and a client of OpenAI's responses look on: all of them are told the same.
func TestOneSessionEveryAPI(t *testing.T) {
	refund := must.Get(tools.Func("refund", "Refunds a charge.", func(tools.Context, struct{}) (string, error) { return "refunded", nil }, tools.NeedsApproval(tools.ByUser())))
	script := scripted.New().
		Add("support", scripted.Reply(scripted.Text("A moment."), scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`))).
		Add("billing", scripted.Reply(scripted.Call("refund", `{}`)), scripted.Reply(scripted.Text("I am sorry. "), scripted.Text("The second charge was refunded.")))
	billing := must.Get(llmagent.New("billing", "You refund.", script.Model("billing"), llmagent.WithDescription("Refunds"), llmagent.WithTools(refund)))
	root := must.Get(llmagent.New("support", "You hand over.", script.Model("support"), llmagent.WithSubAgents(billing)))
	turns := newTurns(t, root)
	accounts := must.Get(access.NewAccounts(access.Account{Name: session.DefaultUser, Token: access.HashToken("owner-token"), Rights: access.All}))
	web := httptest.NewUnstartedServer(nil)
	at := must.Get(url.Parse("http://" + web.Listener.Addr().String()))
	port := must.Get(strconv.Atoi(at.Port()))
	signIn := must.Get(access.NewSignIn(accounts, access.SignInOptions{Port: port}))
	either := must.Get(access.AnyOf(accounts, signIn))
	web.Config.Handler = server.Mux(everyAPI(t, turns, either, inspector.WithSignIn(signIn))...)
	web.Start()
	t.Cleanup(web.Close)
	program := &caller{t: t, base: web.URL, http: web.Client(), token: "owner-token"}

	// The browser signs in with a code.
	jar := must.Get(cookiejar.New(nil))
	browser := &caller{t: t, base: web.URL, http: &http.Client{Jar: jar}}
	code := must.Get(signIn.Code(session.DefaultUser))
	grant := browser.ask(200, "POST", "/inspect/sign-in", map[string]any{"code": code}, "Origin", web.URL, "Sec-Fetch-Site", "same-origin")
	browser.key = grant["key"].(string)

	// A2A begins the turn, which waits for an approval.
	sent := program.ask(200, "POST", "/message:send", map[string]any{"message": map[string]any{"messageId": "m1", "contextId": "c1", "role": "ROLE_USER",
		"parts": []any{map[string]any{"text": "I was charged twice"}}}})
	task := sent["task"].(map[string]any)
	require.Equal(t, "TASK_STATE_INPUT_REQUIRED", task["status"].(map[string]any)["state"])

	// Everybody sees where it stands, and looks on.
	turn := browser.ask(200, "GET", "/api/v1/sessions/c1/turns", nil)["turns"].([]any)[0].(map[string]any)
	require.Equal(t, "waiting", turn["state"])
	pending := turn["pending"].([]any)[0].(map[string]any)
	require.Equal(t, "refund", pending["tool"])
	id := turn["id"].(string)
	native := browser.frames("GET", "/api/v1/sessions/c1/events", nil)
	watching := program.frames("POST", "/agui/connect", map[string]any{"threadId": "c1", "runId": "look", "messages": []any{}, "tools": []any{}, "context": []any{}, "state": map[string]any{}, "forwardedProps": map[string]any{}})
	asked := func(name string) func(map[string]any) bool {
		return func(f map[string]any) bool { return f["type"] == name }
	}
	await(t, native, asked("harness_end"))
	await(t, watching, asked("RUN_FINISHED"))

	// The browser approves.
	browser.ask(202, "POST", "/api/v1/sessions/c1/turns/"+id+"/decisions", map[string]any{"decisions": []any{map[string]any{"callId": pending["callId"], "approved": true}}})

	// curl reads the turn to its end.
	curl, err := exec.Command("curl", "-sS", "-N", "--max-time", "20", "-H", "Authorization: Bearer owner-token", "-H", "Accept: text/event-stream", web.URL+"/api/v1/sessions/c1/turns/"+id+"/events").CombinedOutput()
	require.NoError(t, err, string(curl))
	require.Contains(t, string(curl), fmt.Sprintf(`"content":%q`, apology))
	require.Contains(t, string(curl), "event: end")

	// All are told the same words.
	said := func(frames []map[string]any, typ, field string) (words string) {
		for _, f := range frames {
			if f["type"] == typ {
				words, _ = f[field].(string)
			}
		}
		return words
	}
	all := await(t, native, func(f map[string]any) bool { return f["type"] == "harness_end" && f["finishReason"] == "stop" })
	require.Equal(t, apology, said(all, "text", "content"))
	shown := ""
	for _, f := range await(t, watching, asked("RUN_FINISHED")) {
		if f["type"] == "TEXT_MESSAGE_CONTENT" {
			shown += f["delta"].(string)
		}
	}
	require.Equal(t, apology, shown)
	done := program.ask(200, "GET", "/tasks/"+task["id"].(string), nil)
	require.Equal(t, "TASK_STATE_COMPLETED", done["status"].(map[string]any)["state"])
	require.Contains(t, fmt.Sprint(done["artifacts"]), apology)
	response := program.ask(200, "GET", "/v1/responses/resp_"+id+".c1", nil)
	require.Equal(t, "completed", response["status"])
	require.Contains(t, fmt.Sprint(response["output"]), apology)
	last := browser.ask(200, "GET", "/api/v1/sessions/c1/turns/"+id, nil)
	require.Equal(t, "done", last["state"])
	require.Equal(t, apology, last["text"])
	require.NoError(t, script.Done())
}
