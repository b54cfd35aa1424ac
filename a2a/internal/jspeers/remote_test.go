package jspeers_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2agrpc"
	"github.com/agentarbor/arbor/a2a/a2av0"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
)

// cardPath is where cards are.
const cardPath = "/.well-known/agent-card.json"

// binding is a way to the agent of server.mjs or server03.mjs.
type binding struct {
	name   string // as in the path of its card
	script string
	opts   []a2a.Option
}

func bindings() []binding {
	return []binding{
		{name: "jsonrpc", script: "server.mjs"},
		{name: "http", script: "server.mjs"},
		{name: "grpc", script: "server.mjs", opts: []a2a.Option{a2a.WithBinding(a2agrpc.Binding())}},
		{name: "compat", script: "server.mjs", opts: []a2a.Option{a2a.WithBinding(a2av0.Bindings()...)}},
		{name: "http03", script: "server03.mjs", opts: []a2a.Option{a2a.WithBinding(a2av0.Bindings()...)}},
		{name: "jsonrpc03", script: "server03.mjs", opts: []a2a.Option{a2a.WithBinding(a2av0.Bindings()...)}},
	}
}

// eachBinding runs a test over all bindings, with peers that stream and peers that
// do not.
func eachBinding(t *testing.T, test func(t *testing.T, remote agent.Agent, p *peer, streams bool)) {
	t.Parallel()
	needNode(t)
	for _, b := range bindings() {
		for _, kind := range []string{"stream", "unary"} {
			t.Run(b.name+" "+kind, func(t *testing.T) {
				p := peers[b.script]()
				p.watch(t)
				transport := &http.Transport{}
				t.Cleanup(transport.CloseIdleConnections)
				opts := append([]a2a.Option{a2a.WithHTTPClient(&http.Client{Transport: transport})}, b.opts...)
				remote := must.Get(a2a.Remote("billing", p.URL+"/"+b.name+"/"+kind+cardPath, opts...))
				test(t, remote, p, kind == "stream")
			})
		}
	}
}

// last returns the last of the remote tasks and ends of an event list.
func last[T any](list []T) T { return list[len(list)-1] }

func TestRemotePieces(t *testing.T) {
	eachBinding(t, func(t *testing.T, remote agent.Agent, p *peer, streams bool) {
		s := scripted.New().Add("support",
			scripted.Reply(scripted.Text("One moment."), scripted.CallID("t1", "transfer_to_agent", `{"agent_name":"billing"}`)))
		support := must.Get(llmagent.New("support", "You route.", s.Model("support"), llmagent.WithSubAgents(remote)))
		c := remotetest.NewClient(t, support, runner.WithStreaming())
		events, streamed, err := c.Turn("pieces")
		require.NoError(t, err)
		require.Equal(t, []string{"I see two charges."}, remotetest.Texts(events))
		require.Equal(t, "I see two charges.", streamed)
		task := last(remotetest.Find[*event.RemoteTask](events))
		require.Equal(t, "completed", task.Status)
		require.NotEmpty(t, task.TaskID)
		require.Equal(t, event.FinishReasonStop, last(remotetest.Find[*event.HarnessEnd](events)).FinishReason)

		// The next words go to the remote agent at once, in the same context, to a
		// task of their own.
		events, _, err = c.Turn("And why?")
		require.NoError(t, err)
		require.NoError(t, s.Done())
		require.Equal(t, []string{"You said: And why?"}, remotetest.Texts(events))
		heard := p.heard(t).in(task.ContextID)
		require.Len(t, heard.Messages, 2)
		require.Equal(t, []string{"pieces", "[support] One moment."}, heard.texts(0))
		require.Equal(t, []string{"And why?"}, heard.texts(1))
		require.NotEqual(t, task.TaskID, heard.Messages[1].TaskID)
	})
}

func TestRemoteWhole(t *testing.T) {
	eachBinding(t, func(t *testing.T, remote agent.Agent, _ *peer, _ bool) {
		for words, answer := range map[string]string{"message": "Just words.", "task": "All at once."} {
			events, streamed, err := remotetest.NewClient(t, remote, runner.WithStreaming()).Turn(words)
			require.NoError(t, err)
			require.Equal(t, []string{answer}, remotetest.Texts(events))
			require.Contains(t, []string{"", answer}, streamed)
			require.Equal(t, "completed", last(remotetest.Find[*event.RemoteTask](events)).Status)
		}
	})
}

// A question of the remote agent is answered on the task that asked it.
func TestRemoteAsks(t *testing.T) {
	eachBinding(t, func(t *testing.T, remote agent.Agent, p *peer, _ bool) {
		c := remotetest.NewClient(t, remote, runner.WithStreaming())
		events, _, err := c.Turn("ask")
		require.NoError(t, err)
		require.Equal(t, []string{"Which one?"}, remotetest.Texts(events))
		task := last(remotetest.Find[*event.RemoteTask](events))
		require.Equal(t, "input_required", task.Status)
		require.Equal(t, event.FinishReasonStop, last(remotetest.Find[*event.HarnessEnd](events)).FinishReason)

		events, _, err = c.Turn("the second")
		require.NoError(t, err)
		require.Equal(t, []string{"It is the second."}, remotetest.Texts(events))
		done := last(remotetest.Find[*event.RemoteTask](events))
		require.Equal(t, task.TaskID, done.TaskID)
		require.Equal(t, "completed", done.Status)
		heard := p.heard(t).in(task.ContextID)
		require.Len(t, heard.Messages, 2)
		require.Equal(t, []string{"the second"}, heard.texts(1))
		require.Equal(t, task.TaskID, heard.Messages[1].TaskID)
	})
}

// A turn that is canceled cancels the remote task, if its id is known by then.
func TestRemoteIsCanceled(t *testing.T) {
	eachBinding(t, func(t *testing.T, remote agent.Agent, p *peer, streams bool) {
		c := remotetest.NewClient(t, remote, runner.WithStreaming())
		before := p.heard(t).count("wait")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		known, over := make(chan *event.RemoteTask, 10), make(chan error, 1)
		go func() {
			for e, err := range c.Run(ctx, remotetest.Key, llm.UserText("wait")) {
				if err != nil {
					over <- err
				} else if task, ok := e.Data.(*event.RemoteTask); ok {
					known <- task
				}
			}
			close(over)
		}()
		var task *event.RemoteTask
		if streams {
			task = <-known
			require.Equal(t, "working", task.Status)
		} else {
			must.Wait(t, func() bool { return p.heard(t).count("wait") > before })
		}
		cancel()
		require.ErrorIs(t, <-over, context.Canceled)
		if streams {
			require.Contains(t, p.heard(t).Canceled, task.TaskID)
		}
	})
}

func TestRemoteFails(t *testing.T) {
	eachBinding(t, func(t *testing.T, remote agent.Agent, _ *peer, streams bool) {
		for words, want := range map[string]struct {
			code a2a.ErrorCode
			text string
		}{
			"fail":   {a2a.CodeTaskFailed, "No money."},
			"reject": {a2a.CodeTaskRejected, "Not my job."},
			"crash":  {a2a.CodeTaskFailed, "the wheels came off"},
		} {
			c := remotetest.NewClient(t, remote, runner.WithStreaming())
			events, streamed, err := c.Turn(words)
			var failed *a2a.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, want.code, failed.Code)
			require.Contains(t, failed.Message, want.text)
			require.Empty(t, remotetest.Texts(events))
			if streams && words == "fail" {
				require.Equal(t, "Half an ans", streamed)
				require.Len(t, remotetest.Find[*event.Discard](events), 1)
			}
			require.Equal(t, event.FinishReasonError, last(remotetest.Find[*event.HarnessEnd](events)).FinishReason)

			events, _, err = c.Turn("message") // the session stays usable
			require.NoError(t, err)
			require.Equal(t, []string{"Just words."}, remotetest.Texts(events))
		}
	})
}

// What is no text is named, and metadata neither routes nor shows.
func TestRemoteSendsOddThings(t *testing.T) {
	eachBinding(t, func(t *testing.T, remote agent.Agent, _ *peer, _ bool) {
		c := remotetest.NewClient(t, remote, runner.WithStreaming())
		events, _, err := c.Turn("odd")
		require.NoError(t, err)
		require.Empty(t, remotetest.Find[*event.Transfer](events))
		text := strings.Join(remotetest.Texts(events), "")
		require.True(t, strings.HasPrefix(text, `See {"n":1,"nested":[true,null]}`), text)
		for _, f := range remotetest.Find[*event.File](events) {
			text += " " + f.String()
		}
		wants := []string{"image/png", "https://files.test/y.png", "y.png", "text/plain"}
		if strings.Contains(t.Name(), "http03") {
			wants = wants[:2] // its JSON has no names, and the library wants bytes coded twice
		}
		for _, want := range wants {
			require.Contains(t, text, want)
		}
		require.NotContains(t, text, "admin")
	})
}
