package sessiontest_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// recorder is a test that notes how it fails.
type recorder struct{ errors, logs []string }

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}
func (r *recorder) Logf(format string, args ...any) {
	r.logs = append(r.logs, fmt.Sprintf(format, args...))
}

// forgetful reads other words than were stored.
type forgetful struct{ session.Store }

func (s forgetful) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for e, err := range s.Store.Load(ctx, key, after) {
			if _, ok := e.Data.(*event.Text); ok {
				other := *e
				other.Data = &event.Text{Content: "?"}
				e = &other
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// turn stores events in one turn, which are given positions and ids.
func turn(t *testing.T, s session.Store, events ...*event.Event) {
	ctx, key := context.Background(), session.ID("s")
	lease := must.Get(sessiontest.Acquire(ctx, s, key, session.Owner{Host: "test"}))
	for i, e := range events {
		e.Seq, e.ID, e.TurnID = lease.Head.Seq+int64(i)+1, fmt.Sprint("i", lease.Head.Seq+int64(i)+1), "t"
	}
	require.NoError(t, sessiontest.Append(ctx, s, key, lease.Head.Seq, lease, events...))
	require.NoError(t, sessiontest.Release(ctx, s, key, lease))
}

func TestChecked(t *testing.T) {
	begin := func() []*event.Event {
		return []*event.Event{
			{RunID: "u", Agent: "user", Data: &event.User{}},
			{RunID: "r", Agent: "a", ParentID: "u:user", Data: &event.HarnessStart{AgentID: "a"}},
			{RunID: "r", Agent: "a", Data: &event.Text{Content: "words"}},
		}
	}
	end := func() *event.Event {
		return &event.Event{RunID: "r", Agent: "a", Data: &event.HarnessEnd{AgentID: "a", FinishReason: event.FinishReasonStop}}
	}

	good := new(recorder)
	store := sessiontest.Memory(good)
	turn(t, store, begin()...)
	turn(t, store, end())
	require.Empty(t, good.errors)

	turn(t, store, end())
	require.Len(t, good.errors, 1)
	require.Contains(t, good.errors[0], "seq 5: a harness_end after the end of its run")
	require.Len(t, good.logs, 5, "the log is told")

	// A session of the same key that was deleted is another one.
	require.NoError(t, store.Delete(context.Background(), session.ID("s")))
	turn(t, store, append(begin(), end())...)
	require.Len(t, good.errors, 1)

	bad := new(recorder)
	turn(t, sessiontest.Checked(bad, forgetful{session.NewMemory()}), begin()...)
	require.Len(t, bad.errors, 1)
	require.Contains(t, bad.errors[0], "seq 3 does not read back as it was written")
}
