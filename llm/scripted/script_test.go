package scripted_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/race"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
)

func ask(m llm.Model, req *llm.Request) ([]llm.Chunk, error) {
	var chunks []llm.Chunk
	for c, err := range m.Generate(context.Background(), req) {
		if err != nil {
			return chunks, err
		}
		chunks = append(chunks, c)
	}
	return chunks, nil
}

func TestAnswersComeInOrderPerAgent(t *testing.T) {
	s := scripted.New().
		Add("support", scripted.Reply(
			scripted.Think("money, so "), scripted.Think("billing"),
			scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`),
			scripted.Usage(10, 3, 2))).
		Add("billing", scripted.Reply(scripted.Text("two ", "charges"), scripted.ModelName("m-1"))).
		Add("support", scripted.Reply(scripted.CallID("x", "a", "{oops"), scripted.Call("b", ""), scripted.Finish("odd")))
	support := s.Model("support")
	require.Equal(t, "support", support.Name())

	got, err := ask(support, &llm.Request{})
	require.NoError(t, err)
	require.Equal(t, []llm.Chunk{
		{Reasoning: "money, so "},
		{Reasoning: "billing"},
		{Call: &llm.ToolCall{ID: "call_support_1", Name: "transfer_to_agent", Arguments: `{"agent_name":"billing"}`}},
		{Usage: &llm.Usage{InputTokens: 10, OutputTokens: 3, CachedTokens: 2}, Finish: llm.FinishToolCalls},
	}, got)

	got, err = ask(s.Model("billing"), &llm.Request{})
	require.NoError(t, err)
	require.Equal(t, []llm.Chunk{{Text: "two "}, {Text: "charges"}, {Model: "m-1"}, {Finish: llm.FinishStop}}, got)

	require.ErrorContains(t, s.Done(), `agent "support" was asked 1 time, but its script has 2 answers`)
	got, err = ask(support, &llm.Request{})
	require.NoError(t, err)
	require.Equal(t, []llm.Chunk{
		{Call: &llm.ToolCall{ID: "x", Name: "a", Arguments: "{oops"}},
		{Call: &llm.ToolCall{ID: "call_support_3", Name: "b"}},
		{Finish: "odd"},
	}, got)
	require.NoError(t, s.Done())
	require.Equal(t, []string{"billing", "support"}, s.Agents())
}

func TestDriftIsLoud(t *testing.T) {
	cases := map[string]struct {
		script *scripted.Script
		agent  string
		want   string
	}{
		"beyond":  {scripted.New().Add("a"), "a", `call 1 of agent "a" is beyond its script, which has 0 answers`},
		"unknown": {scripted.New().Add("a").Add("b"), "c", `no answers for agent "c", only for a, b`},
		"nobody":  {scripted.New(), "c", `only for no agent`},
		"expect": {scripted.New().Add("a", scripted.Reply(scripted.ExpectUser("bye"))), "a",
			`call 1 of agent "a": the last user message is "hello" and does not contain "bye"`},
		"tools": {scripted.New().Add("a", scripted.Reply(scripted.ExpectTools("x", "y"))), "a",
			`the tools offered are [y z], not [x y]`},
		"system": {scripted.New().Add("a", scripted.Reply(scripted.ExpectSystem("bye"))), "a", `the system message is "sys"`},
		"result": {scripted.New().Add("a", scripted.Reply(scripted.ExpectResult("bye"))), "a", `the request has no tool result`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m, ok := c.script.Models()(c.agent)
			require.True(t, ok)
			got, err := ask(m, &llm.Request{
				System:   "sys",
				Messages: []llm.Message{llm.UserText("hello")},
				Tools:    []llm.ToolSpec{{Name: "z"}, {Name: "y"}},
			})
			require.Empty(t, got)
			var e *llm.Error
			require.ErrorAs(t, err, &e)
			require.False(t, e.Retryable)
			require.ErrorIs(t, err, scripted.ErrDrift)
			require.ErrorContains(t, err, c.want)
			require.ErrorIs(t, c.script.Done(), scripted.ErrDrift)
			require.ErrorContains(t, c.script.Done(), c.want)
		})
	}
}

func TestExpectationsThatHold(t *testing.T) {
	s := scripted.New().Add("a", scripted.Reply(
		scripted.ExpectUser("ell"), scripted.ExpectSystem("sys"), scripted.ExpectResult("42"),
		scripted.ExpectTools("y", "z"), scripted.Text("ok")))
	_, err := ask(s.Model("a"), &llm.Request{
		System: "sys",
		Messages: []llm.Message{
			llm.UserText("hello"),
			{Role: llm.RoleAssistant, Content: llm.Content{Parts: []llm.Part{llm.ToolCall{ID: "1", Name: "z"}}}},
			{Role: llm.RoleTool, Content: llm.Content{Parts: []llm.Part{llm.ToolResult{CallID: "1", Output: "it is 42"}}}},
		},
		Tools: []llm.ToolSpec{{Name: "z"}, {Name: "y"}},
	})
	require.NoError(t, err)
	require.NoError(t, s.Done())
}

func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	s := scripted.New().Add("a",
		scripted.Reply(scripted.Text("part"), scripted.Cut(), scripted.Text("never")),
		scripted.Reply(scripted.Status(429, 2*time.Second)),
		scripted.Reply(scripted.Text("part"), scripted.Fail(boom)),
		scripted.Reply(scripted.Status(409, 0)),
		scripted.Reply(scripted.Status(422, 0)),
	)
	m := s.Model("a")

	got, err := ask(m, &llm.Request{})
	require.NoError(t, err)
	require.Equal(t, []llm.Chunk{{Text: "part"}}, got, "a cut ends without terminal chunk")

	_, err = ask(m, &llm.Request{})
	var e *llm.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, llm.CodeRateLimited, e.Code)
	require.Equal(t, 429, e.Status)
	require.Equal(t, 2*time.Second, e.RetryAfter)
	require.True(t, e.Retryable)

	got, err = ask(m, &llm.Request{})
	require.ErrorIs(t, err, boom)
	require.Len(t, got, 1)

	_, err = ask(m, &llm.Request{})
	require.True(t, llm.Retryable(err))
	_, err = ask(m, &llm.Request{})
	require.ErrorAs(t, err, &e)
	require.Equal(t, llm.CodeBadRequest, e.Code)
	require.False(t, e.Retryable)
	require.NoError(t, s.Done())
}

func TestWaitAndCancel(t *testing.T) {
	gate := make(chan struct{})
	m := scripted.Always("a", scripted.Reply(scripted.Text("one"), scripted.WaitFor(gate), scripted.Text("two")))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	var last error
	for c, err := range m.Generate(ctx, &llm.Request{}) {
		if c.Text != "" {
			got = append(got, c.Text)
			cancel()
		}
		last = err
	}
	require.Equal(t, []string{"one"}, got)
	require.ErrorIs(t, last, context.Canceled)

	close(gate)
	chunks, err := ask(m, &llm.Request{})
	require.NoError(t, err)
	require.Len(t, chunks, 3)
}

func TestRepeatingModes(t *testing.T) {
	s := scripted.New().
		Add("a", scripted.Reply(scripted.Text("first"))).
		Always("a", scripted.Reply(scripted.Text("again"))).
		Func("b", func(r *llm.Request) scripted.Answer {
			return scripted.Reply(scripted.Call("echo", r.Messages[0].Text))
		})
	for _, want := range []string{"first", "again", "again"} {
		got, err := ask(s.Model("a"), &llm.Request{})
		require.NoError(t, err)
		require.Equal(t, want, got[0].Text)
	}
	for i := range 2 {
		got, err := ask(s.Model("b"), &llm.Request{Messages: []llm.Message{llm.UserText("hi")}})
		require.NoError(t, err)
		require.Equal(t, &llm.ToolCall{ID: fmt.Sprintf("call_b_%d", i+1), Name: "echo", Arguments: "hi"}, got[0].Call)
	}
	require.NoError(t, s.Done())

	m := scripted.Func("f", func(*llm.Request) scripted.Answer { return scripted.Reply(scripted.ExpectUser("x")) })
	require.Equal(t, "f", m.Name())
	_, err := ask(m, &llm.Request{})
	require.ErrorIs(t, err, scripted.ErrDrift)
}

func TestRecordedRequestsAreCopies(t *testing.T) {
	s := scripted.New(scripted.WithRecording()).Always("a", scripted.Reply())
	zero := 0.0
	req := &llm.Request{Messages: []llm.Message{llm.UserParts(llm.TextPart{Text: "old"})}}
	req.Temperature = &zero
	_, err := ask(s.Model("a"), req)
	require.NoError(t, err)
	req.Messages[0].Parts[0] = llm.TextPart{Text: "new"}
	zero = 1
	got := s.Requests("a")
	require.Len(t, got, 1)
	require.Equal(t, "old", got[0].Messages[0].PlainText())
	require.Zero(t, *got[0].Temperature)
	require.Nil(t, s.Requests("b"))
}

func TestCallsAreNotShared(t *testing.T) {
	m := scripted.Always("a", scripted.Reply(scripted.CallID("1", "f", "{}"), scripted.Usage(1, 1, 0)))
	first, err := ask(m, &llm.Request{})
	require.NoError(t, err)
	first[0].Call.ID = "changed"
	first[1].Usage.InputTokens = 99
	second, err := ask(m, &llm.Request{})
	require.NoError(t, err)
	require.Equal(t, "1", second[0].Call.ID)
	require.Equal(t, 1, second[1].Usage.InputTokens)
}

func TestIDsOfLongNamesStayShortAndDistinct(t *testing.T) {
	long := strings.Repeat("specialist-", 5)
	s := scripted.New()
	ids := map[string]bool{}
	for _, agent := range []string{long + "a", long + "b"} {
		s.Add(agent, scripted.Reply(scripted.Call("f", "{}")))
		got, err := ask(s.Model(agent), &llm.Request{})
		require.NoError(t, err)
		require.LessOrEqual(t, len(got[0].Call.ID), 40)
		ids[got[0].Call.ID] = true
	}
	require.Len(t, ids, 2)
}

func TestConcurrentUse(t *testing.T) {
	s := scripted.New(scripted.WithRecording()).Func("b", func(*llm.Request) scripted.Answer {
		return scripted.Reply(scripted.Call("x", "{}"))
	})
	for range 50 {
		s.Add("a", scripted.Reply(scripted.Text("x")))
	}
	var wg sync.WaitGroup
	for range 50 {
		for _, agent := range []string{"a", "b"} {
			wg.Go(func() {
				_, err := ask(s.Model(agent), &llm.Request{})
				require.NoError(t, err)
			})
		}
	}
	wg.Wait()
	require.NoError(t, s.Done())
	require.Len(t, s.Requests("a"), 50)
}

func TestTextChunksCostNoAllocation(t *testing.T) {
	perCall := func(chunks int) float64 {
		deltas := make([]string, chunks)
		for i := range deltas {
			deltas[i] = "word "
		}
		m := scripted.Always("a", scripted.Reply(scripted.Text(deltas...)))
		req, ctx := &llm.Request{}, context.Background()
		return race.Allocations(t, 100, func() {
			for _, err := range m.Generate(ctx, req) {
				if err != nil {
					panic(err)
				}
			}
		})
	}
	require.Equal(t, perCall(1), perCall(1000))
	require.LessOrEqual(t, perCall(1), 3.0)
}

func BenchmarkAlways(b *testing.B) {
	deltas := make([]string, 100)
	for i := range deltas {
		deltas[i] = "word "
	}
	m := scripted.Always("a", scripted.Reply(scripted.Text(deltas...)))
	req, ctx := &llm.Request{}, context.Background()
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range m.Generate(ctx, req) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
