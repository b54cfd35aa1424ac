package a2a_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
)

// closedPort returns the URL of a port on which nobody listens.
func closedPort(t *testing.T) string {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	return "http://" + l.Addr().String() + "/rpc"
}

func lastLine(want *string) scripted.Item {
	return scripted.Expect(func(req *llm.Request) error {
		last := req.Messages[len(req.Messages)-1]
		if *want = last.Text; last.Role != llm.RoleUser {
			return fmt.Errorf("the last message has the role %s", last.Role)
		}
		return nil
	})
}

// A remote that turns its first message away after the transfer was committed: the
// conversation goes back, and the source's model reads why.
func TestRefusedFirstMessage(t *testing.T) {
	nothing := func(http.ResponseWriter, call) {}
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, c call)
		closed bool
		line   string
	}{
		"nobody listens":                 {nothing, true, "it cannot be reached"},
		"HTTP 403":                       {func(w http.ResponseWriter, _ call) { w.WriteHeader(http.StatusForbidden) }, false, "HTTP status 403"},
		"HTTP 404":                       {func(w http.ResponseWriter, _ call) { http.NotFound(w, nil) }, false, "HTTP status 404"},
		"HTTP 429":                       {func(w http.ResponseWriter, _ call) { http.Error(w, "slowly", http.StatusTooManyRequests) }, false, "HTTP status 429"},
		"HTTP 503":                       {func(w http.ResponseWriter, _ call) { w.WriteHeader(http.StatusServiceUnavailable) }, false, "HTTP status 503"},
		"an error with HTTP 429":         {errorWith(http.StatusTooManyRequests, -32000), false, "HTTP status 429: not today"},
		"an error with HTTP 503":         {errorWith(http.StatusServiceUnavailable, unsupported), false, "not today"},
		"a fault with HTTP 503":          {errorWith(http.StatusServiceUnavailable, internal), false, "HTTP status 503: not today"},
		"a server error with HTTP 503":   {errorWith(http.StatusServiceUnavailable, -32000), false, "HTTP status 503: not today"},
		"a fault with HTTP 400":          {errorWith(http.StatusBadRequest, internal), false, "HTTP status 400: not today"},
		"an unknown error with HTTP 400": {errorWith(http.StatusBadRequest, -32050), false, "HTTP status 400: not today"},
		"an error of the protocol":       {func(w http.ResponseWriter, c call) { c.fail(w, unsupported, "not\ntoday") }, false, "not today"},
		"an error in a stream":           {func(w http.ResponseWriter, c call) { streamError(w, c) }, false, "not today"},
		"rejected":                       {func(w http.ResponseWriter, c call) { c.stream(w, taskEvent("REJECTED", "We are closed.")) }, false, "We are closed."},
		"submitted, then rejected": {func(w http.ResponseWriter, c call) {
			c.stream(w, taskEvent("SUBMITTED", ""), statusEvent("REJECTED", ""))
		}, false, "rejected"},
		"rejected, without streams": {func(w http.ResponseWriter, c call) { c.reply(w, taskEvent("REJECTED", "We are closed.")) }, false, "We are closed."},
		"a redirect elsewhere": {func(w http.ResponseWriter, _ call) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(307)
		}, false, "it cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newWire(t, c.answer)
			if c.closed {
				p.card.SupportedInterfaces[0].URL = closedPort(t)
			}
			var line string
			s := scripted.New().Add("support", transfer(), scripted.Reply(lastLine(&line), scripted.Text("Billing is closed.")), scripted.Reply(scripted.Text("Still closed.")))
			f := newRunner(t, tree(t, s, remotetest.Billing(t, p.URL, a2a.WithBearer("hunter2"))))
			events := f.NoError(f.Turn("I was charged twice"))
			require.True(t, strings.HasPrefix(line, "[billing] did not accept the conversation: "), line)
			require.Contains(t, line, c.line)
			require.NotContains(t, line, "hunter2")
			require.NotContains(t, line, "127.0.0.1")
			transfers := remotetest.Find[*event.Transfer](events)
			require.Len(t, transfers, 2)
			require.Equal(t, event.TransferTypeRefused, transfers[1].TransferType)
			require.Equal(t, "support", f.active(t))
			require.Empty(t, remotetest.Find[*event.Failure](events))
			require.Equal(t, event.FinishReasonStop, lastEnd(events))
			f.NoError(f.Turn("and now?"))
			require.NoError(t, s.Done())
		})
	}
}

// A connection that is not made in time is reported without its address.
func TestNoConnectionInTime(t *testing.T) {
	p := newWire(t, nil)
	p.card.SupportedInterfaces[0].URL = "http://billing.test:1/rpc"
	slow := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		if addr == "billing.test:1" {
			d.Timeout, addr = 1, "127.0.0.1:9"
		}
		return d.DialContext(ctx, network, addr)
	}}
	var line string
	s := scripted.New().Add("support", transfer(), scripted.Reply(lastLine(&line), scripted.Text("Billing is closed.")))
	f := newRunner(t, tree(t, s, remotetest.Billing(t, p.URL, a2a.WithHTTPClient(&http.Client{Transport: slow}))))
	f.NoError(f.Turn("I was charged twice"))
	require.Contains(t, line, "it cannot be reached")
}

// errorWith answers with an error of JSON-RPC under an HTTP status.
func errorWith(status, code int) func(w http.ResponseWriter, c call) {
	return func(w http.ResponseWriter, c call) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		c.fail(w, code, "not today")
	}
}

func streamError(w http.ResponseWriter, c call) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":%d,\"message\":\"not today\"}}\n\n", c.ID, unsupported)
}

// What the peer may have begun to work on does not go back: it could be done twice.
func TestUnclearFirstMessage(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, c call)
		code   a2a.ErrorCode
	}{
		"the connection breaks": {func(http.ResponseWriter, call) { breaks() }, a2a.CodeUnreachable},
		"it breaks in mid-stream": {func(w http.ResponseWriter, c call) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": hello\n\n")
			w.(http.Flusher).Flush()
			breaks()
		}, ""},
		"HTTP 408":          {func(w http.ResponseWriter, _ call) { w.WriteHeader(http.StatusRequestTimeout) }, a2a.CodeProtocol},
		"HTTP 500":          {func(w http.ResponseWriter, _ call) { w.WriteHeader(http.StatusInternalServerError) }, a2a.CodeUnreachable},
		"HTTP 502":          {func(w http.ResponseWriter, _ call) { w.WriteHeader(http.StatusBadGateway) }, a2a.CodeUnreachable},
		"HTTP 504":          {func(w http.ResponseWriter, _ call) { w.WriteHeader(http.StatusGatewayTimeout) }, a2a.CodeUnreachable},
		"an internal error": {func(w http.ResponseWriter, c call) { c.fail(w, internal, "the agent failed") }, a2a.CodeProtocol},
		"a server error":    {func(w http.ResponseWriter, c call) { c.fail(w, -32000, "the agent failed") }, a2a.CodeProtocol},
		"an unknown error":  {func(w http.ResponseWriter, c call) { c.fail(w, -32050, "the agent failed") }, a2a.CodeProtocol},
		"it has HTTP 500":   {errorWith(http.StatusInternalServerError, internal), a2a.CodeProtocol},
		"it has HTTP 408":   {errorWith(http.StatusRequestTimeout, internal), a2a.CodeProtocol},
		"no JSON":           {func(w http.ResponseWriter, _ call) { fmt.Fprint(w, "<html>") }, a2a.CodeProtocol},
		"words came": {func(w http.ResponseWriter, c call) {
			c.stream(w, taskEvent("SUBMITTED", ""), deltaEvent("a", "I see"), statusEvent("REJECTED", "no"))
		}, a2a.CodeTaskRejected},
		"it has failed":  {func(w http.ResponseWriter, c call) { c.stream(w, taskEvent("FAILED", "no funds")) }, a2a.CodeTaskFailed},
		"error after it": {func(w http.ResponseWriter, c call) { c.stream(w, taskEvent("SUBMITTED", "")); streamError(w, c) }, a2a.CodeProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			p := newWire(t, func(w http.ResponseWriter, cl call) {
				if cl.Method != sends {
					cl.fail(w, taskNotFound, "no such task")
					return
				}
				c.answer(w, cl)
			})
			s := scripted.New().Add("support", transfer())
			f := newRunner(t, tree(t, s, remotetest.Billing(t, p.URL)))
			events, _, err := f.Turn("I was charged twice")
			var e *a2a.Error
			require.ErrorAs(t, err, &e)
			if c.code != "" {
				require.Equal(t, c.code, e.Code, "%v", err)
			}
			require.NotErrorIs(t, err, agent.ErrRefused)
			require.Len(t, remotetest.Find[*event.Transfer](events), 1)
			require.Equal(t, "billing", f.active(t))
			require.Len(t, p.made(sends), 1)
		})
	}
}

// Where nobody has handed over, a refusal is an error like others.
func TestRefusedAtTheBeginningOfATurn(t *testing.T) {
	p := newWire(t, func(w http.ResponseWriter, c call) { c.fail(w, unsupported, "not today") })
	f := newRunner(t, remotetest.Billing(t, p.URL))
	events, _, err := f.Turn("hi")
	requireCode(t, err, a2a.CodeProtocol)
	require.ErrorIs(t, err, sdk.ErrUnsupportedOperation)
	require.Equal(t, string(a2a.CodeProtocol), remotetest.Find[*event.Failure](events)[0].Code)
	require.Equal(t, event.FinishReasonError, lastEnd(events))
}

// The card was there when the transfer was committed, and is not any more.
func TestCardIsGoneAfterTheTransfer(t *testing.T) {
	p := newWire(t, nil)
	card, asked := p.card, 0
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if asked++; asked > 1 {
			http.Error(w, "gone", http.StatusGone)
			return
		}
		fmt.Fprintf(w, `{"name":"x","version":"1","supportedInterfaces":[{"url":%q,"protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`, card.SupportedInterfaces[0].URL)
	})
	var line string
	s := scripted.New().Add("support", transfer(), scripted.Reply(lastLine(&line), scripted.Text("Billing is closed.")))
	f := newRunner(t, tree(t, s, remotetest.Billing(t, p.URL+"/card", a2a.WithCardTTL(0))))
	f.NoError(f.Turn("I was charged twice"))
	require.Contains(t, line, "the agent card: HTTP status 410")
	require.Equal(t, "support", f.active(t))
}

// A coordinator that wants the remote at any price comes to an end.
func TestRefusalsEnd(t *testing.T) {
	p := newWire(t, func(w http.ResponseWriter, c call) { c.fail(w, unsupported, "not today") })
	s := scripted.New().Add("support", scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`)),
		scripted.Reply(scripted.Call(agent.TransferTool, `{"agent_name":"billing"}`)), scripted.Reply(scripted.ExpectResult("you cannot transfer to billing now"), scripted.Text("I give up.")))
	f := newRunner(t, tree(t, s, remotetest.Billing(t, p.URL)))
	f.NoError(f.Turn("I was charged twice"))
	require.NoError(t, s.Done())
	require.Len(t, p.made(sends), 1)
}

// A refused message was not taken: it is sent when the remote is there again.
func TestRefusedWordsAreSentLater(t *testing.T) {
	p := newWire(t, func(w http.ResponseWriter, c call) { c.fail(w, unsupported, "not today") })
	s := scripted.New().Add("support", transfer(), scripted.Reply(scripted.Text("Later.")), transfer())
	f := newRunner(t, tree(t, s, remotetest.Billing(t, p.URL)))
	f.NoError(f.Turn("I was charged twice"))
	p.set(func(w http.ResponseWriter, c call) { c.stream(w, messageEvent("Refunded.")) })
	events := f.NoError(f.Turn("Try again"))
	require.Equal(t, []string{"Refunded."}, remotetest.Texts(events))
	got := texts(p.made(sends)[1].Params.Message)
	require.Equal(t, []string{"I was charged twice", "[support] One moment.", "[support] Later.", "Try again", "[support] One moment."}, got[:5])
	require.NotEqual(t, p.made(sends)[0].Params.Message.ID, p.made(sends)[1].Params.Message.ID)
}
