package a2agrpc_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
)

// connections counts those of a server.
type connections struct{ open atomic.Int64 }

func (*connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*connections) HandleRPC(context.Context, stats.RPCStats)                         {}
func (c *connections) HandleConn(_ context.Context, s stats.ConnStats) {
	switch s.(type) {
	case *stats.ConnBegin:
		c.open.Add(1)
	case *stats.ConnEnd:
		c.open.Add(-1)
	}
}

// A card that was replaced leaves no connection behind.
func TestConnectionsEnd(t *testing.T) {
	c := &connections{}
	script := scripted.New().Add("helper", scripted.Reply(scripted.Text("One.")), scripted.Reply(scripted.Text("Two.")), scripted.Reply(scripted.Text("Three.")))
	a := newArbor(t, talker(t, script), []grpc.ServerOption{grpc.StatsHandler(c)})
	f := remotetest.NewClient(t, newRemote(t, a.cardURL, a2a.WithCardTTL(0)))
	for range 3 {
		_, _, err := f.Turn("hi")
		require.NoError(t, err)
	}
	must.Wait(t, func() bool {
		runtime.GC()
		return c.open.Load() == 1
	})
	runtime.KeepAlive(f)
}
