package telemetry

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/llm"
)

// Option configures the interceptor that [New] makes.
type Option func(*interceptor)

// WithTracerProvider says where spans go. The default is the provider that the
// program has registered with otel.SetTracerProvider; one without effect if it
// has registered none.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(i *interceptor) { i.tracers = p }
}

// WithMeterProvider says where metrics go. The default is the provider that the
// program has registered with otel.SetMeterProvider.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(i *interceptor) { i.meters = p }
}

// WithProviderName sets gen_ai.provider.name, such as "mistral_ai" or
// "azure.ai.openai". The default is "openai", whose protocol the endpoints speak:
// the conventions mean by it the flavour of the telemetry first.
func WithProviderName(name string) Option {
	return WithProvider(func(llm.Model) string { return name })
}

// WithProvider sets gen_ai.provider.name for each model, in a tree whose models
// are at several providers. The function is called by many goroutines at once.
func WithProvider(of func(model llm.Model) string) Option {
	return func(i *interceptor) { i.provider = of }
}

// WithContent records content: what the user says, system prompts, the messages
// and answers of models, their reasoning, arguments and results of tools, the
// texts of errors, and the user's name in the session's key. Without it none of
// these reaches a span or a metric. Bytes of images and files are left out also
// with it.
func WithContent() Option { return func(i *interceptor) { i.content = true } }

// New makes an interceptor that traces and measures turns. It is safe for
// concurrent use and may serve any number of runners. The error says what is
// wrong with an option, or is the meter provider's.
//
// Give it to runner.WithInterceptors first: then its spans also cover what the
// other interceptors do, and it sees what agents asked for, before those change
// it.
func New(opts ...Option) (agent.Interceptor, error) {
	i := &interceptor{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider(), provider: func(llm.Model) string { return "openai" }}
	if err := option.Apply(i, opts); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	if i.tracers == nil || i.meters == nil || i.provider == nil {
		return nil, errors.New("telemetry: a provider is nil")
	}
	i.tracer = i.tracers.Tracer(scope, trace.WithSchemaURL(schemaURL))
	if err := i.instruments(); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return i, nil
}

// interceptor implements agent.Interceptor. It is immutable.
type interceptor struct {
	tracers  trace.TracerProvider
	meters   metric.MeterProvider
	provider func(llm.Model) string
	content  bool

	tracer     trace.Tracer
	tokens     metric.Int64Histogram
	duration   metric.Float64Histogram
	firstChunk metric.Float64Histogram
	node       metric.Float64Histogram
}

var _ agent.Interceptor = (*interceptor)(nil)

func (i *interceptor) instruments() error {
	m := i.meters.Meter(scope, metric.WithSchemaURL(schemaURL))
	var errs [4]error
	i.tokens, errs[0] = m.Int64Histogram(metricTokens, metric.WithUnit("{token}"), metric.WithExplicitBucketBoundaries(tokenBuckets()...),
		metric.WithDescription("Number of input and output tokens used."))
	i.duration, errs[1] = m.Float64Histogram(metricDuration, metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(secondBuckets()...),
		metric.WithDescription("GenAI operation duration."))
	i.firstChunk, errs[2] = m.Float64Histogram(metricFirstChunk, metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(secondBuckets()...),
		metric.WithDescription("Time from the request to the first chunk of a streamed answer."))
	i.node, errs[3] = m.Float64Histogram(metricNode, metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(secondBuckets()...),
		metric.WithDescription("Duration of one call of a node of a graph."))
	return errors.Join(errs[:]...)
}
