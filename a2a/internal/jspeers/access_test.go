package jspeers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
)

// Callers have tasks of their own; those of others are not there.
func TestClientsAreKeptApart(t *testing.T) {
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		tokens := must.Get(a2aserver.BearerTokens(map[string]string{"ann-token": "ann", "bob-token": "bob"}))
		at := serve(t, support(t), a2aserver.WithAuthenticator(tokens))
		nobody, ann, bob := s.target(at), s.target(at), s.target(at)
		ann.Headers = map[string]string{"Authorization": "Bearer ann-token"}
		bob.Headers = map[string]string{"Authorization": "Bearer bob-token"}
		for _, op := range []string{"send", "stream"} {
			var failed *callError
			require.ErrorAs(t, must.Err(s.stream(nobody, op, s.say("hello", nil)).next()), &failed)
		}
		done := s.send(ann, s.say("hello", nil))
		require.NoError(t, s.call(ann, "get", map[string]any{"id": done.ID}, nil))
		for _, op := range []string{"get", "cancel", "subscribe"} {
			s.refused("TaskNotFoundError", bob, op, map[string]any{"id": done.ID})
		}
		s.refused("TaskNotFoundError", bob, "send", s.say("hi", map[string]any{"taskId": done.ID}))
		if !s.old && !s.legacy {
			var list struct{ Tasks []task }
			require.NoError(t, s.call(bob, "list", map[string]any{}, &list))
			require.Empty(t, list.Tasks)
			require.NoError(t, s.call(ann, "list", map[string]any{}, &list))
			require.Len(t, list.Tasks, 1)
		}
		var card map[string]any // of those who have shown who they are
		require.NoError(t, s.call(ann, "extendedCard", nil, &card))
		require.NotEmpty(t, card["name"])
	})
}

// A client that asks for our extension learns who says what.
func TestClientAsksForTheExtension(t *testing.T) {
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		plain := s.target(serve(t, support(t)))
		to := plain
		to.Headers = map[string]string{"A2A-Extensions": a2a.Extension}
		if s.old {
			to.Headers = map[string]string{"X-A2A-Extensions": a2a.Extension}
		}
		done := s.send(to, s.say("charges", nil))
		require.Len(t, done.Artifacts, 2)
		author, ok := done.Artifacts[1].Metadata[a2a.Extension].(map[string]any)
		require.True(t, ok)
		require.Equal(t, "billing", author["agent"])
		require.Equal(t, "support/billing", author["path"])
		require.NotEmpty(t, author["runId"])
		require.Contains(t, done.Artifacts[1].Extensions, a2a.Extension)

		done = s.send(plain, s.say("charges", nil))
		for _, a := range done.Artifacts {
			require.Empty(t, a.Metadata)
			require.Empty(t, a.Extensions)
		}
	})
}

// tenant is a tree that is told apart from support.
func tenant(t *testing.T) agent.Agent {
	t.Helper()
	return must.Get(llmagent.New("clerk", "You sell.", scripted.Func("clerk", func(*llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Text("Welcome to the shop."))
	})))
}

// Several trees are behind one address; a card names the tenant, and the client sends
// it with each request.
func TestClientOfATenant(t *testing.T) {
	eachSpeaker(t, func(t *testing.T, s *speaker) {
		at := serve(t, support(t), a2aserver.WithTenant("shop", tenant(t)))
		to := s.target(at)
		to.Card = at.card("/shop")
		done := s.send(to, s.say("hello", nil))
		require.Equal(t, []string{"clerk: Welcome to the shop."}, done.texts())
		require.NoError(t, s.call(to, "get", map[string]any{"id": done.ID}, nil))
		s.refused("TaskNotFoundError", s.target(at), "get", map[string]any{"id": done.ID})
	})
}
