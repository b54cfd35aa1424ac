package llmagent_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
)

var (
	empty    = reply(scripted.Usage(7, 2, 0))
	thoughts = reply(scripted.Think("Let me ", "see."), scripted.Usage(7, 2, 0))
	blanks   = reply(scripted.Text(" ", "\n"), scripted.Usage(7, 2, 0))
	noCalls  = reply(scripted.Finish(llm.FinishToolCalls), scripted.Usage(7, 2, 0))
	noted    = reply(scripted.Call("note", "{}"))
)

func TestEmptyAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answers  []scripted.Answer
		asked    int
		discards []string
		code     string // of the error, "" if there is none
	}{
		"nothing":                   {replies(empty, good), 2, []string{"empty_answer"}, ""},
		"thoughts":                  {replies(thoughts, good), 2, []string{"empty_answer"}, ""},
		"blanks":                    {replies(blanks, good), 2, []string{"empty_answer"}, ""},
		"calls are announced":       {replies(noCalls, good), 2, []string{"empty_answer"}, ""},
		"twice":                     {replies(thoughts, blanks, good), 2, []string{"empty_answer", "empty_answer"}, "empty_answer"},
		"cut off in between":        {replies(empty, cut, blanks, good), 3, []string{"empty_answer", "truncated", "empty_answer"}, "empty_answer"},
		"after two that broke off":  {replies(cut, cut, empty, good), 4, []string{"truncated", "truncated", "empty_answer"}, ""},
		"too long as well":          {replies(truncated, empty, good), 3, []string{"output_truncated", "empty_answer"}, ""},
		"after a tool":              {replies(noted, empty, good), 3, []string{"empty_answer"}, ""},
		"twice after a tool":        {replies(noted, empty, thoughts, good), 3, []string{"empty_answer", "empty_answer"}, "empty_answer"},
		"before and after a tool":   {replies(empty, noted, empty, good), 4, []string{"empty_answer", "empty_answer"}, ""},
		"words and a tool, nothing": {replies(reply(scripted.Text("Whole."), scripted.Call("note", "{}")), empty, empty), 3, []string{"empty_answer", "empty_answer"}, "empty_answer"},
	} {
		for _, streaming := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				var opts []runner.Option
				if streaming {
					opts = append(opts, runner.WithStreaming())
				}
				s := newSolo(t, c.answers, []llmagent.Option{llmagent.WithTools(tool(t, "note", nothing))}, opts...)
				events, err := s.say(context.Background())
				require.Len(t, s.script.requests, c.asked)
				var codes []string
				for _, d := range payloads[*event.Discard](events) {
					codes = append(codes, d.Code)
					if d.Code == "empty_answer" {
						require.Equal(t, &event.Usage{InputTokens: 7, OutputTokens: 2, Model: "configured"}, d.Usage, "what it used is counted")
					}
				}
				require.Equal(t, c.discards, codes)
				checkDeltas(t, events, streaming)
				if c.code == "" {
					require.NoError(t, err)
					require.Equal(t, "Whole.", payloads[*event.Text](events)[0].Content)
					require.Empty(t, payloads[*event.Notice](events))
				} else {
					require.ErrorIs(t, err, agent.ErrEmptyAnswer)
					require.Equal(t, c.code, must.As[*agent.RunError](err).Code)
					require.Equal(t, c.code, payloads[*event.Notice](events)[0].Code)
					require.Equal(t, c.code, payloads[*event.Failure](events)[0].Code)
					_, err = s.say(context.Background())
					require.NoError(t, err, "the session stays usable")
				}
				for i := 1; i < len(s.script.requests); i++ {
					was, is := s.script.requests[i-1].Messages, s.script.requests[i].Messages
					require.Equal(t, was, is[:len(was)], "a conversation grows at its end")
				}
			})
		}
	}
}

// TestAskedOnceMoreAcrossACrash: the log says that an answer was empty. The process
// that continues asks the same, and not a third time.
func TestAskedOnceMoreAcrossACrash(t *testing.T) {
	s := newSolo(t, replies(empty, empty, good), nil)
	var seq int64
	for e, err := range s.runner.Run(context.Background(), key, llm.UserText("Hello")) {
		require.NoError(t, err)
		if seq = e.Seq; e.Type() == event.TypeDiscard {
			break
		}
	}
	require.Len(t, s.script.requests, 1)
	preview := must.Get(s.runner.PreviewAt(context.Background(), key, seq, "solo"))
	var failed error
	for _, err := range s.runner.Resume(context.Background(), key) {
		failed = err
	}
	require.ErrorIs(t, failed, agent.ErrEmptyAnswer)
	require.Len(t, s.script.requests, 2)
	require.Equal(t, preview.Messages, s.script.requests[1].Messages)
	require.Equal(t, []llm.Message{llm.UserText("Hello"), llm.UserText("[Your answer was empty. Answer now, in words or by calling a tool.]")}, preview.Messages)
	must.Get(s.say(context.Background()))
	require.Equal(t, []llm.Message{llm.UserText("Hello"), llm.UserText("[Your answer was empty. Answer now, in words or by calling a tool.]"), llm.UserText("Hello")}, s.script.requests[2].Messages, "it was told once")
}

func TestEmptyAnswersCount(t *testing.T) {
	s := newSolo(t, replies(empty, good), nil, runner.WithLimits(runner.Limits{ModelCalls: 1}))
	_, err := s.say(context.Background())
	require.ErrorIs(t, err, agent.ErrLimit)
	require.Len(t, s.script.requests, 1)

	s = newSolo(t, replies(empty, good), nil, runner.WithBudgets(runner.Budgets{Turn: runner.Budget{Tokens: 20}}))
	_, err = s.say(context.Background())
	require.ErrorAs(t, err, new(*agent.BudgetError))
	require.Len(t, s.script.requests, 1)
}
