package openai

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// canned returns a model whose endpoint, without any network, streams n deltas
// of text.
func canned(tb testing.TB, n int) *Model {
	body := repeat(text("word "), n) + delta(`{}`, "stop") + done
	client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: 200, Request: r, Body: io.NopCloser(strings.NewReader(body)),
			Header: http.Header{"Content-Type": {"text/event-stream"}},
		}, nil
	})}
	m, err := New("m", WithHTTPClient(client))
	require.NoError(tb, err)
	return m
}

func drain(m *Model) error {
	for _, err := range m.Generate(context.Background(), helloS) {
		if err != nil {
			return err
		}
	}
	return nil
}

// The cost of a delta is bounded: what the library and the decoding of JSON
// need, and nothing of our own that grows.
func TestAllocationsPerDelta(t *testing.T) {
	perCall := func(n int) float64 {
		m := canned(t, n)
		return testing.AllocsPerRun(20, func() { require.NoError(t, drain(m)) })
	}
	few, many := perCall(100), perCall(1100)
	require.LessOrEqual(t, (many-few)/1000, 20.0) // 12; more under the race detector
}

// BenchmarkDeltas measures the client's side of a streamed answer of 1000
// deltas.
func BenchmarkDeltas(b *testing.B) {
	m := canned(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if err := drain(m); err != nil {
			b.Fatal(err)
		}
	}
}
