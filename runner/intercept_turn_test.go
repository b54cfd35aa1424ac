package runner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// turner wraps turns.
type turner struct {
	agent.Passthrough
	turn func(ctx context.Context, next agent.TurnFunc) iterSeq
}

func (i turner) Turn(ctx context.Context, _ agent.TurnInfo, next agent.TurnFunc) iterSeq {
	return i.turn(ctx, next)
}

// TestInterceptorsOfTurnsThatFail: whatever the interceptor of a turn does, the
// session is free afterwards and its log is whole.
func TestInterceptorsOfTurnsThatFail(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		turn   func(ctx context.Context, next agent.TurnFunc) iterSeq
		err    string
		panics bool
	}{
		"no sequence": {func(context.Context, agent.TurnFunc) iterSeq { return nil }, "an interceptor returned no events", false},
		"an error at once": {func(context.Context, agent.TurnFunc) iterSeq {
			return func(yield func(*event.Event, error) bool) { yield(nil, refused) }
		}, "refused", false},
		"a panic at once": {func(context.Context, agent.TurnFunc) iterSeq { panic("mine") }, "", true},
		"a panic in the middle": {func(ctx context.Context, next agent.TurnFunc) iterSeq {
			return func(yield func(*event.Event, error) bool) {
				for e := range next(ctx) {
					if e.Type() == event.TypeToolResult {
						panic("mine")
					}
				}
			}
		}, "", true},
		"no event gets through": {func(ctx context.Context, next agent.TurnFunc) iterSeq {
			return func(func(*event.Event, error) bool) {
				for range next(ctx) {
				}
			}
		}, "", false},
		"it ends the turn": {func(ctx context.Context, next agent.TurnFunc) iterSeq {
			return func(yield func(*event.Event, error) bool) {
				for e, err := range next(ctx) {
					if !yield(e, err) || e.Type() == event.TypeToolCall {
						return
					}
				}
			}
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			store := sessiontest.Memory(t)
			root := looks(t, "found")
			r := newRunner(t, root, store, runner.WithInterceptors(turner{turn: c.turn}))
			var err error
			play := func() { _, err = say(r, s1, "Hi") }
			switch {
			case c.panics:
				require.PanicsWithValue(t, "mine", play, "it is the program's own code, on the goroutine of the loop")
			case c.err != "":
				play()
				require.ErrorContains(t, err, c.err)
			default:
				play()
				require.NoError(t, err)
			}
			r = newRunner(t, root, store)
			finish(t, r.Resume(context.Background(), s1))
			run(t, r, s1, "And now?")
		})
	}
}
