package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/observe/telemetry"
)

// metrics returns the metrics of package telemetry in the format of Prometheus.
func metrics() (m cli.Metrics, err error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return m, err
	}
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	if m.Interceptor, err = telemetry.New(telemetry.WithMeterProvider(provider)); err != nil {
		return m, err
	}
	m.Handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	m.Observer, err = telemetry.Server(provider)
	return m, err
}
