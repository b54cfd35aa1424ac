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

// turn is the state that the spans of one turn share. The goroutines of the turn's consumer and of its tools call its
// methods.
type turn struct {
	*interceptor
	ctx          context.Context // contains the turn's span
	span         trace.Span
	conversation string
	place        place
	agents       current

	mu     sync.Mutex
	id     string // the turn's id in the log, "" until it is known
	runs   []*run // in the order in which they became known
	byID   map[string]*run
	latest map[string]*run // by scope, the run that started last
	calls  []*call         // in the order of their start
	ended  bool
	err    error
	finish event.FinishReason // of the conversation's last run; "" while a run is open
	answer string             // the last text of the conversation; only with content
}

// place is the part of a turn to which a context belongs: the turn itself, or one of its tool calls.
type place struct {
	turn *turn
	call *call
}

// placeKey is the context key of a *place. Each interceptor has its own, so that several can be used together.
type placeKey struct{ of *interceptor }

func (i *interceptor) placeOf(ctx context.Context) place {
	if p, ok := ctx.Value(placeKey{i}).(*place); ok {
		return *p
	}
	return place{}
}

// Turn implements agent.Interceptor. The span of the turn covers the whole sequence. The events show when runs start and
// end.
func (i *interceptor) Turn(ctx context.Context, info agent.TurnInfo, next agent.TurnFunc) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		ctx, t := i.begin(ctx, info)
		how := panicked // unless it is set below
		defer func() { t.end(ctx, how) }()
		for e, err := range next(ctx) {
			t.observe(e, err)
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
	brokenOff        // the caller broke out of the loop
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
		how = completed // an agent had answered
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

// fail marks a span as failed, unless class is "". It sets the error's text only with content, because the text may quote
// people, models and tools.
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

// observe records an event or an error that the turn yields.
func (t *turn) observe(e *event.Event, err error) {
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
		t.startRun(e)
	case *event.Text:
		t.ensureSpan(e)
		if t.content && e.Scope == "" {
			t.answer = d.Content
		}
	case *event.Reasoning, *event.ToolCall, *event.Transfer:
		t.ensureSpan(e)
	case *event.Failure:
		if r := t.byID[e.RunID]; r != nil {
			r.failure = d.Code
		}
	case *event.HarnessEnd:
		t.runEnded(e, d)
	}
}

// stopRuns records the time at which the runs within a tool call ended. Their end events are yielded later.
func (t *turn) stopRuns(c *call, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.runs {
		if r.call == c && r.stopped.IsZero() {
			r.stopped = now
		}
	}
}
