// Package temporal runs turns as workflows of Temporal, for whoever has a Temporal server already: a turn whose worker has
// died goes on in another one, approvals may take months, and every turn shows in Temporal's own tools. One workflow is
// one turn, and its id is the session's key.
//
// The session's log stays the only record. A workflow knows where the log stands, not what is in it: no word of a
// conversation is in its history. It needs a store that the workers share, such as session/postgres, and a tail that they
// share, such as session/redis, for those who follow deltas.
//
// It is a module of its own, and imports runner, session and live.
package temporal

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Engine begins turns and follows them, and makes workers that run them. It is safe for concurrent use, and holds
// nothing of a turn.
type Engine struct {
	c      client.Client
	queue  string
	r      *runner.Runner
	tail   session.Tail
	wait   time.Duration
	logger *slog.Logger
	settings

	tries   int           // a step is begun at most: by model errors that may go away, and workers that died
	toBegin time.Duration // for a turn or a decision to be stored after its workflow has heard of it
}

var _ live.Backend = (*Engine)(nil)

// settings are kept in the input of each workflow: it must do the same when it is played again after they have changed.
type settings struct {
	Heartbeat time.Duration `json:"h"`
	Timeout   time.Duration `json:"t"`
	Approval  time.Duration `json:"a,omitempty"`
	Steps     int           `json:"n,omitempty"`
}

// Option configures an Engine.
type Option func(*Engine)

// WithHeartbeat sets how long nothing may be heard of a step before its worker is taken for dead, and another one goes on.
// The default is 5 s.
func WithHeartbeat(d time.Duration) Option { return func(e *Engine) { e.Heartbeat = d } }

// WithStepsPerActivity sets how many steps of a turn an activity takes; 0 is the whole turn. The default is 1. The log
// has every step either way. With more than one a turn costs less, and a tool that ran when a worker died, or might have,
// is of unknown outcome more often.
func WithStepsPerActivity(n int) Option { return func(e *Engine) { e.Steps = n } }

// WithApprovalTimeout denies what nobody has decided for so long. The default, 0, waits for ever.
func WithApprovalTimeout(d time.Duration) Option { return func(e *Engine) { e.Approval = d } }

// WithStepTimeout bounds one try of an activity: of a step, or of so many as [WithStepsPerActivity] says. The default is
// an hour.
func WithStepTimeout(d time.Duration) Option { return func(e *Engine) { e.Timeout = d } }

// WithWait sets how long an activity waits itself for a session that is busy, or a store that cannot be reached, before
// it leaves the waiting to the server. The default is a minute. It waits on after that, and never counts as a try.
func WithWait(d time.Duration) Option { return func(e *Engine) { e.wait = d } }

// WithLogger sets the logger, which hears why a step failed; by default nothing is logged. Temporal hears only an error's code.
func WithLogger(l *slog.Logger) Option { return func(e *Engine) { e.logger = l } }

// New makes an Engine that runs the turns of a runner in the workers of a task queue. The client and the runner stay the
// caller's. The runner's store must be a session.Tail. Give the runner the option runner.WithOuterRetries,
// so that a model that is overloaded is asked again with Temporal's back-off.
func New(c client.Client, queue string, r *runner.Runner, opts ...Option) (*Engine, error) {
	if c == nil || queue == "" || r == nil {
		return nil, errors.New("temporal: the client or the runner is nil, or the task queue has no name")
	}
	e := &Engine{c: c, queue: queue, r: r, wait: time.Minute, logger: slog.New(slog.DiscardHandler), tries: 10, toBegin: 15 * time.Second,
		settings: settings{Heartbeat: 5 * time.Second, Timeout: time.Hour, Steps: 1}}
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("temporal: option %d is nil", i)
		}
		o(e)
	}
	e.tail, _ = r.Store().(session.Tail)
	switch {
	case e.tail == nil:
		return nil, errors.New("temporal: the runner's store cannot be followed: wrap it in a tail, such as that of session/redis")
	case e.Heartbeat <= 0 || e.Timeout <= 0 || e.Approval < 0 || e.Steps < 0 || e.wait < 0:
		return nil, errors.New("temporal: a duration or a number is negative, or there is no heartbeat or no time for a step")
	case e.logger == nil:
		return nil, errors.New("temporal: the logger is nil")
	}
	return e, nil
}

// The names by which workflows and workers know each other. What a worker of an older version has begun, one of a
// newer version goes on with.
const (
	turnWorkflow    = "arbor.turn"
	advanceActivity = "arbor.advance"
	denyActivity    = "arbor.deny"
	cancelActivity  = "arbor.cancel"
	signalLook      = "look"
	signalEnd       = "end"
)

// Worker makes a worker of the engine's task queue, which the caller starts and stops. What the options leave out
// is chosen so that a worker that dies is missed soon, and one that is stopped may end its steps, for ten seconds.
func (e *Engine) Worker(o worker.Options) worker.Worker {
	if o.StickyScheduleToStartTimeout == 0 {
		o.StickyScheduleToStartTimeout = time.Second
	}
	if o.MaxHeartbeatThrottleInterval == 0 {
		o.MaxHeartbeatThrottleInterval = e.Heartbeat / 5
	}
	if o.WorkerStopTimeout == 0 {
		o.WorkerStopTimeout = 10 * time.Second
	}
	w := worker.New(e.c, e.queue, o)
	w.RegisterWorkflowWithOptions(turn, workflow.RegisterOptions{Name: turnWorkflow})
	for name, act := range map[string]any{advanceActivity: e.advance, denyActivity: e.deny, cancelActivity: e.cancel} {
		w.RegisterActivityWithOptions(act, activity.RegisterOptions{Name: name})
	}
	return w
}

// workflowID names the workflows of a session. No two keys have the same. Temporal allows names of 1,000 bytes.
func workflowID(key session.Key) string {
	id := strings.Join([]string{url.PathEscape(key.App), url.PathEscape(key.User), url.PathEscape(key.ID)}, "/")
	if len(id) > 1000 {
		return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(id)))
	}
	return id
}

func (e *Engine) options(key session.Key) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{ID: workflowID(key), TaskQueue: e.queue, WorkflowTaskTimeout: 2 * time.Second, WorkflowExecutionErrorWhenAlreadyStarted: true}
}

// pause waits, unless the context ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
