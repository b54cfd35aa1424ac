package a2agrpc_test

import (
	"context"
	"net"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2agrpc"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/servers"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// A server that goes away in mid-task and comes back with its store finishes the task, and the
// node that began it gets the whole answer without sending its words again.
func TestArborRestarts(t *testing.T) {
	sl, root := newSlow(t)
	store := sessiontest.Memory(t)
	begin := func(address string) (*a2aserver.Server, *grpc.Server, string) {
		listener, err := net.Listen("tcp", address)
		require.NoError(t, err)
		s, err := a2aserver.New(root, store)
		require.NoError(t, err)
		g, err := a2agrpc.NewServer(s)
		require.NoError(t, err)
		go func() { _ = g.Serve(listener) }()
		return s, g, listener.Addr().String()
	}
	first, firstGRPC, address := begin(servers.Address(t))
	card := &sdk.AgentCard{Name: "slow", Capabilities: sdk.AgentCapabilities{Streaming: true}, SupportedInterfaces: []*sdk.AgentInterface{ptr(a2agrpc.Interface(address))}}
	cards := httptest.NewServer(a2asrv.NewStaticAgentCardHandler(card))
	defer cards.Close()
	restarted, stored := make(chan func(), 1), make(chan struct{})
	go func() {
		<-sl.begun
		<-stored
		if err := first.Close(context.Background()); err != nil {
			panic(err)
		}
		firstGRPC.Stop()
		second, secondGRPC, _ := begin(address)
		<-sl.begun
		close(sl.free)
		restarted <- func() {
			_ = second.Close(context.Background())
			secondGRPC.Stop()
		}
	}()
	var events []*event.Event
	for e, err := range newRunner(t, newRemote(t, cards.URL), runner.WithStreaming()).Run(context.Background(), key, llm.UserText("hi")) {
		require.NoError(t, err)
		if e.Partial {
			continue
		}
		if events = append(events, e); len(find[*event.RemoteTask](events)) == 1 && e.Type() == event.TypeRemoteTask {
			close(stored)
		}
	}
	require.Equal(t, []string{"thinking 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19"}, said(events))
	(<-restarted)()
	infos, err := store.List(context.Background(), session.Key{}, session.Page{})
	require.NoError(t, err)
	require.Len(t, infos, 1, "the words were sent once")
}

// Many streams share a connection, and calls beside them get through.
func TestManyStreams(t *testing.T) {
	sl, root := newSlow(t)
	a := newArbor(t, root, nil)
	c := a.library(t)
	const n = 100
	var begun, done sync.WaitGroup
	errs := make([]error, n)
	states := make([]sdk.TaskState, n)
	ids := make([]sdk.TaskID, n)
	begun.Add(n)
	go func() {
		for range n {
			<-sl.begun
		}
	}()
	for i := range n {
		done.Go(func() {
			for e, err := range c.SendStreamingMessage(context.Background(), &sdk.SendMessageRequest{Message: words("go")}) {
				if errs[i] = err; err != nil {
					begun.Done()
					return
				}
				switch e := e.(type) {
				case *sdk.Task:
					ids[i] = e.ID
					begun.Done()
				case *sdk.TaskStatusUpdateEvent:
					states[i] = e.Status.State
				}
			}
		})
	}
	begun.Wait()
	_, err := c.GetTask(context.Background(), &sdk.GetTaskRequest{ID: ids[0]})
	require.NoError(t, err)
	close(sl.free)
	done.Wait()
	for i := range n {
		require.NoError(t, errs[i])
		require.Equal(t, sdk.TaskStateCompleted, states[i])
	}
}

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
	f := newRunner(t, newRemote(t, a.cardURL, a2a.WithCardTTL(0)))
	for range 3 {
		_, _, err := f.turn("hi")
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		return c.open.Load() == 1
	}, 10*time.Second, 10*time.Millisecond)
	runtime.KeepAlive(f)
}
