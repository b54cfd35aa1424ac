package jspeers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/a2agrpc"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/a2a/a2av0"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// served is our server with all bindings on, and a tree behind it that the user's
// words control.
type served struct {
	*a2aserver.Server
	url string
}

func serve(t *testing.T, root agent.Agent, opts ...a2aserver.Option) *served {
	t.Helper()
	return serveFrom(t, sessiontest.Memory(t), root, append([]a2aserver.Option{a2av0.Server()}, opts...)...)
}

// serveFrom serves what is in the store, in version 1.0 alone.
func serveFrom(t *testing.T, store session.Store, root agent.Agent, opts ...a2aserver.Option) *served {
	t.Helper()
	front := httptest.NewUnstartedServer(nil)
	url := "http://" + front.Listener.Addr().String()
	binary := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	opts = append([]a2aserver.Option{a2aserver.WithURL(url), a2aserver.WithInterface(a2agrpc.Interface(binary.Addr().String()))}, opts...)
	server := must.Get(a2aserver.New(root, store, opts...))
	front.Config.Handler = server
	front.Start()
	remote := must.Get(a2agrpc.NewServer(server, nil))
	over := make(chan error, 1)
	go func() { over <- remote.Serve(binary) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close(context.Background()))
		front.CloseClientConnections()
		front.Close()
		remote.Stop()
		require.NoError(t, <-over)
	})
	return &served{server, url}
}

// support answers by the user's last words, or by what a tool returned. It hands over
// to billing and to others that it is given.
func support(t *testing.T, others ...agent.Agent) agent.Agent {
	t.Helper()
	billing := must.Get(llmagent.New("billing", "You explain charges.", scripted.Func("billing", func(*llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Text("I see ", "two ", "charges."))
	})))
	refund := must.Get(tools.Func("refund", "Refunds a charge.", func(_ tools.Context, in struct {
		Charge int `json:"charge"`
	}) (string, error) {
		return fmt.Sprintf("charge %d was refunded", in.Charge), nil
	}, tools.NeedsApproval(tools.ByUser())))
	var calls atomic.Int64
	call := func(tool, input string) scripted.Item {
		return scripted.CallID(fmt.Sprintf("call%d", calls.Add(1)), tool, input)
	}
	model := scripted.Func("support", func(req *llm.Request) scripted.Answer {
		last := req.Messages[len(req.Messages)-1]
		words := last.Text
		for _, p := range last.Parts {
			switch p := p.(type) {
			case llm.ToolResult:
				return scripted.Reply(scripted.Text("The tool says: ", string(p.Output)))
			case llm.TextPart:
				words += p.Text
			}
		}
		switch {
		case words == "charges":
			return scripted.Reply(scripted.Text("One moment."), call("transfer_to_agent", `{"agent_name":"billing"}`))
		case strings.HasPrefix(words, "bank "):
			return scripted.Reply(call("transfer_to_agent", `{"agent_name":"bank"}`))
		case words == "refund":
			return scripted.Reply(scripted.Text("I will."), call("refund", `{"charge":2}`))
		case words == "wait":
			return scripted.Reply(scripted.Text("Let me think."), scripted.Wait(func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			}))
		case words == "fail":
			return scripted.Reply(scripted.Text("Half an ans"), scripted.Fail(errors.New("the endpoint at secret.test is down")))
		}
		return scripted.Reply(scripted.Text("You ", "said: ", words))
	})
	return must.Get(llmagent.New("support", "You help.", model, llmagent.WithSubAgents(append([]agent.Agent{billing}, others...)...), llmagent.WithTools(refund)))
}

// speaker is a client of the JavaScript SDK that speaks one binding in one version.
type speaker struct {
	*caller
	name    string
	old     bool // values are in the JSON of 0.3
	binding string
	legacy  bool
}

func (s *speaker) target(served *served) target {
	return target{Card: served.card(""), Binding: s.binding, Legacy: s.legacy}
}

// card returns the URL of the card of a tenant. Clients keep what they have read of a card by its URL, so that each server
// has URLs of its own, although it may have the port of an earlier one.
func (s *served) card(tenant string) string {
	return fmt.Sprintf("%s%s%s#%p", s.url, tenant, cardPath, s)
}

// eachSpeaker runs a test with every client, all against servers of their own.
func eachSpeaker(t *testing.T, test func(t *testing.T, s *speaker)) {
	t.Parallel()
	needNode(t)
	for _, s := range speakers() {
		t.Run(s.name, func(t *testing.T) {
			s.caller = newCaller(t, map[bool]string{false: "client.mjs", true: "client03.mjs"}[s.old])
			test(t, s)
		})
	}
}

func speakers() []*speaker {
	return []*speaker{
		{name: "jsonrpc", binding: "JSONRPC"},
		{name: "http", binding: "HTTP+JSON"},
		{name: "grpc", binding: "GRPC"},
		{name: "compat", binding: "JSONRPC", legacy: true},
		{name: "jsonrpc03", binding: "JSONRPC", old: true},
	}
}

// say makes the request with a user's words. more is merged into the message.
func (s *speaker) say(text string, more map[string]any) map[string]any {
	m := map[string]any{"messageId": "m-" + fmt.Sprint(messages.Add(1)), "role": "ROLE_USER", "parts": []any{map[string]any{"text": text}}}
	if s.old {
		m["kind"], m["role"], m["parts"] = "message", "user", []any{map[string]any{"kind": "text", "text": text}}
	}
	for k, v := range more {
		m[k] = v
	}
	return map[string]any{"message": m}
}

var messages atomic.Int64

// send sends a user's words and returns the task.
func (s *speaker) send(to target, req map[string]any) *task {
	s.t.Helper()
	var e update
	require.NoError(s.t, s.call(to, "send", req, &e))
	require.NotNil(s.t, e.Task)
	return e.Task
}

// refused makes a call that must fail with an error of a class.
func (s *speaker) refused(class string, to target, op string, params any) {
	s.t.Helper()
	var err error
	if op == "stream" || op == "subscribe" {
		_, err = s.stream(to, op, params).next()
	} else {
		var result json.RawMessage
		err = s.call(to, op, params, &result)
	}
	var failed *callError
	require.ErrorAs(s.t, err, &failed, op)
	require.Equal(s.t, class, failed.Name, "%s: %s", op, failed.Message)
}
