package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/session/sqlite"
)

func TestSessionsCheck(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.sessions(t, "fork", "story", "--at", "7", "--to", "fork")
	got := s.sessions(t, "check")
	require.Empty(t, got.out)
	require.Equal(t, "arbor: 2 sessions checked: nothing is wrong\n", got.err)

	// Another program writes a second end of a run.
	store := must.Get(sqlite.Open(s.db))
	var last *event.Event
	for e, err := range store.Load(t.Context(), session.ID("story"), 0) {
		require.NoError(t, err)
		last = e
	}
	require.Equal(t, event.TypeHarnessEnd, last.Type())
	lease := must.Get(sessiontest.Acquire(t.Context(), store, session.ID("story"), session.Owner{Host: "test"}))
	again := *last
	again.Seq, again.ID = last.Seq+1, "twice"
	require.NoError(t, sessiontest.Append(t.Context(), store, session.ID("story"), last.Seq, lease, &again))
	require.NoError(t, sessiontest.Release(t.Context(), store, session.ID("story"), lease))
	require.NoError(t, store.Close())

	s.unlawful = true
	got = s.try(t, "check")
	require.Equal(t, 3, got.status)
	require.Regexp(t, `^story: seq \d+: a harness_end after the end of its run\n`, got.out)
	require.Contains(t, got.err, "2 sessions checked: ")
	got = s.try(t, "check", "story", "--json")
	require.Equal(t, 3, got.status)
	require.Regexp(t, `^\{"session":"story","seq":\d+,"message":"a harness_end after the end of its run"\}`, got.out)
	require.Equal(t, "arbor: 1 session checked: nothing is wrong\n", s.sessions(t, "check", "fork").err)

	got = s.try(t, "check", "nobody")
	require.Equal(t, 2, got.status)
	require.Contains(t, got.err, `there is no session "nobody"`)
}
