package temporal_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"

	"github.com/agentarbor/arbor/event"
	mustpkg "github.com/agentarbor/arbor/internal/testing/must" // page_test.go has a function must
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/client"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// serve serves a desk over HTTP, with the engine behind all that clients do.
func (d *desk) serve() (*live.Turns, *client.Client) {
	turns, err := live.New(d.runner, d.store, live.WithApprover(tools.ByUser()), live.WithBackend(func(*runner.Runner) live.Backend { return d.engine }))
	require.NoError(d, err)
	users, err := access.Secrets(map[string]string{"0123456789abcdef0123456789abcdef": session.DefaultUser})
	require.NoError(d, err)
	bearer, err := access.Bearer(users)
	require.NoError(d, err)
	guard, err := access.New(access.Options{Users: bearer})
	require.NoError(d, err)
	api, err := server.New(turns, server.WithGuard(guard))
	require.NoError(d, err)
	web := httptest.NewServer(server.Mux(api))
	d.Cleanup(web.Close)
	d.Cleanup(func() { _ = turns.Close(context.Background()) })
	c, err := client.New(web.URL, client.WithToken("0123456789abcdef0123456789abcdef"))
	require.NoError(d, err)
	d.key = session.ID(fmt.Sprint("served-", sessions.Add(1)))
	return turns, c
}

func (d *desk) begin(c *client.Client, text string) *client.Turn {
	d.Helper()
	turn, err := c.Begin(d.Context(), d.key.ID, client.Message{Content: llm.Content{Text: text}})
	require.NoError(d, err)
	return turn
}

// rests waits until a turn is in a state.
func (d *desk) rests(c *client.Client, turn *client.Turn, state string) (now *client.Turn) {
	d.Helper()
	mustpkg.Wait(d, func() bool {
		var err error
		now, err = c.Turn(context.Background(), d.key.ID, turn.ID)
		return err == nil && now.State == state
	})
	return now
}

// TestServer has clients of package server do what they do with a runner: what happens is done by a worker.
func TestServer(t *testing.T) {
	answer, asked := slow()
	d := open(t, nil, nil, nil, pays, refunds, answer, asIs, answer, asIs)
	_, c := d.serve()

	turn := d.begin(c, "Pay it.")
	require.Equal(t, "secret: Done.", d.rests(c, turn, "done").Text)
	require.EqualValues(t, 1, d.paid.Load())

	turn = d.begin(c, "Money back")
	d.rests(c, turn, "waiting")
	_, err := c.Decide(t.Context(), d.key.ID, turn.ID, client.Decision{CallID: d.call(0), Approved: true})
	require.Error(t, err, "the call of the turn before")
	asksFor := d.rests(c, turn, "waiting").Pending
	require.Len(t, asksFor, 1)
	_, err = c.Decide(t.Context(), d.key.ID, turn.ID, client.Decision{CallID: asksFor[0].CallID, Approved: true})
	require.NoError(t, err)
	d.rests(c, turn, "done")
	require.EqualValues(t, 2, d.paid.Load())

	turn = d.begin(c, "Stop it")
	<-asked
	stopped, err := c.Stop(t.Context(), d.key.ID, turn.ID)
	require.NoError(t, err)
	require.Equal(t, "cut_off", stopped.State)
	require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, d.closes(), "nobody goes on with it")
	_, err = c.Resume(t.Context(), d.key.ID, turn.ID)
	require.NoError(t, err)
	require.Equal(t, "secret: As it is.", d.rests(c, turn, "done").Text)

	turn = d.begin(c, "Cancel it")
	<-asked
	canceled, err := c.Cancel(t.Context(), d.key.ID, turn.ID)
	require.NoError(t, err)
	require.Equal(t, "canceled", canceled.State)
	require.Equal(t, event.FinishReasonCanceled, d.over().Finish)

	turn = d.begin(c, "And now?")
	d.rests(c, turn, "done")
}

// TestStopElsewhere: a server stops a turn that another server began, while a worker runs it and before one does.
func TestStopElsewhere(t *testing.T) {
	answer, asked := slow()
	for name, d := range map[string]*desk{
		"worked on": open(t, nil, nil, nil, answer, asIs),
		"unmanned":  unmanned(t, nil, nil, nil, asIs),
	} {
		_, c := d.serve()
		turn, key := d.begin(c, "Stop it"), d.key
		_, other := d.serve()
		d.key = key
		if name == "worked on" {
			<-asked
		}
		stopped, err := other.Stop(t.Context(), d.key.ID, turn.ID)
		require.NoError(t, err, name)
		require.Equal(t, "cut_off", stopped.State, name)
		if name == "unmanned" { // its workflow begins no step before somebody resumes the turn
			d.worker()
		} else {
			require.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, d.closes(), name)
		}
		last := d.log()[len(d.log())-1].Data
		require.Equal(t, event.NoticeStopped, last.(*event.Notice).Code, name)
		_, err = other.Resume(t.Context(), d.key.ID, turn.ID)
		require.NoError(t, err, name)
		require.Equal(t, "secret: As it is.", d.rests(c, turn, "done").Text, name)
	}
}

// TestServerGoes: a turn outlives the server that began it, and whoever follows at another one sees all of it.
func TestServerGoes(t *testing.T) {
	d := unmanned(t, nil, nil, nil, pays)
	turns, c := d.serve()
	turn := d.begin(c, "Pay it.")
	require.NoError(t, turns.Close(t.Context()))
	d.worker()
	require.Equal(t, event.FinishReasonStop, d.over().Finish)

	key := d.key
	_, c = d.serve()
	d.key = key
	require.Equal(t, "secret: Done.", d.rests(c, turn, "done").Text)
	require.EqualValues(t, 1, d.paid.Load())
}

// TestFollowers: everybody who follows sees the same, deltas too, whenever they come.
func TestFollowers(t *testing.T) {
	answer, asked := slow()
	d := open(t, nil, nil, nil, answer, asIs)
	turns, c := d.serve()
	turn := d.begin(c, "Follow it")
	<-asked
	ctx, quit := context.WithTimeout(t.Context(), 3*time.Minute)
	defer quit()
	seen := func(stored *[]*event.Event, parts *int) {
		for entry, err := range turns.Follow(ctx, d.key, "") {
			if err != nil {
				return
			}
			if entry.Event.Partial {
				*parts++
				continue
			}
			*stored = append(*stored, entry.Event)
			if end, ok := entry.Event.Data.(*event.HarnessEnd); ok && end.FinishReason == event.FinishReasonCanceled {
				return
			}
		}
	}
	var one, other []*event.Event
	var oneParts, otherParts int
	done := make(chan struct{})
	go func() { defer close(done); seen(&one, &oneParts) }()
	resumed, follows := make(chan []*event.Event), make(chan struct{}, 1)
	go func() {
		var events []*event.Event
		for e, err := range d.engine.Resume(ctx, d.key) { // a worker has it at work already
			if err != nil {
				events = nil
			} else if !e.Partial {
				events = append(events, e)
			}
			select {
			case follows <- struct{}{}:
			default:
			}
		}
		resumed <- events
	}()
	seenByOther := make(chan struct{})
	go func() { defer close(seenByOther); seen(&other, &otherParts) }()
	<-follows
	_, err := c.Cancel(t.Context(), d.key.ID, turn.ID)
	require.NoError(t, err)
	<-done
	<-seenByOther
	require.Equal(t, d.log(), one)
	require.Equal(t, d.log(), other)
	require.Positive(t, oneParts)
	require.Positive(t, otherParts)
	rest := <-resumed
	history, _ := d.workflow()
	signals := 0
	for _, e := range history {
		if e.EventType == enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED {
			signals++
		}
	}
	require.LessOrEqual(t, signals, 1, "who follows costs the workflow nothing; who cancels does")
	require.Equal(t, d.log()[len(d.log())-len(rest):], rest)
	require.NotEmpty(t, rest)
}
