package runner_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// sickAt is a store that stores nothing any more from an event of a type on.
type sickAt struct {
	session.Store
	from string
	sick bool
}

func (s *sickAt) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) == 0 {
		return s.Store.Write(ctx, key, w)
	}
	events := w.Events
	for _, e := range events {
		s.sick = s.sick || e.Type() == s.from
	}
	if s.sick {
		return session.Lease{}, errDisk
	}
	return s.Store.Write(ctx, key, w)
}

// TestLeftByAFailingStore: a turn that the store has ended is an orphan, and whoever finds it goes on with it. One that has
// not begun, or that somebody has stopped, is none.
func TestLeftByAFailingStore(t *testing.T) {
	for _, tt := range []struct {
		name, from string
		stopped    bool
		orphans    int
	}{
		{"in the middle", event.TypeText, false, 1},
		{"before the words", event.TypeUser, false, 0},
		{"after it was stopped", event.TypeText, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := &sickAt{Store: sessiontest.Memory(t), from: tt.from}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			root := must.Get(llmagent.New("root", "", scripted.Func("m", func(*llm.Request) scripted.Answer {
				if tt.stopped {
					cancel()
				}
				return scripted.Reply(scripted.Text("Yes."))
			})))
			r := newRunner(t, root, store)
			_, err := collect(r.Run(ctx, s1, llm.UserText("Hi")))
			require.Error(t, err)
			left := must.Get(store.Orphans(t.Context(), session.Page{}))
			require.Len(t, left, tt.orphans)
			if tt.orphans == 0 {
				return
			}
			// A process that adopts it while the store is down leaves it as it was.
			_, err = collect(r.Adopt(t.Context(), s1))
			require.ErrorIs(t, err, errDisk)
			left = must.Get(store.Orphans(t.Context(), session.Page{}))
			require.Len(t, left, 1)

			store.sick, store.from = false, ""
			events := finish(t, newRunner(t, root, store).Adopt(t.Context(), s1))
			require.Equal(t, event.NoticeAdopted, events[0].Data.(*event.Notice).Code)
			require.Equal(t, event.TypeHarnessEnd, events[len(events)-1].Type())
			require.Empty(t, must.Get(store.Orphans(t.Context(), session.Page{})))
		})
	}
}

// TestAdoptOfAFork: a fork without events of its own continues in its own run, although no process continues
// the other session any more.
func TestAdoptOfAFork(t *testing.T) {
	store := sessiontest.Memory(t)
	root := must.Get(llmagent.New("root", "", scripted.Func("m", func(*llm.Request) scripted.Answer { return scripted.Reply(scripted.Text("Yes.")) })))
	r := newRunner(t, root, store)
	_, _, err := r.Begin(t.Context(), s1, llm.UserText("Hi"))
	require.NoError(t, err)
	for range 3 {
		for e, err := range r.Adopt(t.Context(), s1) {
			require.NoError(t, err)
			require.Equal(t, event.NoticeAdopted, e.Data.(*event.Notice).Code)
			break
		}
	}
	_, err = collect(r.Adopt(t.Context(), s1))
	require.ErrorIs(t, err, runner.ErrLeft)
	log := load(t, r, s1)
	require.NoError(t, store.Fork(t.Context(), s1, int64(len(log)), forked))

	events := finish(t, r.Adopt(t.Context(), forked))
	require.Equal(t, event.TypeHarnessStart, events[0].Type())
	require.Equal(t, event.NoticeForked, events[1].Data.(*event.Notice).Code)
	require.Equal(t, event.NoticeAdopted, events[2].Data.(*event.Notice).Code)
	require.Equal(t, event.TypeHarnessEnd, events[len(events)-1].Type())
	for _, e := range events {
		require.NotEqual(t, log[len(log)-1].RunID, e.RunID, "the run of the other session")
	}
	require.Len(t, load(t, r, s1), len(log))
}

// TestAdvance drives a turn step by step, each in a process of its own, and
// compares with the undisturbed run.
func TestAdvance(t *testing.T) {
	const agents, script = "support lookup\n  billing lookup", `
support: "One moment." call lookup#c1 {"id": 1} call transfer_to_agent#c2 {"agent_name": "billing"}
billing: call lookup#c3 {"id": 2}
billing: "Done."`
	ctx := context.Background()
	root, _ := tree(t, agents, script)
	whole := newRun(t, root, runner.WithIDs(transcript.Counter()))
	want := run(t, whole, s1, "Hi")

	root, s := tree(t, agents, script)
	store := sessiontest.Memory(t)
	ids := transcript.Counter()
	process := func() *runner.Runner {
		return newRunner(t, root, store, runner.WithIDs(ids))
	}
	got, _, err := process().Begin(ctx, s1, llm.UserText("Hi"))
	require.NoError(t, err)
	var steps []int
	for done := false; !done; {
		var events []*event.Event
		events, done, err = over(process().Advance(ctx, s1, runner.Step{Attempt: 1}))
		require.NoError(t, err)
		steps = append(steps, len(events))
		got = append(got, events...)
	}
	require.Equal(t, []int{4, 5, 2, 1, 3}, steps)
	require.Equal(t, len(want), len(got))
	for i := range want {
		require.Equal(t, want[i].Type(), got[i].Type())
		require.Equal(t, want[i].Data, got[i].Data)
	}
	require.NoError(t, s.Done())

	events, done, err := over(process().Advance(ctx, s1, runner.Step{Attempt: 1}))
	require.NoError(t, err)
	require.True(t, done, "the turn is over")
	require.Empty(t, events)
	_, done, err = over(process().Advance(ctx, session.ID("new"), runner.Step{Attempt: 1}))
	require.NoError(t, err)
	require.True(t, done)
}

// over tells of a step whether its turn is over.
func over(events []*event.Event, s runner.TurnState, err error) ([]*event.Event, bool, error) {
	return events, s.Over, err
}
