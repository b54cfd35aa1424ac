package telemetry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/observe/telemetry"
)

func TestServer(t *testing.T) {
	reader := metric.NewManualReader()
	o := must.Get(telemetry.Server(metric.NewMeterProvider(metric.WithReader(reader))))
	ctx := t.Context()
	o.Request(ctx, "GET", "/x/{id}", 200, time.Second)
	o.Streams(ctx, "api", 1)
	o.Streams(ctx, "api", 1)
	o.Streams(ctx, "api", -1)
	o.Delta(ctx, "api", time.Millisecond)
	o.Running(ctx, "api", 3)
	o.Turn(ctx, "api", "done")

	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(ctx, &all))
	got := make(map[string]string)
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			require.Len(t, d.DataPoints, 1)
			got[m.Name] = d.DataPoints[0].Attributes.Encoded(attribute.DefaultEncoder())
			require.Equal(t, map[string]int64{"arbor.streams": 1, "arbor.turns.running": 3, "arbor.turns": 1}[m.Name], d.DataPoints[0].Value)
		case metricdata.Histogram[float64]:
			require.Len(t, d.DataPoints, 1)
			require.EqualValues(t, 1, d.DataPoints[0].Count)
			got[m.Name] = d.DataPoints[0].Attributes.Encoded(attribute.DefaultEncoder())
		}
	}
	require.Equal(t, map[string]string{
		"http.server.request.duration": "http.request.method=GET,http.response.status_code=200,http.route=/x/{id}",
		"arbor.streams":                "arbor.api=api", "arbor.delta.duration": "arbor.api=api", "arbor.turns.running": "arbor.api=api",
		"arbor.turns": "arbor.api=api,arbor.turn.state=done",
	}, got)
}
