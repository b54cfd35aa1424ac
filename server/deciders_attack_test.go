package server_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
)

// decisions is the path of a turn's decisions, in a session of a user.
func decisions(key session.Key, turn string) string {
	return "/api/v1/sessions/" + key.ID + "/turns/" + turn + "/decisions?user=" + key.User
}

// TestTwoDecidersAtOnce: of two users who decide at the same moment, one wins and the other gets a conflict. The tool
// runs once if the winner approved, and never if the winner denied.
func TestTwoDecidersAtOnce(t *testing.T) {
	d := newDeciding(t)
	for round := range 20 {
		key, turn, asked := d.waits("ann", "refund")
		ran, call := d.ran.Load(), asked.Data.(*event.Relay).ToolCallID
		who, approves := [2]string{"sue", session.DefaultUser}, [2]bool{true, round%2 == 0}
		var status [2]int
		var text [2]string
		var both sync.WaitGroup
		begin := make(chan struct{})
		for i := range who {
			both.Go(func() {
				<-begin
				status[i], text[i] = d.send(who[i], decisions(key, turn), m{"decisions": []any{m{"callId": call, "approved": approves[i]}}})
			})
		}
		close(begin)
		both.Wait()
		winner, loser := 0, 1
		if status[0] == http.StatusConflict {
			winner, loser = 1, 0
		}
		require.Less(t, status[winner], 300, text[winner])
		require.Equal(t, http.StatusConflict, status[loser], "%d %s", status[winner], text[loser])
		require.Regexp(t, `"(nothing_waits|session_busy|turn_over)"`, text[loser])
		require.NoError(t, d.turns.WaitFree(t.Context(), key, time.Now().Add(time.Minute)))

		again, read := d.send(who[loser], decisions(key, turn), m{"decisions": []any{m{"callId": call, "approved": true}}})
		require.Equal(t, http.StatusConflict, again, read)
		require.Contains(t, read, "was already answered")
		r, err := d.turns.Report(t.Context(), key, "")
		require.NoError(t, err)
		require.Len(t, r.Decisions(), 1)
		made := d.outcome(key)
		require.Equal(t, who[winner], made.By)
		require.Equal(t, approves[winner], made.Approved)
		if made.Approved {
			ran++
		}
		require.Equal(t, ran, d.ran.Load())
	}
}

// TestReplayedDecisions: a decision is about one call, as it was asked, in its session. Nothing runs when it is sent
// for another one.
func TestReplayedDecisions(t *testing.T) {
	d := newDeciding(t)
	key, turn, asked := d.waits("ann", "refund")
	twin, twinTurn, twinAsked := d.waits("ann", "refund") // the same tool and arguments, and so the same digest
	wire, wireTurn, wireAsked := d.waits("ann", "wire")
	other, otherTurn, otherAsked := d.waits("max", "book")
	decision := func(call, digest *event.Event) m {
		return m{"decisions": []any{m{"callId": call.Data.(*event.Relay).ToolCallID, "approved": true, "digest": digest.Data.(*event.Relay).Digest}}}
	}
	require.Equal(t, asked.Data.(*event.Relay).Digest, twinAsked.Data.(*event.Relay).Digest)
	for name, c := range map[string]struct {
		token, path string
		body        m
		status      int
	}{
		"another call":                     {session.DefaultUser, decisions(key, turn), decision(wireAsked, asked), http.StatusConflict},
		"another digest":                   {session.DefaultUser, decisions(key, turn), decision(asked, wireAsked), http.StatusConflict},
		"no digest that there is":          {session.DefaultUser, decisions(key, turn), m{"decisions": []any{m{"callId": asked.Data.(*event.Relay).ToolCallID, "approved": true, "digest": "none"}}}, http.StatusConflict},
		"a session that asks the same":     {session.DefaultUser, decisions(twin, twinTurn), decision(asked, asked), http.StatusConflict},
		"a session that asks another":      {session.DefaultUser, decisions(wire, wireTurn), decision(asked, asked), http.StatusConflict},
		"the turn of another session":      {session.DefaultUser, decisions(key, twinTurn), decision(asked, asked), http.StatusNotFound},
		"a session of another user":        {"ann", decisions(other, otherTurn), decision(otherAsked, otherAsked), http.StatusForbidden},
		"another user's, as one's own":     {"ann", decisions(session.Key{ID: other.ID}, otherTurn), decision(otherAsked, otherAsked), http.StatusNotFound},
		"another user's, with one's right": {"sue", decisions(other, otherTurn), decision(asked, asked), http.StatusConflict},
	} {
		status, text := d.send(c.token, c.path, c.body)
		require.Equal(t, c.status, status, "%s: %s", name, text)
		for _, k := range []session.Key{key, twin, wire, other} {
			require.Nil(t, d.outcome(k), name)
		}
		require.Zero(t, d.ran.Load(), name)
	}
	for i := range 2 { // what was decided is not decided again
		status, text := d.send("sue", decisions(key, turn), decision(asked, asked))
		require.Equal(t, []int{http.StatusNoContent, http.StatusConflict}[i], status, text)
		require.NoError(t, d.turns.WaitFree(t.Context(), key, time.Now().Add(time.Minute)))
		require.EqualValues(t, 1, d.ran.Load())
	}
	require.Nil(t, d.outcome(twin))
}

// TestDecisionsAboutTheQuestionBefore: a call whose tool has changed asks again. A user who then names only the call
// or the earlier question may have seen only that question, so nothing runs.
func TestDecisionsAboutTheQuestionBefore(t *testing.T) {
	d := newDeciding(t)
	doors := maps.Clone(deciderAPIs)
	maps.DeleteFunc(doors, func(name string, _ decider) bool {
		return !slices.Contains([]string{"native", "responses", "AG-UI", "MCP"}, name)
	})
	doors["responses, by the whole id"] = func(d *deciding, token string, key session.Key, _ string, asked *event.Event) (int, string) {
		id := "mcpr_" + asked.Data.(*event.Relay).ToolCallID + ":" + asked.ID + "@resp." + key.ID
		return d.send(token, "/v1/responses", m{"model": "support", "conversation": key.ID, "input": []any{m{"type": "mcp_approval_response", "approval_request_id": id, "approve": true}}})
	}
	for name, decide := range doors {
		t.Run(name, func(t *testing.T) {
			d.t = t
			require.NoError(t, d.turns.Swap(d.tree("."), nil))
			key, turn, first := d.waits("ann", "book")
			call := first.Data.(*event.Relay).ToolCallID
			next := d.tree(" for all.")
			d.asks.Swap(next)
			require.NoError(t, d.turns.Swap(next, nil))
			status, text := d.send("max", decisions(key, turn), m{"decisions": []any{m{"callId": call, "approved": true}}})
			require.Equal(t, http.StatusAccepted, status, text)
			require.NoError(t, d.turns.WaitFree(t.Context(), key, time.Now().Add(time.Minute)))
			second := must.Get(d.turns.Report(t.Context(), key, "")).Questions()[0]
			require.NotEqual(t, first.Data.(*event.Relay).Digest, second.Data.(*event.Relay).Digest, "it asks again")

			ran := d.ran.Load()
			status, text = decide(d, "ann", key, turn, first)
			require.NoError(t, d.turns.WaitFree(t.Context(), key, time.Now().Add(time.Minute)))
			require.Equal(t, ran, d.ran.Load(), "%d %s", status, text)
			if name == "native" || strings.HasPrefix(name, "responses") {
				require.Equal(t, http.StatusConflict, status, text)
			}
			if strings.Contains(name, "by the whole id") || name == "AG-UI" {
				status, text = decide(d, "ann", key, turn, second)
			} else {
				status, text = d.send("ann", decisions(key, turn), m{"decisions": []any{m{"callId": call, "approved": true, "digest": second.Data.(*event.Relay).Digest}}})
			}
			require.Less(t, status, 300, text)
			require.NoError(t, d.turns.WaitFree(t.Context(), key, time.Now().Add(time.Minute)))
			require.Equal(t, ran+1, d.ran.Load(), text)
			status, text = d.send("ann", decisions(key, turn), m{"decisions": []any{m{"callId": call, "approved": true}}})
			require.Equal(t, http.StatusConflict, status, text)
			require.Contains(t, text, "was already answered or withdrawn")
		})
	}
}
