package telemetry

import (
	"context"
	"iter"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
)

// ModelCall implements agent.Interceptor. Each attempt at an answer has a span and is measured.
func (i *interceptor) ModelCall(ctx context.Context, c agent.ModelCallInfo, next agent.ModelFunc) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		ctx, a := i.startAttempt(ctx, c)
		how := panicked // unless it is set below
		defer func() { a.end(ctx, how) }()
		for chunk, err := range next(ctx, c.Request) {
			a.receive(chunk, err)
			how = brokenOff
			if !yield(chunk, err) {
				return
			}
			how = panicked
		}
		how = completed
	}
}

// attempt is one attempt at a model's answer.
type attempt struct {
	*interceptor
	turn     *turn // nil outside a turn
	run      *run  // nil outside a run
	span     trace.Span
	provider string
	model    string
	stream   bool
	started  time.Time

	first    time.Duration // the time until the first chunk
	begun    bool
	answered string // the model in the endpoint's answer
	finish   llm.FinishReason
	usage    llm.Usage
	used     bool
	err      error

	output *output // what the model returned; nil unless content is recorded
}

func (i *interceptor) startAttempt(ctx context.Context, c agent.ModelCallInfo) (context.Context, *attempt) {
	a := &attempt{interceptor: i, provider: i.provider(c.Model), model: c.Model.Name(), stream: c.Request.Stream}
	anticipated := llm.Anticipated(ctx) // then the run that asks may never begin
	if a.turn = i.placeOf(ctx).turn; a.turn != nil && !anticipated {
		a.run = a.turn.runOf(ctx, c.Invocation)
	}
	if a.run != nil {
		a.turn.describe(a.run, c, a.provider)
		ctx = a.turn.within(ctx, a.run)
	}
	ctx, a.span = i.tracer.Start(ctx, opChat+" "+a.model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String(keyOperation, opChat), attribute.String(keyProvider, a.provider), attribute.String(keyRequestModel, a.model)))
	if anticipated {
		a.span.SetAttributes(attribute.Bool(keyAnticipated, true))
	}
	if a.span.IsRecording() {
		a.request(c.Request)
	}
	a.started = time.Now()
	return ctx, a
}

func (a *attempt) request(req *llm.Request) {
	var attributes []attribute.KeyValue
	if a.turn != nil {
		attributes = append(attributes, attribute.String(keyConversation, a.turn.conversation))
	}
	if req.Stream {
		attributes = append(attributes, attribute.Bool(keyStream, true))
	}
	if req.Temperature != nil {
		attributes = append(attributes, attribute.Float64(keyTemperature, *req.Temperature))
	}
	if req.TopP != nil {
		attributes = append(attributes, attribute.Float64(keyTopP, *req.TopP))
	}
	if req.MaxTokens != 0 {
		attributes = append(attributes, attribute.Int(keyMaxTokens, req.MaxTokens))
	}
	if req.ResponseFormat != nil {
		attributes = append(attributes, attribute.String(keyOutputType, "json"))
	}
	if a.content {
		a.output = &output{}
		attributes = append(attributes, attribute.String(keyInputMessages, messagesJSON(req.Messages...)))
		if req.System != "" {
			attributes = append(attributes, attribute.String(keySystem, systemJSON(req.System)))
		}
	}
	a.span.SetAttributes(attributes...)
}

func (a *attempt) receive(chunk llm.Chunk, err error) {
	if err != nil {
		a.err = err
		return
	}
	if chunk.Lost != nil || chunk.Notice != nil {
		return
	}
	if !a.begun {
		a.begun, a.first = true, time.Since(a.started)
	}
	if chunk.Usage != nil {
		a.usage, a.used = chunk.Usage.Plausible()
	}
	if chunk.Model != "" {
		a.answered = chunk.Model
	}
	if chunk.Finish != "" {
		a.finish = chunk.Finish
	}
	if a.output != nil {
		a.output.add(chunk)
	}
}

func (a *attempt) end(ctx context.Context, how ending) {
	took := time.Since(a.started)
	class := ""
	switch {
	case a.err != nil:
		class, how = errorClass(ctx, a.err), completed
	case a.finish != "":
		how = completed // even if the caller broke out afterwards
	case how == panicked:
		class = "panic"
	case how == completed && ctx.Err() != nil:
		class = errorClass(ctx, ctx.Err())
	case how == completed:
		class = string(llm.CodeTruncated) // the sequence ended before its terminal chunk
	}
	a.fail(a.span, class, a.err)
	if a.span.IsRecording() {
		a.response(how)
	}
	a.span.End()
	if a.used && a.run != nil {
		a.turn.addUsage(a.run, a.usage)
	}
	a.measure(ctx, took, class)
}

func (a *attempt) response(how ending) {
	var attributes []attribute.KeyValue
	if a.answered != "" {
		attributes = append(attributes, attribute.String(keyResponseModel, a.answered))
	}
	if a.finish != "" {
		attributes = append(attributes, attribute.StringSlice(keyFinishReasons, []string{string(a.finish)}))
	}
	if a.used {
		attributes = append(attributes, usageAttributes(a.usage)...)
	}
	if a.stream && a.begun {
		attributes = append(attributes, attribute.Float64(keyFirstChunk, a.first.Seconds()))
	}
	if how == brokenOff {
		attributes = append(attributes, attribute.Bool(keyBrokenOff, true))
	}
	if a.output != nil && a.begun {
		attributes = append(attributes, attribute.String(keyOutputMessages, a.output.json(string(a.finish))))
	}
	a.span.SetAttributes(attributes...)
}

// measure records the metrics. It records tokens only if the endpoint has reported them.
func (a *attempt) measure(ctx context.Context, took time.Duration, class string) {
	first := a.stream && a.begun
	if !a.duration.Enabled(ctx) && (!first || !a.firstChunk.Enabled(ctx)) && (!a.used || !a.tokens.Enabled(ctx)) {
		return
	}
	attributes := make([]attribute.KeyValue, 0, 6)
	attributes = append(attributes, attribute.String(keyOperation, opChat), attribute.String(keyProvider, a.provider), attribute.String(keyRequestModel, a.model))
	if a.answered != "" {
		attributes = append(attributes, attribute.String(keyResponseModel, a.answered))
	}
	common := metric.WithAttributes(attributes...)
	if first {
		a.firstChunk.Record(ctx, a.first.Seconds(), common)
	}
	if class == "" {
		a.duration.Record(ctx, took.Seconds(), common)
	} else {
		a.duration.Record(ctx, took.Seconds(), common, metric.WithAttributes(attribute.String(keyErrorType, class)))
	}
	if a.used {
		a.tokens.Record(ctx, int64(a.usage.InputTokens), common, metric.WithAttributes(attribute.String(keyTokenType, "input")))
		a.tokens.Record(ctx, int64(a.usage.OutputTokens), common, metric.WithAttributes(attribute.String(keyTokenType, "output")))
	}
}

// output collects what a model says.
type output struct {
	text, reasoning strings.Builder
	calls           []llm.ToolCall
}

func (s *output) add(c llm.Chunk) {
	s.text.WriteString(c.Text)
	s.reasoning.WriteString(c.Reasoning)
	if c.Call != nil {
		s.calls = append(s.calls, *c.Call)
	}
}
