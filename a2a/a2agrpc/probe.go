package a2agrpc

import (
	"context"
	"sync"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
)

const (
	// probeAfter is the silence of a stream after which its task is asked for.
	probeAfter   = 30 * time.Second
	probeTimeout = 10 * time.Second
)

// probe finds out whether a server whose stream is silent still has the task. Streams over HTTP
// carry comments that keep them alive; gRPC has none, so that a task that thinks for longer than
// the remote agent's limit of silence would look like a server that is gone.
type probe struct {
	*transport
	ctx    context.Context // of the stream
	params a2aclient.ServiceParams
	tenant string

	mu    sync.Mutex
	task  sdk.TaskID
	timer *time.Timer // nil once the stream has ended
	asks  sync.WaitGroup
}

// watch begins to wait for silence. Whoever ends the stream ends its context and then calls
// stop.
func (t *transport) watch(ctx context.Context, params a2aclient.ServiceParams, tenant string) *probe {
	p := &probe{transport: t, ctx: ctx, params: params, tenant: tenant}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(t.probeAfter, p.ask)
	return p
}

// saw notes what came, and waits for silence again.
func (p *probe) saw(e sdk.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id := e.TaskInfo().TaskID; id != "" {
		p.task = id
	}
	if p.timer != nil {
		p.timer.Reset(p.probeAfter)
	}
}

func (p *probe) ask() {
	p.mu.Lock()
	id := p.task
	if p.timer == nil {
		p.mu.Unlock()
		return
	}
	p.asks.Add(1)
	p.mu.Unlock()
	defer p.asks.Done()
	if id != "" {
		ctx, cancel := context.WithTimeout(p.ctx, probeTimeout)
		defer cancel()
		// A call that succeeds is heard. One that fails says nothing: the stream is what counts.
		none := 0
		_, _ = p.GetTask(ctx, p.params, &sdk.GetTaskRequest{Tenant: p.tenant, ID: id, HistoryLength: &none})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Reset(p.probeAfter)
	}
}

// stop waits for a question that is on its way.
func (p *probe) stop() {
	p.mu.Lock()
	p.timer.Stop()
	p.timer = nil
	p.mu.Unlock()
	p.asks.Wait()
}
