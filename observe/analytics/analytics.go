package analytics

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/internal/redact"
)

// Option configures the interceptor of [New].
type Option func(*Interceptor)

// WithTexts also records the texts of users and agents, and the reasons that people give for their decisions about
// calls.
func WithTexts() Option { return func(i *Interceptor) { i.texts = true } }

// WithRedactor applies f to reasons, to the messages of errors, and to texts if they are recorded. Secrets are removed
// from reasons and messages before f sees them.
func WithRedactor(f func(text string) string) Option { return func(i *Interceptor) { i.redact = f } }

// WithQueue limits how many events may wait for the sink; the interceptor drops more. Defaults to 4096.
func WithQueue(events int) Option { return func(i *Interceptor) { i.queueSize = events } }

// WithLogger sets the logger for lost events. Defaults to no logging.
func WithLogger(l *slog.Logger) Option { return func(i *Interceptor) { i.logger = l } }

// Stats counts events.
type Stats struct {
	Recorded uint64 // the sink recorded them without an error
	Failed   uint64 // the sink returned an error or panicked, or Close ran out of time
	Dropped  uint64 // the queue was full, or the interceptor was closed
}

// Interceptor derives events from turns and sends them to a sink. It is safe for concurrent use and may serve any
// number of runners. Pass it to runner.WithInterceptors first: it then sees what the turn's consumer sees.
type Interceptor struct {
	agent.Passthrough
	sink      Sink
	texts     bool
	redact    func(string) string
	queueSize int
	logger    *slog.Logger

	ctx    context.Context // for the sink
	cancel context.CancelFunc
	queue  chan *Event
	done   chan struct{} // closed after the last write

	recorded, failed, dropped atomic.Uint64

	mu     sync.Mutex
	closed bool
}

// New returns an interceptor for a sink. Close it when the runners are done. The error names an invalid option, or says
// that the sink is nil.
func New(sink Sink, opts ...Option) (*Interceptor, error) {
	i := &Interceptor{sink: sink, queueSize: 4096, logger: slog.New(slog.DiscardHandler), done: make(chan struct{})}
	if err := option.Apply(i, opts); err != nil {
		return nil, fmt.Errorf("analytics: %w", err)
	}
	switch {
	case i.sink == nil:
		return nil, errors.New("analytics: the sink is nil")
	case i.logger == nil:
		return nil, errors.New("analytics: the logger is nil")
	case i.queueSize < 1:
		return nil, fmt.Errorf("analytics: WithQueue(%d): the queue must have room for at least one event", i.queueSize)
	}
	i.ctx, i.cancel = context.WithCancel(context.Background())
	i.queue = make(chan *Event, i.queueSize)
	go i.write()
	return i, nil
}

// Stats returns the counts of events so far, without those that wait in the queue.
func (i *Interceptor) Stats() Stats {
	return Stats{i.recorded.Load(), i.failed.Load(), i.dropped.Load()}
}

// Close sends the waiting events to the sink and returns afterwards. If ctx ends first, the remaining events are lost
// and the error is the context's. The interceptor records nothing of turns that continue.
func (i *Interceptor) Close(ctx context.Context) error {
	i.mu.Lock()
	if !i.closed {
		i.closed = true
		close(i.queue)
	}
	i.mu.Unlock()
	select {
	case <-i.done:
		return nil
	case <-ctx.Done():
		i.cancel()
		return fmt.Errorf("analytics: not all events were recorded: %w", ctx.Err())
	}
}

// Turn implements agent.Interceptor.
func (i *Interceptor) Turn(ctx context.Context, info agent.TurnInfo, next agent.TurnFunc) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		f := &fold{emit: i.enqueue, texts: i.texts, session: info.Session.ID, tree: info.Tree, resumed: info.Message == nil}
		problem, failed := panicked, error(nil)
		defer func() { f.end(problem, failed, ctx.Err() != nil) }()
		for e, err := range next(ctx) {
			if failed = err; e != nil && err == nil {
				f.apply(e)
			}
			problem = "the consumer of the turn panicked" // kept if it does
			if !yield(e, err) {
				problem = "the consumer of the turn wanted no more"
				return
			}
			problem = panicked
		}
		problem = ""
	}
}

// enqueue queues an event for the sink if there is room.
func (i *Interceptor) enqueue(e *Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed {
		select {
		case i.queue <- e:
			return
		default:
		}
	}
	i.dropped.Add(1)
}

// write sends queued events to the sink until Close. It adds an event with the number of those that were lost.
func (i *Interceptor) write() {
	defer close(i.done)
	defer i.cancel()
	reported := uint64(0)
	for e := range i.queue {
		if lost := i.dropped.Load() - reported; lost > 0 {
			reported += lost
			i.logger.Warn("events of analytics were dropped, because the sink is too slow", "events", lost)
			i.record(Event{Type: TypeDropped, Timestamp: time.Now().UTC(), Dropped: lost})
		}
		i.record(*e)
	}
}

// record sends an event to the sink, if there is time.
func (i *Interceptor) record(e Event) {
	err := i.ctx.Err()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the sink or the redactor panicked: %v", p)
		}
		if err == nil {
			i.recorded.Add(1)
			return
		}
		i.failed.Add(1)
		i.logger.Warn("an event of analytics was not recorded", "type", e.Type, "error", err)
	}()
	e.Reason, e.Message = redact.Text(e.Reason), redact.Text(e.Message)
	if i.redact != nil {
		e.Reason, e.Message, e.Text = i.redact(e.Reason), i.redact(e.Message), i.redact(e.Text)
	}
	if err == nil {
		err = i.sink.Record(i.ctx, e)
	}
}
