package runner_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/view"
)

// readStore counts what is read of logs.
type readStore struct {
	session.Store
	loads atomic.Int64
}

func (s *readStore) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	s.loads.Add(1)
	return s.Store.Load(ctx, key, after)
}

// A warm session's log is not read again: what the last turn stored is in
// memory.
func TestAWarmTurnReadsNothing(t *testing.T) {
	s := &readStore{Store: sessiontest.Memory(t)}
	r := newRunner(t, chain(t, 1, "I refund one."), s)
	turn(t, r, s1)
	s.loads.Store(0)
	for range 3 {
		turn(t, r, s1)
	}
	require.Zero(t, s.loads.Load())
}

// TestAPolicyThatPanics: a panic of a view's own function ends the turn with an
// error, and what was half done is not continued.
func TestAPolicyThatPanics(t *testing.T) {
	broken := true
	policy := view.Full().Redact(func(s string) string {
		if broken {
			panic("no words")
		}
		return s
	})
	r := newRun(t, says(t, "solo", "Hello.", llmagent.WithHistory(policy)))
	_, err := collect(r.Run(context.Background(), s1, llm.UserText("one")))
	require.ErrorContains(t, err, "no words")
	broken = false
	run(t, r, s1, "two")
	preview := must.Get(r.Preview(context.Background(), s1, "solo"))
	require.Equal(t, []llm.Message{llm.UserText("one"), llm.UserText("two"), {Role: llm.RoleAssistant, Content: llm.Content{Text: "Hello."}}}, preview.Messages)

	broken = true // when the turn is over, while the view is kept up
	_, _ = collect(r.Run(context.Background(), s1, llm.UserText("three")))
}
