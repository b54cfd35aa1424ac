// Package push posts what happens to the tasks of an A2A server to the webhooks of its
// clients (A2A 1.0, sections 4.3 and 13.2): a [Sender] keeps their configs, in a [Store] if
// there is one, and posts events in their order, again after failures, and never to an
// address that is not public unless [Options] allow it.
//
// It imports the A2A library and nothing of sessions or agents. Package a2aserver asks it;
// users give that one Options, and a Store such as [File].
package push

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/internal/dialguard"
	"github.com/agentarbor/arbor/internal/outbound"
)

// Options say how clients are told of their tasks by webhooks (A2A 1.0,
// sections 4.3 and 13.2). The zero value is safe: configs are kept in memory,
// only https is accepted, and no connection is made to an address that is not
// public, whatever name led to it.
type Options struct {
	// Store keeps the configs over restarts. Nil keeps them in memory.
	Store Store
	// AllowHTTP accepts http besides https: what is sent, tokens included, can
	// then be read on the way.
	AllowHTTP bool
	// AllowLoopback lets webhooks be on this machine. It is for tests and for
	// receivers that run beside the server.
	AllowLoopback bool
	// AllowAddresses lets webhooks be at these addresses even if they are not public,
	// for receivers in a network of one's own.
	AllowAddresses []netip.Prefix
	// AllowHost, if set, is asked for the host of each URL, without its port, and
	// refuses it by false. It is called when a config is made and must not block.
	AllowHost func(host string) bool
	// TLS is used for connections to webhooks, for example with the certificates
	// of a private authority. Nil uses the system's.
	TLS *tls.Config
	// GiveUpAfter bounds all attempts for one event. Defaults to 5 minutes.
	GiveUpAfter time.Duration

	// Tests change the bounds that follow, and the resolver. 0 is the default.
	timeout   time.Duration // for one attempt
	retain    time.Duration // how long a config can still be read after its task has ended and its webhook knows
	perTask   int           // the number of configs of a task
	perCaller int           // the number of configs of a caller
	queue     int           // the number of events that wait for a webhook before a snapshot of the task replaces them
	resolver  *net.Resolver // nil is the system's
}

// Task names a task as one caller of one tenant sees it. Two callers whose
// tasks have the same id never meet.
type Task struct {
	Tenant string
	Caller string
	Task   sdk.TaskID
}

// Encoder returns what an event is encoded as for the clients of protocol 0.3.
type Encoder func(sdk.Event) (any, error)

// Sender keeps the push notification configs of tasks and posts the tasks'
// events to them. All methods are safe for concurrent use. None checks that a
// task exists: whoever calls has done so.
type Sender struct {
	opts   Options
	legacy Encoder // nil if 0.3 is off
	log    *slog.Logger
	poster *outbound.Poster
	guard  *dialguard.Guard
	now    func() time.Time

	ctx    context.Context // canceled by Close, when its time is up
	cancel context.CancelFunc
	wg     sync.WaitGroup // the workers

	writing sync.Mutex // held while configs change: store first, then index
	swept   time.Time  // when all were looked through; guarded by writing

	mu      sync.RWMutex // guards what follows; never held during I/O
	tasks   map[Task][]*webhook
	callers map[caller]map[*webhook]struct{}
	closed  bool
}

type caller struct{ tenant, caller string }

func (t Task) by() caller { return caller{t.Tenant, t.Caller} }

// New makes a sender with the configs that the store holds. It logs what could not be
// delivered, never where to; a nil logger logs nothing. Without an encoder clients of
// protocol 0.3 are refused. The error says which option is wrong, or that the store
// cannot be read. Whoever calls it calls [Sender.Close].
func New(opts Options, log *slog.Logger, legacy Encoder) (*Sender, error) {
	if opts.GiveUpAfter < 0 {
		return nil, errors.New("push: Options.GiveUpAfter is negative; leave it 0 for the default")
	}
	opts.GiveUpAfter = cmp.Or(opts.GiveUpAfter, 5*time.Minute)
	opts.timeout, opts.retain = cmp.Or(opts.timeout, 15*time.Second), cmp.Or(opts.retain, time.Hour)
	opts.perTask, opts.perCaller, opts.queue = cmp.Or(opts.perTask, 10), cmp.Or(opts.perCaller, 1000), cmp.Or(opts.queue, 64)
	var allowed []dialguard.Option
	if opts.AllowLoopback {
		allowed = append(allowed, dialguard.AllowLoopback())
	}
	if len(opts.AllowAddresses) > 0 {
		allowed = append(allowed, dialguard.AllowPrefix(opts.AllowAddresses...))
	}
	p := &Sender{
		guard: dialguard.New(allowed...),
		opts:  opts, legacy: legacy, log: log, now: time.Now,
		tasks:   make(map[Task][]*webhook),
		callers: make(map[caller]map[*webhook]struct{}),
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.poster = outbound.New(p.guard, opts.timeout, opts.GiveUpAfter, opts.TLS, opts.resolver)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if opts.Store != nil {
		for r, err := range opts.Store.All(p.ctx) {
			if err != nil {
				p.cancel()
				return nil, fmt.Errorf("push: the push notification configs cannot be read: %w", err)
			}
			p.index(r)
		}
	}
	return p, nil
}

// Save creates the config, or replaces the one of the same id, and returns it as
// it is stored: with an id, the task and the tenant. Protocol is the version of
// the request ("" is 1.0), which decides the form of what is posted. The error
// is ErrInvalidParams for what a client can correct, and says what.
func (p *Sender) Save(ctx context.Context, t Task, protocol sdk.ProtocolVersion, cfg *sdk.PushConfig) (*sdk.PushConfig, error) {
	r := Record{Tenant: t.Tenant, Caller: t.Caller, Protocol: protocol, Created: p.now().UTC().Round(0)}
	if cfg == nil {
		return nil, invalid("it is missing")
	}
	r.Config = *clone(cfg)
	r.Config.Tenant, r.Config.TaskID = t.Tenant, t.Task
	if r.Config.ID == "" {
		r.Config.ID = rand.Text()
	}
	if err := p.Refuses(protocol, &r.Config); err != nil {
		return nil, err
	}

	p.writing.Lock()
	defer p.writing.Unlock()
	dropped, old, err := p.admit(t, r.Config.ID)
	if err != nil {
		return nil, err
	}
	if old != nil {
		r.Created = old.current().Created
	}
	if p.opts.Store != nil {
		for _, w := range dropped {
			if err := p.opts.Store.Delete(ctx, w.current()); err != nil {
				return nil, fmt.Errorf("push: an old push notification config cannot be deleted: %w", err)
			}
		}
		if err := p.opts.Store.Put(ctx, r); err != nil {
			return nil, fmt.Errorf("push: the push notification config cannot be stored: %w", err)
		}
	}
	for _, w := range dropped {
		p.forget(w)
	}
	if old != nil {
		old.replace(r)
	} else {
		p.index(r)
	}
	return clone(&r.Config), nil
}

// Refuses says why a config cannot be saved, whatever its task; nil if it can, as far as
// there is room.
func (p *Sender) Refuses(protocol sdk.ProtocolVersion, cfg *sdk.PushConfig) error {
	if err := p.check(cfg); err != nil {
		return err
	}
	if isLegacy(protocol) && p.legacy == nil {
		return sdk.NewError(sdk.ErrPushNotificationNotSupported, "push notifications of protocol 0.3 are not supported")
	}
	return nil
}

// Get returns ErrTaskNotFound if the task has no such config, as section 3.1.8
// asks.
func (p *Sender) Get(_ context.Context, t Task, id string) (*sdk.PushConfig, error) {
	if w := p.find(t, id); w != nil {
		r := w.current()
		return clone(&r.Config), nil
	}
	return nil, sdk.NewError(sdk.ErrTaskNotFound, "the task has no push notification config of this id")
}

// List returns the task's configs, oldest first, in pages of at most pageSize
// (0 is 50, and more than 100 is 100). The list is never nil.
func (p *Sender) List(_ context.Context, t Task, pageSize int, pageToken string) (*sdk.ListTaskPushConfigResponse, error) {
	switch {
	case pageSize < 0:
		return nil, sdk.NewError(sdk.ErrInvalidParams, "pageSize must not be negative")
	case pageSize == 0:
		pageSize = 50
	case pageSize > 100:
		pageSize = 100
	}
	after, err := readToken(pageToken)
	if err != nil {
		return nil, err
	}
	p.mu.RLock()
	hooks := slices.Clone(p.tasks[t])
	p.mu.RUnlock()
	res := &sdk.ListTaskPushConfigResponse{Configs: []*sdk.PushConfig{}}
	last := after
	for _, w := range hooks { // in their order
		r := w.current()
		if r.compare(after) <= 0 {
			continue
		}
		if len(res.Configs) == pageSize {
			res.NextPageToken = last.token()
			break
		}
		res.Configs, last = append(res.Configs, clone(&r.Config)), r
	}
	return res, nil
}

// Delete removes a config, drops what waits for its webhook and cancels what is
// being sent. Deleting what is not there is no error (section 3.1.10).
func (p *Sender) Delete(ctx context.Context, t Task, id string) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	w := p.find(t, id)
	if w == nil {
		return nil
	}
	if p.opts.Store != nil {
		if err := p.opts.Store.Delete(ctx, w.current()); err != nil {
			return fmt.Errorf("push: the push notification config cannot be deleted: %w", err)
		}
	}
	p.forget(w)
	return nil
}

// Drop removes all configs of a task that is there no more, which nobody could delete.
func (p *Sender) Drop(ctx context.Context, t Task) error {
	p.mu.RLock()
	hooks := slices.Clone(p.tasks[t])
	p.mu.RUnlock()
	for _, w := range hooks {
		if err := p.Delete(ctx, t, w.id); err != nil {
			return err
		}
	}
	return nil
}

// Follows reports whether anybody is still to be told of the task. It costs a look
// into a map.
func (p *Sender) Follows(t Task) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.ContainsFunc(p.tasks[t], (*webhook).open)
}

// Has reports whether a caller has any configs.
func (p *Sender) Has(tenant, user string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.callers[caller{tenant, user}]) > 0
}

// Behind says that a webhook has not seen what there is of its task: it gets a snapshot
// instead of the next event, which may be of use only to who has seen all before.
func (p *Sender) Behind(t Task, id string) {
	if w := p.find(t, id); w != nil {
		w.lost()
	}
}

// Notify queues an event of the task for each of its configs and returns at
// once. Events of one task must be given in their order, one after the other;
// they reach each webhook in that order. The event is shared and must not change
// afterwards.
//
// Artifact updates that wait may be joined, which changes nothing in the
// artifact that results. If a webhook is so slow that its queue is full, or an
// earlier event could not be delivered, then the newest state of the task takes
// the place of all that waits: snapshot is called for it, within notify and at
// most once. It returns the task as it is after the event, or nil if that is not
// known, and must not call Sender. After an event that ends the task, and its
// delivery, the configs are forgotten in time.
func (p *Sender) Notify(t Task, e sdk.Event, snapshot func() *sdk.Task) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return
	}
	hooks := p.tasks[t]
	if len(hooks) == 0 {
		return
	}
	if snapshot == nil {
		snapshot = func() *sdk.Task { return nil }
	}
	snapshot = sync.OnceValue(snapshot)
	for _, w := range hooks {
		if w.add(e, snapshot) {
			p.wg.Add(1)
			go p.work(w)
		}
	}
}

// Resume is called once after a restart. It asks load for each task of which a
// webhook has not heard the end, and posts what it returns: the task's state, if
// the task is over or waits for its user. Load returns nil for a task about
// which there is nothing to tell yet. A webhook may hear the same twice, and
// never nothing.
func (p *Sender) Resume(ctx context.Context, load func(context.Context, Task) (*sdk.Task, error)) error {
	p.mu.RLock()
	var open []Task
	for t, hooks := range p.tasks {
		if slices.ContainsFunc(hooks, (*webhook).open) {
			open = append(open, t)
		}
	}
	p.mu.RUnlock()
	var errs []error
	for _, t := range open {
		switch task, err := load(ctx, t); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			errs = append(errs, fmt.Errorf("push: task %s, which has push notification configs, cannot be read: %w", t.Task, err))
		case task != nil:
			p.Notify(t, task, func() *sdk.Task { return task })
		}
	}
	return errors.Join(errs...)
}

// Close takes no more events and waits until those that wait are delivered, or
// given up on. When ctx is done before that, the rest is not delivered, and the
// error says so; [Sender.Resume] makes up for it after a restart.
func (p *Sender) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.wg.Wait()
	}()
	defer p.poster.Client.CloseIdleConnections()
	defer p.cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		p.cancel()
		<-done
		return fmt.Errorf("push: not all push notifications were delivered: %w", context.Cause(ctx))
	}
}

func isLegacy(v sdk.ProtocolVersion) bool { return strings.HasPrefix(string(v), "0.") }

func clone(c *sdk.PushConfig) *sdk.PushConfig {
	out := *c
	if c.Auth != nil {
		auth := *c.Auth
		out.Auth = &auth
	}
	return &out
}
