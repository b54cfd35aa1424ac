package peersuite

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
)

// The caller cancels before the remote agent has said which task it is: its work is
// stopped all the same, as soon as it is known.
func TestCancelBeforeTheTaskIsKnown(t *testing.T) {
	for _, p := range places[1:] {
		t.Run(p.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.Background())
			begun := make(chan struct{}, 1)
			script := scripted.New().Add("support", handOver()).Add("billing", scripted.Reply(scripted.Wait(func(ctx context.Context) error {
				begun <- struct{}{}
				<-ctx.Done()
				return context.Cause(ctx)
			})), says("Here."))
			c := newScene(t, p, script)
			go func() {
				<-begun
				cancel(errors.New("the user has left"))
			}()
			require.Error(t, drain(c.Run(ctx, key, llm.UserText("help")), nil))
			c.billing.ended(t, event.FinishReasonCanceled)
			require.NoError(t, turn(t, c.Runner, "still there?", nil))
		})
	}
}
