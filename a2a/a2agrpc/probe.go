package a2agrpc

import (
	"context"
	"sync"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
)

const (
	// probeAfter is how long a stream may be silent before its task is requested.
	probeAfter   = 30 * time.Second
	probeTimeout = 10 * time.Second
)

// probe checks whether a server whose stream is silent still has the task. Streams over HTTP carry keep-alive comments,
// but gRPC streams do not: a task that works for longer than the idle limit of the remote agent would look like a dead
// server.
type probe struct {
	*transport
	ctx    context.Context // the stream's context
	params a2aclient.ServiceParams
	tenant string

	mu       sync.Mutex
	task     sdk.TaskID
	timer    *time.Timer // nil once the stream has ended
	requests sync.WaitGroup
}

// watch starts the timer. At the end of the stream, the caller cancels ctx and then calls stop.
func (t *transport) watch(ctx context.Context, params a2aclient.ServiceParams, tenant string) *probe {
	p := &probe{transport: t, ctx: ctx, params: params, tenant: tenant}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(t.probeAfter, p.run)
	return p
}

// observe notes the task of an event and restarts the timer.
func (p *probe) observe(e sdk.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if id := e.TaskInfo().TaskID; id != "" {
		p.task = id
	}
	if p.timer != nil {
		p.timer.Reset(p.probeAfter)
	}
}

func (p *probe) run() {
	p.mu.Lock()
	id := p.task
	if p.timer == nil {
		p.mu.Unlock()
		return
	}
	p.requests.Add(1)
	p.mu.Unlock()
	defer p.requests.Done()
	if id != "" {
		ctx, cancel := context.WithTimeout(p.ctx, probeTimeout)
		defer cancel()
		// A successful call resets the idle limit. A failed one is ignored: only the stream counts.
		none := 0
		_, _ = p.GetTask(ctx, p.params, &sdk.GetTaskRequest{Tenant: p.tenant, ID: id, HistoryLength: &none})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Reset(p.probeAfter)
	}
}

// stop stops the timer and waits for a request in progress.
func (p *probe) stop() {
	p.mu.Lock()
	p.timer.Stop()
	p.timer = nil
	p.mu.Unlock()
	p.requests.Wait()
}
