package a2aserver_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
)

// streamers open streams: the SDK's client, and a remote node in a turn. Each calls heard at the first text.
func streamers(t testing.TB, url string, transport *http.Transport) map[string]func(i int, heard func()) error {
	client := must.Get(a2aclient.NewFromEndpoints(context.Background(), []*sdk.AgentInterface{{URL: url + "/rpc", ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: sdk.Version}},
		a2aclient.WithJSONRPCTransport(&http.Client{Transport: transport})))
	r := newRunner(t, url, transport)
	return map[string]func(i int, heard func()) error{
		"client": func(_ int, heard func()) error {
			var last sdk.Event
			for e, err := range client.SendStreamingMessage(context.Background(), askParts()) {
				if err != nil {
					return err
				}
				if _, ok := e.(*sdk.TaskArtifactUpdateEvent); ok {
					heard()
				}
				last = e
			}
			if u, ok := last.(*sdk.TaskStatusUpdateEvent); !ok || u.Status.State != sdk.TaskStateCompleted {
				return fmt.Errorf("the stream ended with %T", last)
			}
			return nil
		},
		"node": func(i int, heard func()) error {
			said := ""
			for e, err := range r.Run(context.Background(), session.ID(fmt.Sprint("s", i)), llm.UserText(complaint)) {
				if err != nil {
					return err
				}
				if e.Type() == event.TypeText {
					heard()
					said = e.Text()
				}
			}
			if said != "I see two charges." {
				return fmt.Errorf("it said %q", said)
			}
			return nil
		},
	}
}

// TestManyStreamsAtOnce has 200 turns in progress at once: all of them end, with few goroutines for each.
func TestManyStreamsAtOnce(t *testing.T) {
	n := 200
	if race.Enabled || testing.Short() {
		n = 50
	}
	for _, name := range []string{"client", "node"} {
		t.Run(name, func(t *testing.T) {
			free := make(chan struct{})
			model := scripted.Func("billing", func(*llm.Request) scripted.Answer {
				return scripted.Reply(scripted.Text("I see "), scripted.WaitFor(free), scripted.Text("two charges."))
			})
			transport := &http.Transport{MaxIdleConnsPerHost: n}
			p := newPeer(t, must.Get(llmagent.New("billing", "You refund.", model)))
			one := streamers(t, p.URL, transport)[name]
			before := runtime.NumGoroutine()
			var heard, done sync.WaitGroup
			heard.Add(n)
			failed := make(chan error, n)
			for i := range n {
				done.Go(func() { failed <- one(i, sync.OnceFunc(heard.Done)) })
			}
			heard.Wait()
			require.LessOrEqual(t, runtime.NumGoroutine()-before, 25*n, "goroutines of both sides")
			close(free)
			done.Wait()
			for range n {
				require.NoError(t, <-failed)
			}
			p.CloseClientConnections() // the agent has a copy of the transport
			must.Wait(t, func() bool { return runtime.NumGoroutine() <= before+10 })
		})
	}
}
