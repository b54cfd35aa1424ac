package a2atest_test

import (
	"testing"
	"testing/synctest"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// turn is what came of one turn of a remote agent.
type turn struct {
	said   []string
	finish event.FinishReason
	err    error
}

func newRunner(t *testing.T, peer *a2atest.Mock) *runner.Runner {
	t.Helper()
	remote, err := a2a.Remote("billing", "", a2a.WithClient(peer))
	require.NoError(t, err)
	r, err := runner.New(remote, sessiontest.Memory(t))
	require.NoError(t, err)
	return r
}

func run(t *testing.T, r *runner.Runner, text string) (done turn) {
	t.Helper()
	events := r.Resume(t.Context(), session.ID("s1"))
	if text != "" {
		events = r.Run(t.Context(), session.ID("s1"), llm.UserText(text))
	}
	for e, err := range events {
		if err != nil {
			done.err = err
			break
		}
		switch d := e.Data.(type) {
		case *event.Text:
			done.said = append(done.said, d.Content)
		case *event.HarnessEnd:
			done.finish = d.FinishReason
		}
	}
	return done
}

func operations(peer *a2atest.Mock) (all []string) {
	for _, c := range peer.Calls() {
		all = append(all, c.Operation)
	}
	return all
}

// A remote agent understands all that a Mock can do.
func TestRemoteAgentUnderstandsMock(t *testing.T) {
	open := make(chan struct{})
	close(open)
	for name, c := range map[string]struct {
		answer a2atest.Answer
		said   string
		finish event.FinishReason
		code   a2a.ErrorCode
	}{
		"text":      {a2atest.Reply(a2atest.Progress("looking"), a2atest.Text("two ", "charges")), "two charges", event.FinishReasonStop, ""},
		"snapshots": {a2atest.Reply(a2atest.Snapshots("two", "two charges")), "two charges", event.FinishReasonStop, ""},
		"completed": {a2atest.Reply(a2atest.Completed("done")), "done", event.FinishReasonStop, ""},
		"message":   {a2atest.Reply(a2atest.WaitFor(open), a2atest.Message("hello")), "hello", event.FinishReasonStop, ""},
		"slow":      {a2atest.Reply(a2atest.Text("a"), a2atest.WaitFor(open), a2atest.Completed("b")), "a\n\nb", event.FinishReasonStop, ""},
		"cut":       {a2atest.Reply(a2atest.Text("two"), a2atest.Cut(), a2atest.Completed("charges")), "two\n\ncharges", event.FinishReasonStop, ""},
		"outage":    {a2atest.Reply(a2atest.Text("two"), a2atest.Outage(3), a2atest.Completed("charges")), "two\n\ncharges", event.FinishReasonStop, ""},
		"input":     {a2atest.Reply(a2atest.InputRequired("which?")), "which?", event.FinishReasonStop, ""},
		"failed":    {a2atest.Reply(a2atest.Failed("no")), "", "", a2a.CodeTaskFailed},
		"rejected":  {a2atest.Reply(a2atest.Rejected("no")), "", "", a2a.CodeTaskRejected},
		"canceled":  {a2atest.Reply(a2atest.Canceled("")), "", "", a2a.CodeTaskCanceled},
		"refused":   {a2atest.Reply(a2atest.Fail(sdk.ErrUnauthenticated)), "", "", a2a.CodeUnauthorized},
		"lost":      {a2atest.Reply(a2atest.Text("two"), a2atest.Fail(sdk.ErrInternalError)), "", "", a2a.CodeProtocol},
		"drift":     {a2atest.Reply(a2atest.ExpectText("bye")), "", "", a2a.CodeProtocol},
	} {
		for kind, opts := range map[string][]a2atest.Option{"stream": nil, "no stream": {a2atest.WithoutStreaming()}} {
			if opts != nil && (name == "cut" || name == "outage") {
				continue // there is no handle of a task to ask for
			}
			t.Run(name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					peer := a2atest.New(opts...).Add(c.answer)
					done := run(t, newRunner(t, peer), "hello")
					if c.code != "" {
						var failed *a2a.Error
						require.ErrorAs(t, done.err, &failed)
						require.Equal(t, c.code, failed.Code)
						if name == "drift" {
							require.ErrorIs(t, done.err, a2atest.ErrDrift)
							require.ErrorIs(t, peer.Done(), a2atest.ErrDrift)
						}
						return
					}
					require.NoError(t, done.err)
					require.Equal(t, []string{c.said}, done.said)
					require.Equal(t, c.finish, done.finish)
					require.NoError(t, peer.Done())
					require.Len(t, peer.Messages(), 1, "what was sent once is not sent again")
				})
			})
		}
	}
}

// A pause for an authorization ends when the turn is taken up again.
func TestRemoteAgentWaitsForAuthorization(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := a2atest.New().Add(a2atest.Reply(a2atest.AuthRequired("Log in at example.com"), a2atest.Text("done")))
		r := newRunner(t, peer)
		done := run(t, r, "hello")
		require.NoError(t, done.err)
		require.Equal(t, event.FinishReasonInputRequired, done.finish)
		require.Equal(t, []string{"Log in at example.com"}, done.said)
		done = run(t, r, "")
		require.NoError(t, done.err)
		require.Equal(t, event.FinishReasonStop, done.finish)
		require.Equal(t, []string{"done"}, done.said)
		require.NotContains(t, operations(peer)[1:], "SendStreamingMessage")
		require.NoError(t, peer.Done())
	})
}
