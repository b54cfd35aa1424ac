package runner_test

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/tail"
)

// acts1 notes who acts in s1, nil being nobody.
func (w *world) acts1(r *runner.Runner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acting = r
}

// glances looks at the session from inside of a turn: the runner that has it knows all that is
// stored, and the list says that somebody has it.
func (w *world) glances(info session.Info) {
	if !info.Leased {
		w.problem("the session %s is not leased while a model is asked", info.Key)
	}
	w.mu.Lock()
	acting, ours := w.acting, w.key == s1
	w.mu.Unlock()
	if acting == nil || !ours {
		return
	}
	err := acting.Glance(context.Background(), s1, func(f *session.Fold) error {
		if f.Seq < info.Seq {
			w.problem("a glance at %d in a turn whose log ends at %d", f.Seq, info.Seq)
		}
		return nil
	})
	if err != nil {
		w.problem("a glance: %v", err)
	}
}

// checkLive holds what others are told of a turn against the log: its report, and what they see who
// watch it from anywhere. The turn is the last one, or one before.
func (w *world) checkLive(r *runner.Runner) {
	ctx := context.Background()
	info, ok, err := session.Find(ctx, w.store, s1)
	require.NoError(w.t, err)
	require.False(w.t, info.Leased, "somebody has the session when the turn is over")
	if !ok {
		return
	}
	require.NoError(w.t, r.Glance(ctx, s1, func(f *session.Fold) error {
		var cold session.Fold
		for _, e := range w.log {
			cold.Apply(e)
		}
		require.Equal(w.t, cold.Seq, f.Seq)
		require.Equal(w.t, cold.Turn.ID, f.Turn.ID)
		require.Equal(w.t, cold.Turn.First, f.Turn.First)
		require.Equal(w.t, cold.Unfinished(), f.Unfinished())
		require.Equal(w.t, cold.Questions(), f.Questions())
		require.Equal(w.t, cold.Open(), f.Open())
		return nil
	}))
	store := must.Get(tail.New(w.storage))
	// However long the check takes, nobody who watches a turn that is cut off resumes it.
	turns := must.Get(live.New(r, store, live.WithAutoResume(func(*event.User) bool { return false })))
	defer func() { require.NoError(w.t, turns.Close(ctx)) }()

	var firsts []*event.Event
	for _, e := range w.log {
		if e.Type() == event.TypeUser {
			firsts = append(firsts, e)
		}
	}
	if len(firsts) == 0 {
		return
	}
	i := len(firsts) - 1
	if len(w.log)%3 == 0 {
		i = len(w.log) / 3 % len(firsts)
	}
	first, last := firsts[i], i == len(firsts)-1
	got, err := turns.Report(ctx, s1, first.TurnID)
	require.NoError(w.t, err)
	var end *event.HarnessEnd // of the conversation's last run
	open, seq := true, int64(0)
	for _, e := range w.log[first.Seq-1:] {
		if e.TurnID != first.TurnID {
			break
		}
		seq = e.Seq
		if e.Scope == "" {
			switch d := e.Data.(type) {
			case *event.HarnessStart:
				open = true
			case *event.HarnessEnd:
				end, open = d, d.FinishReason == event.FinishReasonTransfer
			}
		}
	}
	want := live.Done
	switch {
	case !last && (open || end.FinishReason == event.FinishReasonInputRequired):
		want = live.Canceled
	case open:
		want = live.CutOff
	case end.FinishReason == event.FinishReasonInputRequired:
		want = live.Waiting
	case end.FinishReason == event.FinishReasonCanceled:
		want = live.Canceled
	case end.FinishReason == event.FinishReasonError, end.FinishReason == event.FinishReasonLimit:
		want = live.Failed
	}
	require.Equal(w.t, want, got.State)
	require.Equal(w.t, []int64{first.Seq, seq}, []int64{got.First, got.Seq})
	w.happened["a turn that is "+string(want)] = true

	after := first.Seq - 1 + int64(len(w.log))%(seq-first.Seq+2)
	if want == live.CutOff && after == seq {
		return // nothing comes
	}
	for entry, err := range turns.Watch(ctx, s1, first.Seq, session.Position{Seq: after}.String()) {
		require.NoError(w.t, err)
		after++
		require.Equal(w.t, after, entry.Event.Seq)
		w.requireSame(int(after)-1, entry.Event)
		if want == live.CutOff && after == seq {
			break
		}
	}
	require.Equal(w.t, seq, after, "a watch has left something out")
}
