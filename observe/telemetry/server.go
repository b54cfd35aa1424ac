package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/agentarbor/arbor/server/access"
)

// Server returns an observer that measures servers: the duration of requests by route, open streams by API, the time from
// receiving text of a model to sending it to a client, and running and ended turns by API and outcome. If meters is nil,
// it uses the provider of otel.SetMeterProvider. Pass the observer to access.Options and live.WithObserver.
func Server(meters metric.MeterProvider) (access.Observer, error) {
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	m := meters.Meter(scope, metric.WithSchemaURL(schemaURL))
	s := &server{}
	var errs [5]error
	s.request, errs[0] = m.Float64Histogram(metricRequest, metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10),
		metric.WithDescription("Duration of HTTP server requests."))
	s.streams, errs[1] = m.Int64UpDownCounter(metricStreams, metric.WithUnit("{stream}"), metric.WithDescription("Open streams."))
	s.delta, errs[2] = m.Float64Histogram(metricDelta, metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1),
		metric.WithDescription("Time from receiving text of a model to sending it to a client."))
	s.running, errs[3] = m.Int64UpDownCounter(metricRunning, metric.WithUnit("{turn}"), metric.WithDescription("Running turns."))
	s.turns, errs[4] = m.Int64Counter(metricTurns, metric.WithUnit("{turn}"), metric.WithDescription("Turns that ended, paused or were interrupted."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return s, nil
}

type server struct {
	request, delta   metric.Float64Histogram
	streams, running metric.Int64UpDownCounter
	turns            metric.Int64Counter
}

func apiAttribute(name string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String(keyAPI, name))
}

func (s *server) Request(ctx context.Context, method, route string, status int, took time.Duration) {
	s.request.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String(keyMethod, method), attribute.String(keyRoute, route), attribute.Int(keyStatus, status)))
}

func (s *server) Streams(ctx context.Context, api string, change int) {
	s.streams.Add(ctx, int64(change), apiAttribute(api))
}

func (s *server) Delta(ctx context.Context, api string, took time.Duration) {
	s.delta.Record(ctx, took.Seconds(), apiAttribute(api))
}

func (s *server) Running(ctx context.Context, api string, change int) {
	s.running.Add(ctx, int64(change), apiAttribute(api))
}

func (s *server) Turn(ctx context.Context, api, outcome string) {
	s.turns.Add(ctx, 1, metric.WithAttributes(attribute.String(keyAPI, api), attribute.String(keyOutcome, outcome)))
}
