package human_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// delivered takes words of desks and fails when it is told to, after it took them.
type delivered struct {
	mu     sync.Mutex
	events []human.Event
	fail   error
	during func(human.Event)
}

func (d *delivered) take(_ context.Context, key agent.SessionKey, e human.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if key != legA.Session {
		return fmt.Errorf("for %v", key)
	}
	if d.during != nil {
		d.during(e)
	}
	d.events = append(d.events, e)
	return d.fail
}

var legA = human.Leg{ID: "a", Session: agent.SessionKey{App: "app", User: "ann", ID: "s"}}

func leg(id string) human.Leg { return human.Leg{ID: id, Session: legA.Session} }

func newRoom(t *testing.T, opts ...human.RoomOption) (*human.Room, *delivered) {
	r := must.Get(human.NewRoom(opts...))
	var d delivered
	r.Serve(d.take)
	return r, &d
}

func TestRoom(t *testing.T) {
	room, heard := newRoom(t)
	ctx := t.Context()
	request := human.Request{Leg: legA, From: "billing", Conversation: []human.Message{{ID: "1", Author: "user", Text: "a person, please"}}}
	u, err := room.RequestTransfer(ctx, request)
	require.NoError(t, err)
	require.Equal(t, human.Update{Status: human.Queued, QueuePosition: new(1)}, u)
	u, err = room.RequestTransfer(ctx, human.Request{Leg: leg("b")})
	require.NoError(t, err)
	require.Equal(t, 2, *u.QueuePosition)
	u, err = room.RequestTransfer(ctx, request)
	require.NoError(t, err)
	require.Equal(t, human.Queued, u.Status)
	require.Len(t, room.Messages(legA), 1)

	require.NoError(t, room.Accept(ctx, legA, "anna"))
	second := []human.Message{{ID: "1", Text: "twice"}, {ID: "2", Author: "user", Text: "hello?"}}
	require.NoError(t, room.Send(ctx, legA, second))
	require.NoError(t, room.Send(ctx, legA, second))
	require.NoError(t, room.Say(ctx, legA, "hello"))
	require.NoError(t, room.Hold(ctx, legA))
	for _, early := range []error{room.Hold(ctx, leg("b")), room.Unhold(ctx, leg("b")), room.Complete(ctx, leg("b"), ""), room.End(ctx, leg("b"), "")} {
		require.ErrorIs(t, early, human.ErrTransition, "nobody has accepted it")
	}
	require.ErrorContains(t, room.Accept(ctx, leg("b"), ""), "needs a name")
	require.NoError(t, room.Unhold(ctx, legA))
	require.NoError(t, room.Accept(ctx, legA, "ben"))
	require.Equal(t, []human.Waiting{
		{Request: request, Status: human.Connected, Person: "ben"},
		{Request: human.Request{Leg: leg("b")}, Status: human.Queued},
	}, room.Legs())
	var texts []string
	for _, m := range room.Messages(legA) {
		texts = append(texts, m.Author+": "+m.Text)
	}
	require.Equal(t, []string{"user: a person, please", "user: hello?", "anna: hello"}, texts)
	u, err = room.RequestTransfer(ctx, request)
	require.NoError(t, err)
	require.Equal(t, human.Update{Status: human.Connected, TargetAgent: "ben"}, u, "the answer to the first request was lost")

	require.NoError(t, room.Complete(ctx, legA, "returns"))
	require.NoError(t, room.Refuse(ctx, leg("b"), "nobody here"))
	word := func(id string, u human.Update, text string) human.Event {
		return human.Event{ID: id, HandoffID: "a", Update: u, Text: text}
	}
	require.Equal(t, []human.Event{
		word("3", human.Update{Status: human.Connected, TargetAgent: "anna"}, ""),
		word("4", human.Update{}, "hello"),
		word("5", human.Update{Status: human.OnHold}, ""),
		word("6", human.Update{Status: human.Connected}, ""),
		word("7", human.Update{Status: human.Connected, TargetAgent: "ben"}, ""),
		word("8", human.Update{Status: human.Completed, TargetAgent: "returns"}, ""),
		{ID: "9", HandoffID: "b", Update: human.Update{Status: human.Failed, Reason: "nobody here"}},
	}, heard.events)
	require.Empty(t, room.Legs())
	require.Nil(t, room.Messages(legA))
	require.ErrorIs(t, room.Say(ctx, legA, "still there?"), human.ErrGone)
	require.ErrorIs(t, room.Send(ctx, legA, second), human.ErrGone)
	require.ErrorIs(t, room.Cancel(ctx, legA, ""), human.ErrGone)
}

func TestRoomRefusals(t *testing.T) {
	_, err := human.NewRoom(nil)
	require.ErrorContains(t, err, "option 0 is nil")
	_, err = human.NewRoom(human.WithMaxLegs(0))
	require.ErrorContains(t, err, "at least 1")

	room := must.Get(human.NewRoom(human.WithMaxLegs(1)))
	request := func(id string) error {
		_, err := room.RequestTransfer(t.Context(), human.Request{Leg: leg(id)})
		return err
	}
	require.NoError(t, request("a"))
	require.ErrorContains(t, room.Say(t.Context(), legA, "hi"), "Serve")
	require.ErrorIs(t, request("b"), human.ErrUnavailable)
	require.NoError(t, room.Cancel(t.Context(), legA, "never mind"))
	require.NoError(t, request("b"))
	room.Serve(new(delivered).take)
	require.ErrorContains(t, room.Say(t.Context(), leg("b"), ""), "needs a status")
	room.Close()
	require.NoError(t, room.Say(t.Context(), leg("b"), "we close"), "open handoffs go on")
	require.NoError(t, request("b"))
	require.NoError(t, room.Refuse(t.Context(), leg("b"), "closed"))
	require.ErrorIs(t, request("b"), human.ErrUnavailable)
}

// TestRoomFailedDelivery repeats a word that failed after it was taken: it keeps its ID, and
// another word does not get it.
func TestRoomFailedDelivery(t *testing.T) {
	room, heard := newRoom(t)
	_, err := room.RequestTransfer(t.Context(), human.Request{Leg: legA})
	require.NoError(t, err)
	heard.fail = agent.ErrSessionBusy
	require.ErrorIs(t, room.Accept(t.Context(), legA, "anna"), agent.ErrSessionBusy)
	require.Equal(t, human.Queued, room.Legs()[0].Status)
	require.ErrorIs(t, room.Accept(t.Context(), legA, "anna"), agent.ErrSessionBusy)
	require.ErrorIs(t, room.Accept(t.Context(), legA, "ben"), agent.ErrSessionBusy)
	heard.fail = nil
	require.NoError(t, room.Accept(t.Context(), legA, "ben"))
	require.NoError(t, room.Accept(t.Context(), legA, "ben"))
	var ids []string
	for _, e := range heard.events {
		ids = append(ids, e.ID)
	}
	require.Equal(t, []string{"2", "2", "3", "3", "4"}, ids)
	heard.fail = fmt.Errorf("session s: %w", human.ErrGone)
	require.ErrorIs(t, room.Say(t.Context(), legA, "hello"), human.ErrGone)
	require.Empty(t, room.Legs())
}

// TestRoomAsksAgain hands over again in the turn that a word leads to, as an agent may.
func TestRoomAsksAgain(t *testing.T) {
	room, heard := newRoom(t)
	_, err := room.RequestTransfer(t.Context(), human.Request{Leg: legA})
	require.NoError(t, err)
	heard.during = func(e human.Event) {
		if e.Status == human.Failed {
			_, err := room.RequestTransfer(t.Context(), human.Request{Leg: leg("b")})
			require.NoError(t, err)
			require.NoError(t, room.Send(t.Context(), legA, nil))
		}
	}
	require.NoError(t, room.Refuse(t.Context(), legA, "not mine"))
	require.Len(t, room.Legs(), 1)
	require.Equal(t, leg("b"), room.Legs()[0].Leg)
}

// TestRoomOneWordAtATime lets a second word wait for the first, and give up with its context.
func TestRoomOneWordAtATime(t *testing.T) {
	room, heard := newRoom(t)
	_, err := room.RequestTransfer(t.Context(), human.Request{Leg: legA})
	require.NoError(t, err)
	heard.during = func(e human.Event) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, room.Say(ctx, legA, "two"), context.Canceled)
	}
	require.NoError(t, room.Say(t.Context(), legA, "one"))
	require.Len(t, heard.events, 1)
}

// TestRoomThousandLegs works on a thousand handoffs at once.
func TestRoomThousandLegs(t *testing.T) {
	room, heard := newRoom(t)
	const n = 1000
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			l := leg(fmt.Sprint(i))
			_, err := room.RequestTransfer(t.Context(), human.Request{Leg: l})
			errs[i] = errors.Join(err,
				room.Accept(t.Context(), l, "anna"),
				room.Send(t.Context(), l, []human.Message{{ID: "1", Author: "user", Text: "hi"}}),
				room.Say(t.Context(), l, "hello"))
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Len(t, room.Legs(), n)
	_, err := room.RequestTransfer(t.Context(), human.Request{Leg: leg("more")})
	require.ErrorIs(t, err, human.ErrUnavailable)
	seen := map[string]bool{}
	for _, e := range heard.events {
		require.False(t, seen[e.ID], "%s twice", e.ID)
		seen[e.ID] = true
	}
	require.Len(t, heard.events, 2*n)
	for i := range n {
		require.Len(t, room.Messages(leg(fmt.Sprint(i))), 2)
		require.NoError(t, room.Complete(t.Context(), leg(fmt.Sprint(i)), ""))
	}
	require.Empty(t, room.Legs())
}
