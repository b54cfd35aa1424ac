package openai

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
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

func drain(m *Model, req *llm.Request) error {
	for _, err := range m.Generate(context.Background(), req) {
		if err != nil {
			return err
		}
	}
	return nil
}

// The cost of a delta is bounded: what the decoding of JSON needs, and nothing of
// our own that grows.
func TestAllocationsPerDelta(t *testing.T) {
	perCall := func(n int) float64 {
		m := canned(t, n)
		return race.Allocations(t, 20, func() { require.NoError(t, drain(m, helloS)) })
	}
	few, many := perCall(100), perCall(1100)
	require.LessOrEqual(t, (many-few)/1000, 13.0) // 9
}

// BenchmarkDeltas measures the client's side of a streamed answer of 1000
// deltas.
func BenchmarkDeltas(b *testing.B) {
	m := canned(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if err := drain(m, helloS); err != nil {
			b.Fatal(err)
		}
	}
}

// conversation is a request with n turns that use a tool.
func conversation(n int) *llm.Request {
	req := &llm.Request{System: repeat("be kind ", 100), Stream: true, Tools: []llm.ToolSpec{{Name: "lookup", Description: "Look it up."}}}
	for range n {
		req.Messages = append(req.Messages, llm.UserText(repeat("word ", 20)),
			assistant("", llm.ToolCall{ID: "1", Name: "lookup", Arguments: `{"a": 1}`}), toolResult("1", ""), assistant(repeat("word ", 20)))
	}
	return req
}

// The cost of a turn of four messages is bounded.
func TestAllocationsPerTurn(t *testing.T) {
	m := canned(t, 1)
	perCall := func(turns int) float64 {
		req := conversation(turns)
		return race.Allocations(t, 20, func() { require.NoError(t, drain(m, req)) })
	}
	few, many := perCall(10), perCall(110)
	require.LessOrEqual(t, (many-few)/100, 8.0) // 6
}

// BenchmarkRequest measures writing and sending a request of a conversation of
// 50 turns with a tool, and its short answer.
func BenchmarkRequest(b *testing.B) {
	m, req := canned(b, 1), conversation(50)
	b.ReportAllocs()
	for b.Loop() {
		if err := drain(m, req); err != nil {
			b.Fatal(err)
		}
	}
}
