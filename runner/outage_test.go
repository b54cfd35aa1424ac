package runner_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// failsOnce is a store that fails once in an operation, when it is told to.
type failsOnce struct {
	session.Store
	in string
}

func (s *failsOnce) fails(operation string) error {
	if s.in != operation {
		return nil
	}
	s.in = ""
	return errStoreDied
}

func (s *failsOnce) SharedState(ctx context.Context, key session.Key) (map[string]any, error) {
	if err := s.fails("SharedState"); err != nil {
		return nil, err
	}
	return s.Store.SharedState(ctx, key)
}

func (s *failsOnce) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	if err := s.fails("Load"); err != nil {
		return func(yield func(*event.Event, error) bool) { yield(nil, err) }
	}
	return s.Store.Load(ctx, key, after)
}

func (s *failsOnce) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) > 0 {
		if err := s.fails("Write"); err != nil {
			return session.Lease{}, err
		}
	}
	return s.Store.Write(ctx, key, w)
}

// TestOutageIsNobodysFailure: an operation of the store fails once, whichever it is, and it works again at once. The turn
// is cut off. Nothing in the log blames an agent, and whoever resumes the turn brings it to its end.
func TestOutageIsNobodysFailure(t *testing.T) {
	for _, operation := range []string{"SharedState", "Load", "Write"} {
		t.Run(operation, func(t *testing.T) {
			ctx := context.Background()
			store := &failsOnce{Store: sessiontest.Memory(t)}
			model := scripted.Func("m", func(*llm.Request) scripted.Answer { return scripted.Reply(scripted.Text("Hello.")) })
			a := must.Get(llmagent.New("solo", "Obey {user:name?}.", model, llmagent.WithStateInInstructions()))
			for range 300 { // more than a runner keeps of what it has just read
				require.NoError(t, drain(newRunner(t, a, store).Run(ctx, s1, llm.UserText("hi"))))
			}
			var err error
			for e, wrong := range newRunner(t, a, store).Run(ctx, s1, llm.UserText("hi")) {
				if err = wrong; err == nil && e.Type() == event.TypeHarnessStart {
					store.in = operation
				}
			}
			require.ErrorIs(t, err, errStoreDied)
			require.False(t, errors.As(err, new(*agent.RunError)), "no agent has failed")
			require.Empty(t, store.in, "it has failed")
			r := newRunner(t, a, store)
			state, err := r.State(ctx, s1)
			require.NoError(t, err)
			require.False(t, state.Over)
			require.NoError(t, drain(r.Resume(ctx, s1)))
			for e, err := range store.Store.Load(ctx, s1, 0) {
				require.NoError(t, err)
				require.NotEqual(t, event.TypeError, e.Type())
			}
		})
	}
}
