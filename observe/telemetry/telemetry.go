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

// Option configures the interceptor of [New].
type Option func(*interceptor)

// WithTracerProvider sets the provider of the tracer. Defaults to the provider of otel.SetTracerProvider; if the program
// has set none, spans are not recorded.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(i *interceptor) { i.tracers = p }
}

// WithMeterProvider sets the provider of the meter. Defaults to the provider of otel.SetMeterProvider; if the program has
// set none, metrics are not recorded.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(i *interceptor) { i.meters = p }
}

// WithProviderName sets gen_ai.provider.name, such as "mistral_ai" or "azure.ai.openai". Defaults to "openai", because the
// endpoints use its protocol, and the conventions define the attribute by the format of the telemetry.
func WithProviderName(name string) Option {
	return WithProvider(func(llm.Model) string { return name })
}

// WithProvider sets a function that returns gen_ai.provider.name for a model, for trees with models of several providers.
// It must be safe for concurrent use.
func WithProvider(of func(model llm.Model) string) Option {
	return func(i *interceptor) { i.provider = of }
}

// WithContent records content in spans: the user's messages, system prompts, the messages and answers of models, their
// reasoning, arguments and results of tools, the texts of errors, and the user's name in the session's key. It does not
// record the bytes of images and files. Defaults to no content in spans and metrics.
func WithContent() Option { return func(i *interceptor) { i.content = true } }

// New returns an interceptor that traces and measures turns. It is safe for concurrent use, and several runners can share
// it. The error names the invalid option, or is that of the meter provider.
//
// Pass it to runner.WithInterceptors first: its spans then include the time of the other interceptors, and it records the
// requests of agents before other interceptors change them.
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
