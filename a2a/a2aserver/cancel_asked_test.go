package a2aserver

import (
	"context"
	"testing"
	"testing/synctest"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// lateRelease is a store to which leases are given back late.
type lateRelease struct {
	session.Store
	let chan struct{}
}

func (s *lateRelease) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if !w.Release {
		return s.Store.Write(ctx, key, w)
	}
	w.Release = false
	lease, err := s.Store.Write(ctx, key, w)
	if err == nil {
		go func() {
			<-s.let
			_, _ = s.Store.Write(context.WithoutCancel(ctx), key, session.Write{Lease: lease, Release: true})
		}()
	}
	return lease, err
}

// A task that asks can be canceled at once, although the turn that asked still holds the
// session.
func TestCancelAsSoonAsItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		var ran []string
		script := scripted.New().Add("billing", scripted.Reply(scripted.Call("refund", `{"order":"A1"}`)))
		billing := must.Get(llmagent.New("billing", "You refund.", script.Model("billing"), llmagent.WithTools(refundTool(t, &ran))))
		store := &lateRelease{sessiontest.Memory(t), make(chan struct{})}
		s := must.Get(New(billing, store))
		h := s.RequestHandler()
		asked := sendTask(t, h, ctx, userMessage("m1", "refund A1"))
		require.Equal(t, sdk.TaskStateInputRequired, asked.Status.State)
		canceled := make(chan error)
		go func() {
			_, err := h.CancelTask(ctx, &sdk.CancelTaskRequest{ID: asked.ID})
			canceled <- err
		}()
		synctest.Wait()
		close(store.let)
		require.NoError(t, <-canceled)
		require.Empty(t, ran)
		require.NoError(t, s.Close(ctx))
	})
}
