// Package push posts the updates of an A2A server's tasks to the webhooks of its clients (A2A 1.0, sections 4.3 and
// 13.2). A [Sender] keeps their configs, in a [Store] if there is one, and posts events in order. It retries after
// failures, and never connects to an address that is not public unless [Options] allow it.
//
// The package knows nothing about sessions or agents. Package a2aserver calls it; programs only configure it with
// Options and a Store such as [File].
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

// Options configures push notifications to webhooks (A2A 1.0, sections 4.3 and 13.2). The zero value is safe: it keeps
// configs in memory, accepts only https, and never connects to an address that is not public, whatever its name.
type Options struct {
	// Store keeps the configs over restarts. If nil, they are kept in memory.
	Store Store
	// AllowHTTP also accepts http. The network can then read everything that is sent, including tokens.
	AllowHTTP bool
	// AllowLoopback allows webhooks on this machine, for tests and for receivers that run next to the server.
	AllowLoopback bool
	// AllowAddresses allows webhooks at these addresses even if they are not public, for receivers in a private
	// network.
	AllowAddresses []netip.Prefix
	// AllowHost is called with the host of each URL, without its port, when a config is saved. It returns false to
	// refuse the host. It must not block. If nil, every host is allowed.
	AllowHost func(host string) bool
	// TLS configures the connections to webhooks, for example with the certificates of a private authority. Defaults to
	// the system's certificates.
	TLS *tls.Config
	// GiveUpAfter limits the time for all attempts to deliver one event. Defaults to 5 minutes.
	GiveUpAfter time.Duration

	// Tests change the following limits and the resolver. 0 and nil are the defaults.
	timeout   time.Duration // for one attempt
	retain    time.Duration // how long a config stays readable after its webhook received the end of the task
	perTask   int           // largest number of configs of a task
	perCaller int           // largest number of configs of a caller
	queue     int           // largest number of waiting events of a webhook; then a snapshot replaces them
	resolver  *net.Resolver // nil is the system's resolver
}

// Task identifies a task of one caller of one tenant. Tasks of two callers are never mixed, even if their ids are
// equal.
type Task struct {
	Tenant string
	Caller string
	Task   sdk.TaskID
}

// Encoder returns the JSON value of an event for clients of protocol 0.3.
type Encoder func(sdk.Event) (any, error)

// Sender keeps the push notification configs of tasks and posts the events of the tasks to them. All methods are safe
// for concurrent use. None of them checks that a task exists: the caller has to.
type Sender struct {
	opts   Options
	legacy Encoder // nil if the server does not support 0.3
	log    *slog.Logger
	poster *outbound.Poster
	guard  *dialguard.Guard
	now    func() time.Time

	ctx    context.Context // canceled by Close when its time is over
	cancel context.CancelFunc
	wg     sync.WaitGroup // the workers

	writing sync.Mutex // held while configs change, first in the store, then in the index
	swept   time.Time  // when expired configs were last searched; guarded by writing

	mu      sync.RWMutex // guards the fields below; never held during I/O
	tasks   map[Task][]*webhook
	callers map[caller]map[*webhook]struct{}
	closed  bool
}

type caller struct{ tenant, caller string }

func (t Task) by() caller { return caller{t.Tenant, t.Caller} }

// New returns a sender with the configs of the store. It logs failed deliveries, but never the URL. A nil logger logs
// nothing. Without an encoder it refuses clients of protocol 0.3. The error reports an invalid option, or that the
// store cannot be read. The caller must call [Sender.Close].
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

// Save creates the config, or replaces the one with the same id. It returns the config as it is stored, with an id, the
// task and the tenant. protocol is the version of the request ("" is 1.0), which determines the format of the
// notifications. If the client can correct the config, the error is ErrInvalidParams and says what is wrong.
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

// Refuses returns the reason why a config cannot be saved for any task. If it returns nil, Save can fail only because
// of the limits or the store.
func (p *Sender) Refuses(protocol sdk.ProtocolVersion, cfg *sdk.PushConfig) error {
	if err := p.check(cfg); err != nil {
		return err
	}
	if isLegacy(protocol) && p.legacy == nil {
		return sdk.NewError(sdk.ErrPushNotificationNotSupported, "push notifications of protocol 0.3 are not supported")
	}
	return nil
}

// Get returns a config. If the task has no such config, the error is ErrTaskNotFound, as section 3.1.8 requires.
func (p *Sender) Get(_ context.Context, t Task, id string) (*sdk.PushConfig, error) {
	if w := p.find(t, id); w != nil {
		r := w.current()
		return clone(&r.Config), nil
	}
	return nil, sdk.NewError(sdk.ErrTaskNotFound, "the task has no push notification config of this id")
}

// List returns the task's configs, oldest first, in pages of at most pageSize configs. A pageSize of 0 is 50, and more
// than 100 is 100. The list is never nil.
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
	res := &sdk.ListTaskPushConfigResponse{Configs: []*sdk.PushConfig{}}
	last := after
	for _, w := range p.hooks(t) {
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

// Delete deletes a config, drops the events that wait for its webhook and cancels the request that is being sent. If
// the config does not exist, Delete returns nil (section 3.1.10).
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

// Drop deletes all configs of a task that no longer exists, because no client can delete them.
func (p *Sender) Drop(ctx context.Context, t Task) error {
	for _, w := range p.hooks(t) {
		if err := p.Delete(ctx, t, w.id); err != nil {
			return err
		}
	}
	return nil
}

// Follows reports whether a webhook still expects updates of the task. It is a cheap lookup in a map.
func (p *Sender) Follows(t Task) bool {
	return slices.ContainsFunc(p.hooks(t), (*webhook).open)
}

// Has reports whether a caller has any configs.
func (p *Sender) Has(tenant, user string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.callers[caller{tenant, user}]) > 0
}

// Behind records that a webhook has not received the earlier events of its task. The next event is then replaced by a
// snapshot, because some events are only useful to a receiver of all earlier ones.
func (p *Sender) Behind(t Task, id string) {
	if w := p.find(t, id); w != nil {
		w.lost()
	}
}

// Notify queues an event of the task for each of its configs and returns at once. Callers must pass the events of a
// task in their order, one after the other, and each webhook receives them in that order. The event is shared and must
// not change afterwards.
//
// Notify may join waiting artifact updates, which does not change the resulting artifact. If the queue of a slow
// webhook is full, or an earlier event could not be delivered, the newest state of the task replaces all waiting
// events. To get it, Notify calls snapshot, at most once and before it returns. snapshot returns the task as it is
// after the event, or nil if that is not known, and must not call the Sender. Some time after an event that ends the
// task was delivered, the sender deletes the configs.
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
	snapshot = sync.OnceValue(snapshot)
	for _, w := range hooks {
		if w.add(e, snapshot) {
			p.wg.Add(1)
			go p.work(w)
		}
	}
}

// Resume is called once after a restart. For each task with a webhook that has not received the end of the task, it
// calls load and posts the result: the state of the task, if the task is over or waits for its user. load returns nil
// if there is nothing to post yet. A webhook may receive an update twice, but it always receives the end of its task.
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

// Close stops accepting events, and waits until the waiting events were delivered or given up. If ctx ends first, the
// other events are not delivered and Close returns an error. After a restart [Sender.Resume] posts the state of these
// tasks.
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
