package telemetry

import (
	"context"
	"iter"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// turn is what the spans of one turn share. Its methods are called by the
// goroutine of the turn's consumer and by those of its tools.
type turn struct {
	*interceptor
	ctx          context.Context // carries the turn's span
	span         trace.Span
	conversation string
	place        place
	agents       current

	mu     sync.Mutex
	id     string // in the log, once it is known
	runs   []*run // in the order in which they became known
	byID   map[string]*run
	latest map[string]*run // the last that has begun in a scope
	calls  []*call         // likewise
	ended  bool
	err    error
	finish event.FinishReason // of the conversation's last run, "" while one is open
	answer string             // the last words of the conversation; with content only
}

// place says where in a turn a context is: in the turn itself, or in one of its
// tool calls.
type place struct {
	turn *turn
	call *call
}

// placeKey is the context's key of a *place. Several interceptors of this
// package do not get into each other's way.
type placeKey struct{ of *interceptor }

func (i *interceptor) placeOf(ctx context.Context) place {
	if p, ok := ctx.Value(placeKey{i}).(*place); ok {
		return *p
	}
	return place{}
}

// Turn implements agent.Interceptor: it puts the turn's span around the sequence
// and reads off the events when runs begin and end.
func (i *interceptor) Turn(ctx context.Context, info agent.TurnInfo, next agent.TurnFunc) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		ctx, t := i.begin(ctx, info)
		how := panicked // unless it gets to say otherwise
		defer func() { t.end(ctx, how) }()
		for e, err := range next(ctx) {
			t.see(e, err)
			how = brokenOff // also if the consumer's code panics
			if !yield(e, err) {
				return
			}
			how = panicked
		}
		how = completed
	}
}

// ending is how an operation ended.
type ending int

const (
	completed ending = iota
	brokenOff        // the caller wanted no more
	panicked
)

func (i *interceptor) begin(ctx context.Context, info agent.TurnInfo) (context.Context, *turn) {
	t := &turn{interceptor: i, conversation: info.Session.ID}
	ctx, t.span = i.tracer.Start(ctx, opWorkflow+" "+info.Root, trace.WithAttributes(
		attribute.String(keyOperation, opWorkflow), attribute.String(keyWorkflow, info.Root), attribute.String(keyConversation, t.conversation)))
	t.ctx = ctx
	if i.content && t.span.IsRecording() {
		t.span.SetAttributes(attribute.String(keyUser, info.Session.User))
		if info.Message != nil {
			t.span.SetAttributes(attribute.String(keyInputMessages, messagesJSON(*info.Message)))
		}
	}
	t.place.turn = t
	t.agents.Span = t.span
	ctx = context.WithValue(ctx, placeKey{i}, &t.place)
	return trace.ContextWithSpan(ctx, &t.agents), t
}

func (t *turn) end(ctx context.Context, how ending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	class := ""
	switch {
	case t.err != nil:
		class, how = errorClass(ctx, t.err), completed
	case how == panicked:
		class = "panic"
	case how == brokenOff && t.finish != "" && t.finish != event.FinishReasonTransfer:
		how = completed // somebody had answered
	}
	for n := len(t.runs) - 1; n >= 0; n-- { // inner ones first
		if r := t.runs[n]; r.span != nil && !r.ended {
			t.fail(r.span, class, t.err)
			t.endRun(r, how == brokenOff)
		}
	}
	t.fail(t.span, class, t.err)
	if t.span.IsRecording() {
		if t.id != "" {
			t.span.SetAttributes(attribute.String(keyTurnID, t.id))
		}
		if t.finish != "" {
			t.span.SetAttributes(attribute.String(keyTurnFinish, string(t.finish)))
		}
		if t.answer != "" {
			t.span.SetAttributes(attribute.String(keyOutputMessages, answerJSON(t.answer, string(t.finish))))
		}
		if how == brokenOff {
			t.span.SetAttributes(attribute.Bool(keyBrokenOff, true))
		}
	}
	t.span.End()
}

// fail marks a span as failed, if there is a class of error. What the error says
// may quote people, models and tools: only its class is free of content.
func (i *interceptor) fail(span trace.Span, class string, err error) {
	if class == "" || !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String(keyErrorType, class))
	text := ""
	if i.content && err != nil {
		text = err.Error()
	}
	span.SetStatus(codes.Error, text)
}

// see takes notice of what the turn yields.
func (t *turn) see(e *event.Event, err error) {
	if err == nil && (e == nil || e.Partial) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.err = err
		return
	}
	switch d := e.Data.(type) {
	case *event.HarnessStart:
		t.started(e)
	case *event.Text:
		t.ensureSpan(e)
		if t.content && e.Scope == "" {
			t.answer = d.Content
		}
	case *event.Reasoning, *event.ToolCall, *event.Transfer:
		t.ensureSpan(e)
	case *event.Failure:
		if r := t.find(e.RunID); r != nil {
			r.failure = d.Code
		}
	case *event.HarnessEnd:
		t.over(e, d)
	}
}

// stop notes that the runs within a call of a tool are over. The events that say
// how are on their way to the consumer.
func (t *turn) stop(c *call, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.runs {
		if r.under == c && r.stopped.IsZero() {
			r.stopped = now
		}
	}
}
