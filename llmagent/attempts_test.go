package llmagent_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/tools"
)

var (
	cut       = reply(scripted.Think("hm"), scripted.Text("Hal", "f"), scripted.Cut())
	silentCut = reply(scripted.Cut())
	truncated = reply(scripted.Text("Let me"), scripted.Call("note", `{"a":`), scripted.Finish(llm.FinishLength))
	midway    = reply(scripted.Text("Hal"), scripted.Status(503, 0))
	refused   = reply(scripted.Text("Hal"), scripted.Status(400, 0))
	atOnce    = reply(scripted.Status(503, 0))
	good      = reply(scripted.Text("Whole."))
)

func TestAttempts(t *testing.T) {
	for name, c := range map[string]struct {
		answers  []scripted.Answer
		asked    int
		discards []string
		fails    error  // or
		code     string // of the run's error
	}{
		"good":                            {replies(good), 1, nil, nil, ""},
		"cut once":                        {replies(cut, good), 2, []string{"truncated"}, nil, ""},
		"cut before the first byte":       {replies(silentCut, good), 2, []string{"truncated"}, nil, ""},
		"cut twice":                       {replies(cut, silentCut, good), 3, []string{"truncated", "truncated"}, nil, ""},
		"cut three times":                 {replies(cut, cut, cut, good), 3, []string{"truncated", "truncated", "truncated"}, nil, "truncated"},
		"breaks midway":                   {replies(midway, good), 2, []string{"server_error"}, nil, ""},
		"fails at once":                   {replies(atOnce, good), 1, nil, nil, "server_error"},
		"cut, then fails at once":         {replies(cut, atOnce, good), 2, []string{"truncated"}, nil, "server_error"},
		"not worth another":               {replies(refused, good), 1, []string{"bad_request"}, nil, "bad_request"},
		"too long once":                   {replies(truncated, good), 2, []string{"output_truncated"}, nil, ""},
		"too long twice":                  {replies(truncated, truncated, good), 2, []string{"output_truncated", "output_truncated"}, agent.ErrOutputTruncated, "output_truncated"},
		"cut, too long, cut":              {replies(cut, truncated, cut, good), 3, []string{"truncated", "output_truncated", "truncated"}, nil, "truncated"},
		"too long in the last attempt":    {replies(cut, cut, truncated, good), 4, []string{"truncated", "truncated", "output_truncated"}, nil, ""},
		"too long last, and then no luck": {replies(cut, cut, truncated, cut, good), 4, []string{"truncated", "truncated", "output_truncated", "truncated"}, nil, "truncated"},
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
				}
				require.Equal(t, c.discards, codes)
				if c.code == "" {
					require.NoError(t, err)
					require.Equal(t, "Whole.", payloads[*event.Text](events)[0].Content)
				} else {
					require.Equal(t, c.code, must.As[*agent.RunError](err).Code)
					require.Empty(t, payloads[*event.Text](events), "nothing of a broken answer is stored")
				}
				if c.fails != nil {
					require.ErrorIs(t, err, c.fails)
				}
				require.Empty(t, payloads[*event.ToolCall](events), "nothing of a broken answer is executed")
				checkDeltas(t, events, streaming)
			})
		}
	}
}

// checkDeltas checks what deltas promise: one id and one attempt a block, and
// at the end either the whole event or a discard that names the id.
func checkDeltas(t *testing.T, events []*event.Event, streaming bool) {
	attempts := make(map[string]int)
	shown := make(map[string]string)
	last := 1
	for _, e := range events {
		switch d := e.Data.(type) {
		case *event.Text, *event.Reasoning:
			if e.Partial {
				require.True(t, streaming)
				require.Contains(t, []int{0, e.Attempt}, attempts[e.ID], "a new attempt has new ids")
				require.GreaterOrEqual(t, e.Attempt, last, "attempts are counted")
				attempts[e.ID], last = e.Attempt, e.Attempt
				shown[e.ID] += content(e)
			} else if streaming {
				require.Equal(t, shown[e.ID], content(e))
				delete(shown, e.ID)
			}
		case *event.Discard:
			for _, id := range d.IDs {
				require.Contains(t, shown, id)
				require.Equal(t, last, attempts[id], "one discard an attempt")
				delete(shown, id)
			}
			last++
		case *event.Usage: // another answer
			last = 1
		}
	}
	require.Empty(t, shown, "deltas that came to nothing")
}

func content(e *event.Event) string {
	if r, ok := e.Data.(*event.Reasoning); ok {
		return r.Content
	}
	return e.Text()
}

// TestEndlessTruncation would not end if attempts were not bounded by all of
// their kinds together.
func TestEndlessTruncation(t *testing.T) {
	answers := replies(cut, cut, truncated)
	for range 50 {
		answers = append(answers, cut)
	}
	s := newSolo(t, answers, nil)
	_, err := s.say(context.Background())
	require.Equal(t, llm.CodeTruncated, must.As[*llm.Error](err).Code)
	require.LessOrEqual(t, len(s.script.requests), 4)
}

func TestCancelWhileTheModelSpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		mine := errors.New("the user closed the window")
		s := newSolo(t, replies(reply(scripted.Text("Hal"), scripted.Wait(func(ctx context.Context) error {
			cancel(mine)
			<-ctx.Done()
			return ctx.Err()
		}))), nil, runner.WithStreaming())
		_, err := s.say(ctx)
		require.ErrorIs(t, err, mine)
		for _, e := range s.log() {
			require.NotContains(t, []string{event.TypeText, event.TypeError, event.TypeDiscard, event.TypeHarnessEnd}, e.Type(), "a cancellation stores nothing")
		}
		events := must.Get(s.say(context.Background()))
		require.Equal(t, "ok", payloads[*event.Text](events)[0].Content)
		synctest.Wait()
	})
}

// TestBreakAtEveryEvent leaves the loop at each event in turn, deltas and
// progress included. The bubble fails if a goroutine stays behind.
func TestBreakAtEveryEvent(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		for n, done := 1, false; !done; n++ {
			synctest.Test(t, func(t *testing.T) {
				slow := tool(t, "slow", func(c tools.Context) (any, error) {
					c.Progress("begun")
					select {
					case <-time.After(time.Second):
						return "slept", nil
					case <-c.Done():
						return nil, c.Err()
					}
				})
				stubborn := tool(t, "stubborn", func(c tools.Context) (any, error) {
					time.Sleep(1500 * time.Millisecond)
					c.Set("k", 1)
					return "late", nil
				})
				var opts []runner.Option
				if streaming {
					opts = append(opts, runner.WithStreaming())
				}
				s := newSolo(t, replies(cut, reply(scripted.Think("a", "b"), scripted.Text("c", "d"), scripted.Call("slow", "{}"), scripted.Call("stubborn", "{}"), scripted.Call("none", "{}"))),
					[]llmagent.Option{llmagent.WithTools(slow, stubborn)}, opts...)
				seen := 0
				for _, err := range s.runner.Run(t.Context(), key, llm.UserText("Hello")) {
					require.NoError(t, err)
					if seen++; seen == n {
						break
					}
				}
				done = seen < n
				stored := s.log()
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Len(t, s.log(), len(stored), "nothing is stored after the break")
				must.Get(s.say(t.Context()))
			})
			require.Less(t, n, 100)
		}
	}
}
