package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/mcp"
)

// turn executes a call again and again, as the runs of a turn do, with an answer more each
// time. It returns what was asked, and the result.
type turn struct {
	id      string
	session string
	answers []*event.RelayResolved
	asked   []string
}

func (u *turn) run(t testing.TB, s *mcp.Server, tool, input string) (string, error) {
	t.Helper()
	info := tools.CallInfo{Session: agent.SessionKey{ID: u.session}, RunID: "run", CallID: u.id, Answers: u.answers,
		Ask: func(message string, schema json.RawMessage) { u.asked = append(u.asked, message+" "+string(schema)) }}
	res, err := tools.Execute(context.Background(), list(t, s).Get(tool), info, json.RawMessage(input))
	return event.OutputText(res.Output), err
}

func (u *turn) answer(content string) {
	u.answers = append(u.answers, &event.RelayResolved{Approved: true, Content: json.RawMessage(content)})
}

// What a server asks pauses the call. In the same process the server's call is kept and
// goes on with the answer; in another one it is made again.
func TestElicitation(t *testing.T) {
	t.Parallel()
	const schema = `{"properties":{"seat":{"type":"string"}},"required":["seat"],"type":"object"}`
	for _, c := range []struct{ mode, tool string }{{"kind-legacy", "book"}, {"kind", "reserve"}} {
		t.Run(c.mode, func(t *testing.T) {
			s := start(t, c.mode)
			u := &turn{id: "c1"}
			_, err := u.run(t, s, c.tool, `{"text":"t","n":2}`)
			require.ErrorIs(t, err, agent.ErrWaits)
			require.Equal(t, []string{"mcp server peer: Which seat, 1? " + schema}, u.asked)
			u.answer(`{"seat":"7"}`)
			_, err = u.run(t, s, c.tool, `{"text":"t","n":2}`)
			require.ErrorIs(t, err, agent.ErrWaits)
			require.Len(t, u.asked, 2)
			require.Contains(t, u.asked[1], "Which seat, 2?")
			u.answer(`{"seat":"8"}`)
			text := must.Get(u.run(t, s, c.tool, `{"text":"t","n":2}`))
			require.Equal(t, "t: accept 7, accept 8; call 1", text)
			require.Len(t, u.asked, 2)

			other := start(t, c.mode) // of another process
			text = must.Get(u.run(t, other, c.tool, `{"text":"t","n":2}`))
			require.Equal(t, "t: accept 7, accept 8; call 1", text)
			require.Len(t, u.asked, 2)

			no := &turn{id: "c2", answers: []*event.RelayResolved{{Approved: false, Reason: "not today"}}}
			text = must.Get(no.run(t, s, c.tool, `{"text":"t"}`))
			require.Equal(t, "t: decline <nil>; call 2", text)

			res := must.Get(tools.Execute(t.Context(), list(t, s).Get(c.tool), tools.CallInfo{}, json.RawMessage(`{"text":"t"}`)))
			require.Equal(t, "t: cancel <nil>; call 3", event.OutputText(res.Output), "nobody can be asked")
		})
	}
}

// A server that is started again in the meantime is called again.
func TestElicitationOfAServerThatEnded(t *testing.T) {
	t.Parallel()
	s := start(t, "kind-legacy")
	u := &turn{id: "c1"}
	_, err := u.run(t, s, "book", `{"text":"t"}`)
	require.ErrorIs(t, err, agent.ErrWaits)
	require.NoError(t, s.Close())
	u.answer(`{"seat":"1"}`)
	text := must.Get(u.run(t, start(t, "kind-legacy"), "book", `{"text":"t"}`))
	require.Equal(t, "t: accept 1; call 1", text)
}

// Calls that ask at the same time: where the protocol does not say which of them asks,
// questions of one conversation reach its user, and those of several reach nobody.
func TestElicitationSideBySide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode, tool     string
		one, cancelled bool
	}{{"kind-legacy", "book", true, false}, {"kind-legacy", "book", false, true}, {"kind", "reserve", false, false}} {
		s := start(t, c.mode)
		list(t, s)
		turns := []*turn{{id: "c1", session: "a"}, {id: "c2", session: "b"}}
		if c.one {
			turns[1].session = "a"
		}
		var group sync.WaitGroup
		texts, errs := make([]string, 2), make([]error, 2)
		all := func() {
			for i, u := range turns {
				group.Go(func() { texts[i], errs[i] = u.run(t, s, c.tool, `{"text":"together"}`) })
			}
			group.Wait()
		}
		all()
		if c.cancelled {
			require.NoError(t, errors.Join(errs...))
			require.Contains(t, texts[0], "together: cancel <nil>")
			require.Contains(t, texts[1], "together: cancel <nil>")
			continue
		}
		require.ErrorIs(t, errs[0], agent.ErrWaits)
		require.ErrorIs(t, errs[1], agent.ErrWaits)
		turns[0].answer(`{"seat":"1"}`)
		turns[1].answer(`{"seat":"2"}`)
		all()
		require.NoError(t, errs[0])
		require.Contains(t, texts[0]+texts[1], "accept 1")
		require.Contains(t, texts[0]+texts[1], "accept 2")
	}
}
