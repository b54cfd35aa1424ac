package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/agui"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/server/mcpserver"
	"github.com/agentarbor/arbor/server/openaiapi"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/tail"
	"github.com/agentarbor/arbor/tools"
)

// deciding is a server with all APIs, whose tools differ in who may decide.
type deciding struct {
	t        *testing.T
	accounts *access.Accounts
	turns    *live.Turns
	run      *runner.Runner
	tree     func(about string) *runner.Runner // about ends the descriptions of its tools
	asks     *mcpserver.Server
	url      string
	ran      atomic.Int32
	calls    atomic.Int32 // their ids differ from session to session
	loads    atomic.Int32
	sessions int
}

// The callers of the truth table in docs/approvals.md, and the rights by which each decides about
// the question of a tool, "" if they may not. The owner has all rights.
var deciders = map[string]struct {
	access.Account
	book, refund, wire, open, harm string
}{
	"a user":                   {access.Account{Name: "ann"}, "user", "", "", "", ""},
	"staff":                    {access.Account{Name: "sue", Rights: access.Approve}, "user", "approve", "", "approve", "approve"},
	"a right by name":          {access.Account{Name: "rita", Grants: []string{"refunds"}}, "user", "", "refunds", "", ""},
	"a person at the desk":     {access.Account{Name: "dan", Rights: access.Desk}, "user", "", "", "", ""},
	"who acts and reads":       {access.Account{Name: "max", Rights: access.Act | access.Inspect}, "user", "", "", "", ""},
	"the owner of the machine": {access.Account{Name: session.DefaultUser, Rights: access.All | access.Owner}, "user", "approve", "refunds", "approve", "approve"},
}

func (d *deciding) replace(without string) {
	var all []access.Account
	for _, who := range deciders {
		if who.Token = access.HashToken(who.Name); who.Name != without {
			all = append(all, who.Account)
		}
	}
	require.NoError(d.t, d.accounts.Replace(all...))
}

func newDeciding(t *testing.T, opts ...live.Option) *deciding {
	t.Helper()
	d := &deciding{t: t}
	model := scripted.Func("m", func(req *llm.Request) scripted.Answer {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == llm.RoleTool {
			return scripted.Reply(scripted.Text("It is done."))
		}
		if words := strings.Fields(last.PlainText()); len(words) == 1 && slices.Contains([]string{"book", "refund", "wire", "open", "harm"}, words[0]) {
			return scripted.Reply(scripted.CallID(fmt.Sprint("call", d.calls.Add(1)), words[0], `{}`))
		}
		return scripted.Reply(scripted.Text("Hello."))
	})
	store := must.Get(tail.New(reads{sessiontest.Memory(t), &d.loads}))
	d.tree = func(about string) *runner.Runner {
		tool := func(name string, opts ...tools.Option) tools.Tool {
			return must.Get(tools.Func(name, "Does "+name+about, func(tools.Context, struct{}) (string, error) {
				d.ran.Add(1)
				return "done", nil
			}, opts...))
		}
		root := must.Get(llmagent.New("support", "You help.", model, llmagent.WithTools(
			tool("book", tools.NeedsApproval(tools.ByUser())), tool("refund", tools.NeedsApproval(tools.ByStaff())),
			tool("wire", tools.NeedsApproval(tools.ByStaff("refunds"))), tool("open", tools.NeedsApproval()), tool("harm", tools.NeedsApproval(), tools.Destructive()))))
		return must.Get(runner.New(root, store, runner.WithStreaming()))
	}
	d.run = d.tree(".")
	d.turns = must.Get(live.New(d.run, store, opts...))
	t.Cleanup(func() { require.NoError(t, d.turns.Close(context.Background())) })
	d.accounts = must.Get(access.NewAccounts())
	d.replace("")
	guard := must.Get(access.New(access.Options{Users: d.accounts}))
	api := must.Get(server.New(d.turns, server.WithGuard(guard)))
	chat := must.Get(openaiapi.New(d.turns, openaiapi.WithGuard(guard)))
	page := must.Get(agui.New(d.turns, agui.WithGuard(guard)))
	declared := must.Get(a2aserver.Declare(d.accounts, nil))
	peers := must.Get(a2aserver.NewOn(d.turns, a2aserver.WithAuthenticator(declared)))
	t.Cleanup(func() { require.NoError(t, peers.Close(context.Background())) })
	d.asks = must.Get(mcpserver.New(d.run, mcpserver.WithAccess(access.Options{Users: d.accounts})))
	mux := http.NewServeMux()
	mux.Handle("/mcp", d.asks)
	mux.Handle("/", server.Mux(api, chat, page, server.At("", peers)))
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	d.url = web.URL
	return d
}

// waits begins a turn of a user that waits, and returns the question.
func (d *deciding) waits(user, tool string) (key session.Key, turn string, asked *event.Event) {
	d.t.Helper()
	d.sessions++
	key = session.Key{App: session.DefaultApp, User: user, ID: fmt.Sprintf("mcp-s%d", d.sessions)} // so that it has a name at each API
	x := must.Get(d.turns.Begin(d.t.Context(), key, llm.UserText(tool)))
	<-x.Done()
	r, err := d.turns.Report(d.t.Context(), key, "")
	require.NoError(d.t, err)
	require.Len(d.t, r.Questions(), 1)
	return key, r.ID, r.Questions()[0]
}

// outcome is the decision that the turn has, nil if its call keeps waiting.
func (d *deciding) outcome(key session.Key) *event.RelayResolved {
	d.t.Helper()
	r, err := d.turns.Report(d.t.Context(), key, "")
	require.NoError(d.t, err)
	if len(r.Decisions()) == 0 {
		require.Equal(d.t, live.Waiting, r.State, "nothing is withdrawn")
		require.Len(d.t, r.Pending, 1)
		return nil
	}
	return r.Decisions()[0].Data.(*event.RelayResolved)
}

// send posts JSON as a caller.
func (d *deciding) send(token, path string, body any, header ...string) (int, string) {
	c := &caller{t: d.t, base: d.url, http: http.DefaultClient, token: token}
	res := c.request("POST", path, body, header...)
	return res.StatusCode, readAll(d.t, res)
}

func readAll(t *testing.T, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	data := must.Get(io.ReadAll(res.Body))
	return string(data)
}

type m = map[string]any

// decider decides at one API, and returns the status and what the caller reads.
type decider func(d *deciding, token string, key session.Key, turn string, asked *event.Event) (int, string)

// deciderAPIs decide at each API.
var deciderAPIs = map[string]decider{
	"native": func(d *deciding, token string, key session.Key, turn string, asked *event.Event) (int, string) {
		call := asked.Data.(*event.Relay).ToolCallID
		return d.send(token, "/api/v1/sessions/"+key.ID+"/turns/"+turn+"/decisions", m{"decisions": []any{m{"callId": call, "approved": true}}}, "Accept", "text/event-stream")
	},
	"chat by words": func(d *deciding, token string, key session.Key, _ string, _ *event.Event) (int, string) {
		d.shown(token, key)
		return d.send(token, "/v1/chat/completions", m{"model": "support", "messages": []any{m{"role": "user", "content": "yes"}}}, "Arbor-Session", key.ID)
	},
	"chat by a tool message": func(d *deciding, token string, key session.Key, _ string, asked *event.Event) (int, string) {
		call := asked.Data.(*event.Relay).ToolCallID
		d.shown(token, key)
		return d.send(token, "/v1/chat/completions", m{"model": "support", "messages": []any{
			m{"role": "user", "content": asked.Data.(*event.Relay).Tool},
			m{"role": "assistant", "tool_calls": []any{m{"id": call, "type": "function", "function": m{"name": asked.Data.(*event.Relay).Tool, "arguments": "{}"}}}},
			m{"role": "tool", "tool_call_id": call, "content": "approved"}, m{"role": "user", "content": "yes"}}}, "Arbor-Session", key.ID)
	},
	"responses": func(d *deciding, token string, key session.Key, _ string, asked *event.Event) (int, string) {
		call := asked.Data.(*event.Relay).ToolCallID
		return d.send(token, "/v1/responses", m{"model": "support", "conversation": key.ID, "input": []any{m{"type": "mcp_approval_response", "approval_request_id": "mcpr_" + call, "approve": true}}})
	},
	"AG-UI": func(d *deciding, token string, key session.Key, _ string, asked *event.Event) (int, string) {
		return d.send(token, "/agui", m{"threadId": key.ID, "runId": "r1", "messages": []any{}, "tools": []any{}, "context": []any{}, "state": m{}, "forwardedProps": m{},
			"resume": []any{m{"interruptId": asked.ID, "status": "resolved", "payload": m{"approved": true}}}})
	},
	"A2A": func(d *deciding, token string, key session.Key, _ string, _ *event.Event) (int, string) {
		c := &caller{t: d.t, base: d.url, http: http.DefaultClient, token: token}
		res := c.request("GET", "/tasks?contextId="+key.ID, nil)
		if res.StatusCode != http.StatusOK {
			return res.StatusCode, readAll(d.t, res)
		}
		var list struct{ Tasks []struct{ ID string } }
		require.NoError(d.t, json.Unmarshal([]byte(readAll(d.t, res)), &list))
		return d.send(token, "/message:send", m{"message": m{"messageId": "m1", "contextId": key.ID, "taskId": list.Tasks[0].ID, "role": "ROLE_USER", "parts": []any{m{"text": "yes"}}}})
	},
	"MCP": func(d *deciding, token string, key session.Key, _ string, asked *event.Event) (int, string) {
		client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
		web := &http.Client{Transport: bearer(token)}
		s, err := client.Connect(d.t.Context(), &sdk.StreamableClientTransport{Endpoint: d.url + "/mcp", HTTPClient: web, MaxRetries: -1}, nil)
		if err != nil {
			return http.StatusUnauthorized, err.Error()
		}
		defer s.Close()
		res, err := s.CallTool(d.t.Context(), &sdk.CallToolParams{Name: "ask", Arguments: m{"session": key.ID, "answers": m{asked.Data.(*event.Relay).ToolCallID: true}}})
		require.NoError(d.t, err)
		text := res.Content[0].(*sdk.TextContent).Text
		if res.IsError {
			return http.StatusForbidden, text
		}
		return http.StatusOK, text
	},
}

// shown lets a chat read the open question of its session, because a text answers no other question.
func (d *deciding) shown(token string, key session.Key) {
	before := d.outcome(key)
	d.send(token, "/v1/chat/completions", m{"model": "support", "messages": []any{m{"role": "user", "content": "yes"}}}, "Arbor-Session", key.ID)
	require.Equal(d.t, before, d.outcome(key))
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// TestWhoDecides is the truth table of docs/approvals.md at each API: who may decide in a session
// of their own, what the others read, that nothing is withdrawn for them, and what the log says.
func TestWhoDecides(t *testing.T) {
	d := newDeciding(t)
	for api, decide := range deciderAPIs {
		for name, who := range deciders {
			for tool, right := range map[string]string{"book": who.book, "refund": who.refund, "wire": who.wire, "open": who.open, "harm": who.harm} {
				t.Run(api+"/"+name+"/"+tool, func(t *testing.T) {
					d.t = t
					key, turn, asked := d.waits(who.Name, tool)
					ran := d.ran.Load()
					client := &caller{t: t, base: d.url + "/api/v1", http: http.DefaultClient, token: who.Name}
					pending := readAll(t, client.request("GET", "/sessions/"+key.ID, nil))
					require.Contains(t, pending, fmt.Sprintf(`"mayDecide":%t`, right != ""), "what a page shows")
					status, text := decide(d, who.Name, key, turn, asked)
					made := d.outcome(key)
					if right == "" {
						require.Nil(t, made)
						require.Equal(t, ran, d.ran.Load())
						require.Contains(t, strings.ToLower(text), "a colleague has to approve this")
						require.Equal(t, !strings.HasPrefix(api, "chat"), status == http.StatusForbidden, "%d %s", status, text)
						return
					}
					require.NotNil(t, made, "%d %s", status, text)
					require.True(t, made.Approved)
					require.Equal(t, who.Name, made.By)
					require.Equal(t, []string{right}, made.Rights)
					require.Equal(t, asked.Data.(*event.Relay).Digest, made.Digest)
					require.Equal(t, ran+1, d.ran.Load())
				})
			}
		}
		t.Run(api+"/removed meanwhile", func(t *testing.T) {
			d.t = t
			key, turn, asked := d.waits("sue", "refund")
			d.replace("sue")
			defer d.replace("")
			status, text := decide(d, "sue", key, turn, asked)
			require.Equal(t, http.StatusUnauthorized, status, text)
			require.Nil(t, d.outcome(key))
		})
	}
}

// The list of approvals has what was asked since it was asked for last, and reads no log again that is as it was.
func TestApprovalsAgain(t *testing.T) {
	d := newDeciding(t)
	client := &caller{t: t, base: d.url + "/api/v1", http: http.DefaultClient, token: "sue"}
	list := func() (calls []string) {
		var got struct {
			Approvals []struct{ User, Title string }
		}
		require.NoError(t, json.Unmarshal([]byte(readAll(t, client.request("GET", "/approvals", nil))), &got))
		for _, a := range got.Approvals {
			calls = append(calls, a.User+a.Title)
		}
		return calls
	}
	for i := range 3 {
		key := session.Key{App: session.DefaultApp, User: "ann", ID: fmt.Sprint("quiet", i)}
		x := must.Get(d.turns.Begin(t.Context(), key, llm.UserText("hello")))
		<-x.Done()
	}
	require.Empty(t, list())
	read := d.loads.Load()
	require.Empty(t, list())
	require.Equal(t, read, d.loads.Load(), "quiet sessions are not read again")
	x := must.Get(d.turns.Begin(t.Context(), session.Key{App: session.DefaultApp, User: "ann", ID: "quiet1"}, llm.UserText("refund")))
	<-x.Done()
	require.Equal(t, []string{"ann"}, list(), "without the right to read their sessions")
	require.Equal(t, []string{"ann"}, list())
	client.token = session.DefaultUser
	require.Equal(t, []string{"annhello"}, list())
	client.token = "sue"

	// However many sessions have changed since.
	for i := range 510 {
		key := session.Key{App: session.DefaultApp, User: "ann", ID: fmt.Sprint("later", i)}
		x := must.Get(d.turns.Begin(t.Context(), key, llm.UserText("hello")))
		<-x.Done()
	}
	require.Equal(t, []string{"ann"}, list())
	client.token = "ann"
	ids := func(query string) (ids []string, next string) {
		var got struct {
			Sessions []struct{ ID string }
			Next     string
		}
		require.NoError(t, json.Unmarshal([]byte(readAll(t, client.request("GET", "/sessions?"+query, nil))), &got))
		for _, s := range got.Sessions {
			ids = append(ids, s.ID)
		}
		return ids, got.Next
	}
	waiting, next := ids("state=waiting")
	require.Equal(t, []string{"quiet1"}, waiting)
	require.Empty(t, next)
	for _, state := range []string{"running", "cut_off", "failed", "canceled"} {
		found, _ := ids("state=" + state)
		require.Empty(t, found, state)
	}
	done := 0
	for page, next := ids("state=done&limit=200"); ; page, next = ids("state=done&limit=200&after=" + next) {
		if done += len(page); next == "" {
			break
		}
	}
	require.Equal(t, 512, done)
}

// reads counts how often logs are read.
type reads struct {
	session.Store
	n *atomic.Int32
}

func (r reads) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	r.n.Add(1)
	return r.Store.Load(ctx, key, after)
}
