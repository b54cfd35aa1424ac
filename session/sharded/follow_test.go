package sharded_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/tail"
)

// TestFollowedAcrossAMove: who follows a session sees what comes after it has moved, and that it was deleted when it was.
func TestFollowedAcrossAMove(t *testing.T) {
	stores := kinds["memory"](t)
	growing := layout{now: "abc", former: "ab"}.over(t, stores)
	var key session.Key
	for i := range 12 { // one whose sessions move
		if key = user(i, "s1"); growing.Home(key) == "c" {
			break
		}
	}
	require.NoError(t, write(t.Context(), layout{now: "ab"}.over(t, stores), key, say("a")))
	live, err := tail.New(growing, tail.WithPoll(time.Hour))
	require.NoError(t, err)
	texts, failed := make(chan string), make(chan error, 1)
	go func() {
		for entry, err := range live.Follow(t.Context(), key, "") {
			if err != nil {
				failed <- err
				close(texts)
				return
			}
			texts <- entry.Event.Text()
		}
	}()
	require.Equal(t, "a", <-texts)
	require.NoError(t, write(t.Context(), live, key, say("b")))
	require.Equal(t, "b", <-texts)
	report, err := growing.Rebalance(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, report.Moved)
	require.NoError(t, write(t.Context(), live, key, say("c")))
	require.Equal(t, "c", <-texts)
	require.NoError(t, live.Delete(t.Context(), key))
	require.Empty(t, <-texts)
	require.ErrorIs(t, <-failed, agent.ErrConflict)
}
