package a2atest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// ErrDrift is wrapped by every error that reports a message that the script does not expect.
var ErrDrift = errors.New("a2atest: the messages and the script drifted apart")

// Mock is a peer that follows a script. It has the operations of A2A 1.0 that a2a.Client lists, and is safe for
// concurrent use: messages get answers in the order in which they arrive. Callers must not change its results, because
// they are shared.
type Mock struct {
	mu       sync.Mutex
	streams  bool
	answers  []Answer
	rest     func(*sdk.SendMessageRequest) Answer
	asked    int // number of messages that got an answer
	tasks    int // number of ids used so far
	contexts int
	runs     map[sdk.TaskID]*run
	calls    []Call
	drift    []error
	down     int // number of next calls that fail before they reach the peer
}

// Option configures a [Mock].
type Option func(*Mock)

// WithoutStreaming creates a peer that does not stream: a streaming call returns the complete result at once, and
// clients cannot subscribe.
func WithoutStreaming() Option { return func(m *Mock) { m.streams = false } }

// New returns a peer with an empty script.
func New(opts ...Option) *Mock {
	m := &Mock{streams: true, runs: map[sdk.TaskID]*run{}}
	for _, o := range opts {
		if o != nil {
			o(m)
		}
	}
	return m
}

// Add appends answers to the script and returns m.
func (m *Mock) Add(answers ...Answer) *Mock {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range answers {
		m.answers = append(m.answers, a)
		if a.wrong != "" {
			m.drift = append(m.drift, fmt.Errorf("answer %d is impossible: %s", len(m.answers), a.wrong))
		}
	}
	return m
}

// Always answers every message for which the script has no answer with a, and returns m.
func (m *Mock) Always(a Answer) *Mock {
	return m.Func(func(*sdk.SendMessageRequest) Answer { return a })
}

// Func calls f for every message for which the script has no answer, and returns m. f may run in several goroutines at
// the same time.
func (m *Mock) Func(f func(*sdk.SendMessageRequest) Answer) *Mock {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rest = f
	return m
}

// Call is one call of an operation.
type Call struct {
	// Operation is the name of the method: SendMessage, SendStreamingMessage, GetTask, SubscribeToTask or CancelTask.
	Operation string
	// Task is the task of the call, or "" if there is none.
	Task sdk.TaskID
	// Message is a copy of the message that was sent, or nil for other calls.
	Message *sdk.Message
}

// Calls returns all calls so far, oldest first, including those that failed.
func (m *Mock) Calls() []Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls)
}

// Messages returns the messages that were sent so far, oldest first.
func (m *Mock) Messages() []*sdk.Message {
	var messages []*sdk.Message
	for _, c := range m.Calls() {
		if c.Message != nil {
			messages = append(messages, c.Message)
		}
	}
	return messages
}

// Done returns nil if the script's answers were all used and every message was expected. Otherwise it returns an error
// that lists all problems and wraps [ErrDrift].
func (m *Mock) Done() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var problems []string
	for _, err := range m.drift {
		problems = append(problems, err.Error())
	}
	if m.asked < len(m.answers) {
		problems = append(problems, fmt.Sprintf("%s came, but the script has %s", count(m.asked, "message"), count(len(m.answers), "answer")))
	}
	if problems == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrDrift, strings.Join(problems, "; "))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// SendStreamingMessage sends a message and returns the events of the answer. Each iteration of the sequence sends the
// message again.
func (m *Mock) SendStreamingMessage(ctx context.Context, req *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		if !m.streams {
			result, err := m.send(ctx, "SendStreamingMessage", req)
			if err != nil {
				yield(nil, err)
				return
			}
			yield(result, nil)
			return
		}
		r, from, err := m.begin("SendStreamingMessage", req)
		if err != nil {
			yield(nil, err)
			return
		}
		m.follow(ctx, r, from, false, yield)
	}
}

// SendMessage sends a message and returns the task once it is settled, or a message. If the request asks for it,
// SendMessage returns the task at once.
func (m *Mock) SendMessage(ctx context.Context, req *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	return m.send(ctx, "SendMessage", req)
}

func (m *Mock) send(ctx context.Context, operation string, req *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	r, from, err := m.begin(operation, req)
	if err != nil {
		return nil, err
	}
	var last sdk.Event
	if r.task == nil || req.Config == nil || !req.Config.ReturnImmediately {
		m.follow(ctx, r, from, false, func(e sdk.Event, failed error) bool {
			last, err = e, failed
			return failed == nil
		})
	}
	if err != nil {
		return nil, err
	}
	if message, ok := last.(*sdk.Message); ok && r.task == nil {
		return message, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.snapshot(), nil
}

// GetTask returns a task in its current state. Before that, it runs the steps of the answer up to the next wait.
func (m *Mock) GetTask(ctx context.Context, req *sdk.GetTaskRequest) (*sdk.Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.find("GetTask", req.ID)
	if err != nil {
		return nil, err
	}
	r.paused = false
	m.advance(r)
	if r.lost {
		return nil, sdk.ErrTaskNotFound
	}
	return r.snapshot(), nil
}

// SubscribeToTask returns a task in its current state and then its updates. If the task has ended, the error is
// sdk.ErrUnsupportedOperation.
func (m *Mock) SubscribeToTask(ctx context.Context, req *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		r, now, from, err := m.subscribe(req.ID)
		if err != nil {
			yield(nil, err)
			return
		}
		if yield(now, nil) {
			m.follow(ctx, r, from, true, yield)
		}
	}
}

func (m *Mock) subscribe(id sdk.TaskID) (r *run, now *sdk.Task, from int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, err = m.find("SubscribeToTask", id); err != nil {
		return nil, nil, 0, err
	}
	if !m.streams || r.task.Status.State.Terminal() {
		return nil, nil, 0, sdk.ErrUnsupportedOperation
	}
	r.paused = false
	return r, r.snapshot(), len(r.news), nil
}

// CancelTask cancels a task, which ends the streams that follow it.
func (m *Mock) CancelTask(_ context.Context, req *sdk.CancelTaskRequest) (*sdk.Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.find("CancelTask", req.ID)
	if err != nil {
		return nil, err
	}
	if r.task.Status.State.Terminal() {
		return nil, sdk.ErrTaskNotCancelable
	}
	r.ops, r.paused = nil, false
	r.status(sdk.TaskStateCanceled, nil)
	return r.snapshot(), nil
}

// find records a call and returns its task. The caller holds m.mu.
func (m *Mock) find(operation string, id sdk.TaskID) (*run, error) {
	m.calls = append(m.calls, Call{Operation: operation, Task: id})
	if err := m.reach(); err != nil {
		return nil, err
	}
	if r := m.runs[id]; r != nil {
		return r, nil
	}
	return nil, sdk.ErrTaskNotFound
}

// reach returns an error while the peer cannot be reached. The caller holds m.mu.
func (m *Mock) reach() error {
	if m.down > 0 {
		m.down--
		return io.ErrUnexpectedEOF
	}
	return nil
}

// begin starts the answer to a message. It returns the run of the answer and the number of the first event that the
// sender receives.
func (m *Mock) begin(operation string, req *sdk.SendMessageRequest) (*run, int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if req == nil || req.Message == nil {
		return nil, 0, m.drifted(errors.New("there is no message in the request"))
	}
	message := copyMessage(req.Message)
	m.calls = append(m.calls, Call{Operation: operation, Task: message.TaskID, Message: message})
	if err := m.reach(); err != nil {
		return nil, 0, err
	}
	if _, err := m.waiting(message); err != nil {
		return nil, 0, err
	}
	var r *run
	a, err := m.next(req)
	if err == nil {
		r, err = m.waiting(message) // another message may have arrived while m.mu was unlocked
	}
	if err != nil {
		return nil, 0, err
	}
	if r != nil && a.isMessage {
		return nil, 0, m.drifted(fmt.Errorf("answer %d is a message, but the user's continues the task %s", m.asked, message.TaskID))
	}
	if r == nil {
		r = &run{changed: make(chan struct{})}
		if ops := a.script(); !a.isMessage && ops[0].fail == nil {
			m.open(r, message)
		}
	}
	from := len(r.news)
	r.play(a, message)
	return r, from, nil
}

// open creates a task. The caller holds m.mu.
func (m *Mock) open(r *run, message *sdk.Message) {
	m.tasks++
	id, contextID := sdk.TaskID(fmt.Sprintf("task-%d", m.tasks)), message.ContextID
	if contextID == "" {
		m.contexts++
		contextID = fmt.Sprintf("context-%d", m.contexts)
	}
	r.task = &sdk.Task{ID: id, ContextID: contextID}
	m.runs[id] = r
}

// waiting returns the run of the task that a message continues, or nil if it continues none. Like other peers, it
// refuses a message to a task that does not wait for one; such a message uses no answer. The caller holds m.mu.
func (m *Mock) waiting(message *sdk.Message) (*run, error) {
	if message.TaskID == "" {
		return nil, nil
	}
	r := m.runs[message.TaskID]
	switch {
	case r == nil:
		return nil, sdk.ErrTaskNotFound
	case message.ContextID != "" && message.ContextID != r.task.ContextID:
		return nil, &sdk.Error{Err: sdk.ErrInvalidParams, Message: "the task belongs to another context"}
	case !interrupted(r.task.Status.State):
		return nil, &sdk.Error{Err: sdk.ErrUnsupportedOperation, Message: fmt.Sprintf("the task waits for no message: its state is %s", r.task.Status.State)}
	}
	return r, nil
}

// next returns the next answer, or an error that says why no answer is left. The caller holds m.mu, which next
// releases while a function of the user runs.
func (m *Mock) next(req *sdk.SendMessageRequest) (*Answer, error) {
	m.asked++
	n := m.asked
	var a Answer
	switch {
	case n <= len(m.answers):
		a = m.answers[n-1]
	case m.rest != nil:
		rest := m.rest
		m.mu.Unlock()
		a = rest(req)
		m.mu.Lock()
	default:
		return nil, m.drifted(fmt.Errorf("message %d, %q, is beyond the script, which has %s", n, plain(req.Message), count(len(m.answers), "answer")))
	}
	if a.wrong != "" {
		return nil, m.drifted(fmt.Errorf("the answer to message %d is impossible: %s", n, a.wrong))
	}
	for _, check := range a.checks {
		if err := check(req); err != nil {
			return nil, m.drifted(fmt.Errorf("message %d: %w", n, err))
		}
	}
	return &a, nil
}

// drifted records a problem for Done and returns it as the call's error. It is a protocol error, so that clients do not
// retry. The caller holds m.mu.
func (m *Mock) drifted(err error) error {
	m.drift = append(m.drift, err)
	return &driftError{err}
}

type driftError struct{ err error }

func (e *driftError) Error() string { return e.err.Error() }

func (e *driftError) Unwrap() []error {
	return []error{ErrDrift, e.err, &sdk.Error{Err: sdk.ErrInvalidRequest, Message: e.err.Error()}}
}

func copyMessage(m *sdk.Message) *sdk.Message {
	c := *m
	c.Parts = slices.Clone(m.Parts)
	for i, p := range c.Parts {
		if p != nil {
			part := *p
			c.Parts[i] = &part
		}
	}
	c.Metadata = maps.Clone(m.Metadata)
	c.Extensions = slices.Clone(m.Extensions)
	c.ReferenceTasks = slices.Clone(m.ReferenceTasks)
	return &c
}
