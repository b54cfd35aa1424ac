package router_test

import (
	"context"
	"errors"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// before stands a router before a remote specialist, and one beside it for what fails.
func before(t *testing.T, peer *a2atest.Mock) *runner.Runner {
	t.Helper()
	remote := must.Get(a2a.Remote("returns", "", a2a.WithClient(peer)))
	local := router.Specialist(made(t, "local", says("I am here.")))
	returns := router.Specialist(remote, router.OnError(local))
	front := must.Get(router.New("front", router.Rules(router.When(router.Keyword("return")).To(returns)), router.Default(local)))
	return must.Get(runner.New(front, sessiontest.Memory(t), runner.WithStreaming()))
}

func hear(t *testing.T, r *runner.Runner, words string) (said string) {
	t.Helper()
	for e, err := range sessiontest.Turn(t, r.Run(t.Context(), session.ID("s"), llm.UserText(words))) {
		require.NoError(t, err)
		said += e.Visible()
	}
	return said
}

// TestRemoteStreams: the first words of a remote specialist arrive before its last ones exist.
func TestRemoteStreams(t *testing.T) {
	heard := make(chan struct{})
	peer := a2atest.New().Add(a2atest.Reply(a2atest.Text("First "), a2atest.WaitFor(heard), a2atest.Text("and last.")))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var said string
	for e, err := range before(t, peer).Run(ctx, session.ID("s"), llm.UserText("I return it")) {
		require.NoError(t, err)
		if words := e.Visible(); words != "" {
			if said == "" {
				require.True(t, e.Partial)
				close(heard)
			}
			said += words
		}
	}
	require.Equal(t, "First \n\nand last.", said)
	require.NoError(t, peer.Done())
}

// TestRemoteAsks: what the user answers to a remote specialist's question goes to the same
// task, though no rule names it and the router is not sticky; a rule that matches is stronger.
func TestRemoteAsks(t *testing.T) {
	peer := a2atest.New().
		Add(a2atest.Reply(a2atest.InputRequired("Which order?"))).
		Add(a2atest.Reply(a2atest.ExpectTask(), a2atest.Text("Thank you.")))
	r := before(t, peer)
	require.Equal(t, "Which order?", hear(t, r, "I return it"))
	require.Equal(t, "Thank you.", hear(t, r, "1234"))
	require.Equal(t, "I am here.", hear(t, r, "5678"))
	require.NoError(t, peer.Done())
}

// TestRemoteFails: another specialist goes on, in the same turn, and what was said stays.
func TestRemoteFails(t *testing.T) {
	for name, c := range map[string]struct {
		answer a2atest.Answer
		want   string
	}{
		"refuses":      {a2atest.Reply(a2atest.Fail(sdk.ErrUnauthenticated)), "I am here."},
		"fails":        {a2atest.Reply(a2atest.Failed("")), "I am here."},
		"fails behind": {a2atest.Reply(a2atest.Text("Wait."), a2atest.Failed("")), "Wait.I am here."},
	} {
		t.Run(name, func(t *testing.T) {
			peer := a2atest.New().Add(c.answer)
			r := before(t, peer)
			require.Equal(t, c.want, hear(t, r, "I return it"))
			var failed *event.Route
			for e, err := range r.History(t.Context(), session.ID("s")) {
				require.NoError(t, err)
				if d, ok := e.Data.(*event.Route); ok && d.Failed != nil {
					failed = d
				}
			}
			require.NotNil(t, failed)
			require.Equal(t, []string{"front", "local"}, failed.GraphPath)
			require.NotEmpty(t, failed.Failed.Code)
			require.NoError(t, peer.Done())
		})
	}
}

// TestRemoteCanceled: who cancels the turn cancels the remote task; nobody else goes on.
func TestRemoteCanceled(t *testing.T) {
	peer := a2atest.New().Add(a2atest.Reply(a2atest.Text("First "), a2atest.Block()))
	r := before(t, peer)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for e, err := range r.Run(ctx, session.ID("s"), llm.UserText("I return it")) {
		if last = err; err == nil && e.Visible() != "" {
			cancel()
		}
		if d, ok := eventData(e).(*event.Route); ok {
			require.Nil(t, d.Failed)
		}
	}
	require.ErrorIs(t, last, context.Canceled)
	require.False(t, errors.Is(last, agent.ErrLimit))
	operations := []string{}
	for _, c := range peer.Calls() {
		operations = append(operations, c.Operation)
	}
	require.Contains(t, operations, "CancelTask")
}

func eventData(e *event.Event) event.Data {
	if e == nil {
		return nil
	}
	return e.Data
}
