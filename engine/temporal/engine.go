// Package temporal runs turns as workflows of Temporal, for programs that already use a Temporal server. If a turn's
// worker dies, another one continues it; approvals may take months; and every turn appears in Temporal's own tools. One
// workflow is one turn, and its id is the session's key.
//
// The session's log remains the only record. A workflow knows positions of the log, but not its content: its history
// contains no text of a conversation. The workers must share a store, such as session/postgres, and, for clients that
// follow deltas, a tail, such as session/redis.
//
// The package is a module of its own.
package temporal

import (
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

	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// Engine starts turns and follows them, and creates workers that run them. It is safe for concurrent use, and keeps no
// state of a turn.
type Engine struct {
	c      client.Client
	queue  string
	r      *runner.Runner
	tail   session.Tail
	wait   time.Duration
	logger *slog.Logger
	settings

	tries   int           // the maximal number of tries of a step, after temporary model errors and dead workers
	toBegin time.Duration // how long a turn or a decision may take to be stored after its workflow learned of it
}

var _ live.Backend = (*Engine)(nil)

// settings are stored in the input of each workflow, because a replay must do the same after they have changed.
type settings struct {
	Heartbeat time.Duration `json:"h"`
	Timeout   time.Duration `json:"t"`
	Approval  time.Duration `json:"a,omitempty"`
	Steps     int           `json:"n,omitempty"`
}

// Option configures an [Engine].
type Option func(*Engine)

// WithHeartbeat sets how long a step may send no heartbeat before its worker counts as dead and another one continues.
// Defaults to 5 s.
func WithHeartbeat(d time.Duration) Option { return func(e *Engine) { e.Heartbeat = d } }

// WithStepsPerActivity sets the number of steps of a turn per activity; 0 means the whole turn. The log contains every
// step in any case. With more than one step a turn costs less, but if a worker dies, the outcome of a running tool is
// unknown more often. Defaults to 1.
func WithStepsPerActivity(n int) Option { return func(e *Engine) { e.Steps = n } }

// WithApprovalTimeout denies a call that gets no decision within this time. Defaults to 0, which waits forever.
func WithApprovalTimeout(d time.Duration) Option { return func(e *Engine) { e.Approval = d } }

// WithStepTimeout limits one try of an activity, which runs one step or the number of [WithStepsPerActivity]. Defaults
// to one hour.
func WithStepTimeout(d time.Duration) Option { return func(e *Engine) { e.Timeout = d } }

// WithWait sets how long an activity itself waits for a busy session or an unreachable store. After that it leaves the
// waiting to the server, which continues without counting it as a try. Defaults to one minute.
func WithWait(d time.Duration) Option { return func(e *Engine) { e.wait = d } }

// WithLogger sets the logger for the errors of steps. Temporal gets only an error's code. Defaults to no logging.
func WithLogger(l *slog.Logger) Option { return func(e *Engine) { e.logger = l } }

// New returns an Engine that runs the turns of a runner in the workers of a task queue. It does not close the client or
// the runner. The runner's store must be a session.Tail. Give the runner the option runner.WithOuterRetries, so that
// requests to an overloaded model are retried with Temporal's back-off.
func New(c client.Client, queue string, r *runner.Runner, opts ...Option) (*Engine, error) {
	switch {
	case c == nil:
		return nil, errors.New("temporal: the client is nil")
	case queue == "":
		return nil, errors.New("temporal: the task queue has no name")
	case r == nil:
		return nil, errors.New("temporal: the runner is nil")
	}
	e := &Engine{c: c, queue: queue, r: r, wait: time.Minute, logger: slog.New(slog.DiscardHandler), tries: 10, toBegin: 15 * time.Second,
		settings: settings{Heartbeat: 5 * time.Second, Timeout: time.Hour, Steps: 1}}
	if err := option.Apply(e, opts); err != nil {
		return nil, fmt.Errorf("temporal: %w", err)
	}
	e.tail, _ = r.Store().(session.Tail)
	switch {
	case e.tail == nil:
		return nil, errors.New("temporal: the runner's store cannot be followed: wrap it in a tail, such as that of session/redis")
	case e.Heartbeat <= 0:
		return nil, fmt.Errorf("temporal: WithHeartbeat(%s): the time must be positive", e.Heartbeat)
	case e.Timeout <= 0:
		return nil, fmt.Errorf("temporal: WithStepTimeout(%s): the time must be positive", e.Timeout)
	case e.Approval < 0:
		return nil, fmt.Errorf("temporal: WithApprovalTimeout(%s): the time is negative", e.Approval)
	case e.Steps < 0:
		return nil, fmt.Errorf("temporal: WithStepsPerActivity(%d): the number is negative", e.Steps)
	case e.wait < 0:
		return nil, fmt.Errorf("temporal: WithWait(%s): the time is negative", e.wait)
	case e.logger == nil:
		return nil, errors.New("temporal: the logger is nil")
	}
	return e, nil
}

// The names that workflows and workers share. A worker of a newer version continues the workflows of an older one.
const (
	turnWorkflow    = "arbor.turn"
	advanceActivity = "arbor.advance"
	denyActivity    = "arbor.deny"
	cancelActivity  = "arbor.cancel"
	signalLook      = "look"
	signalEnd       = "end" // cancels the turn
)

// Worker returns a worker of the engine's task queue, which the caller starts and stops. By default a dead worker is
// noticed soon, and a stopped one has ten seconds to end its steps.
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

// workflowID returns the id of a session's workflows. It is unique per key. Temporal allows ids of 1,000 bytes.
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
