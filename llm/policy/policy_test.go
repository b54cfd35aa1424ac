package policy_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/policy"
	"github.com/agentarbor/arbor/llm/scripted"
)

// served is a model behind a real endpoint, and how often that was asked.
func served(t *testing.T, name string, answers ...scripted.Answer) (*openai.Model, *atomic.Int64) {
	script, asked := scripted.New().Add(name, answers...), new(atomic.Int64)
	s, err := endpoint.Start(endpoint.Models(script.Model(name)), endpoint.WithRecorder(func([]byte) { asked.Add(1) }))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	m, err := openai.New(name, openai.WithBaseURL(s.URL()), openai.WithRetryDelay(0, 0))
	require.NoError(t, err)
	return m, asked
}

// said is what came of one request.
type said struct {
	text, model string
	usage       llm.Usage
	calls       int
	lost        []llm.Attempt
	notices     []string
	err         error
}

func ask(ctx context.Context, m llm.Model, req *llm.Request) (s said) {
	for c, err := range m.Generate(ctx, req) {
		if err != nil {
			s.err = err
			return s
		}
		if c.Lost != nil {
			s.lost = append(s.lost, *c.Lost)
		}
		if c.Notice != nil {
			s.notices = append(s.notices, c.Notice.Code)
		}
		if c.Usage != nil {
			s.usage = *c.Usage
		}
		if c.Call != nil {
			s.calls++
		}
		s.text += c.Text
		if c.Model != "" {
			s.model = c.Model
		}
	}
	return s
}

func hello(stream bool) *llm.Request {
	return &llm.Request{Messages: []llm.Message{llm.UserText("Hello")}, Stream: stream}
}

func text(s string) scripted.Answer { return scripted.Reply(scripted.Text(s), scripted.Usage(7, 3, 0)) }

func both(t *testing.T, f func(t *testing.T, stream bool)) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) { f(t, stream) })
	}
}

// TestFallback: a model that fails is asked once, the next at once; the first is passed
// over from then on. The last one has its own repetitions.
func TestFallback(t *testing.T) {
	const wait = 50 * time.Second
	for name, fault := range map[string]scripted.Item{
		"429": scripted.Status(429, wait), "503": scripted.Status(503, 0), "401": scripted.Status(401, 0), "cut": scripted.Cut(),
		"gone": scripted.Fail(&llm.Error{Code: llm.CodeUnreachable})} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, stream bool) {
				a, askedA := served(t, "a", scripted.Reply(fault))
				b, askedB := served(t, "b", scripted.Reply(scripted.Status(503, 0)), text("from b"), text("again b"))
				m, err := policy.NewFallback([]llm.Model{a, b})
				require.NoError(t, err)
				require.Equal(t, "a", m.Name())
				began := time.Now()
				got := ask(t.Context(), m, hello(stream))
				require.NoError(t, got.err)
				limit := 15 * time.Second
				if name == "429" {
					limit = wait
				}
				require.Less(t, time.Since(began), limit, "it waits for nothing")
				require.Equal(t, "from b", got.text)
				require.Equal(t, "b", got.model)
				require.Equal(t, llm.Usage{InputTokens: 7, OutputTokens: 3}, got.usage)
				require.Len(t, got.lost, 1)
				require.Equal(t, "a", got.lost[0].Model)
				require.Equal(t, name == "cut", got.lost[0].Begun)
				require.Equal(t, []string{"fallback"}, got.notices)
				got = ask(t.Context(), m, hello(stream))
				require.Equal(t, "again b", got.text)
				require.Empty(t, got.lost)
				require.Equal(t, []string{"fallback"}, got.notices)
				require.EqualValues(t, 1, askedA.Load())
				require.EqualValues(t, 3, askedB.Load())
			})
		})
	}
}

// TestFallbackEnds: an answer of which a part was handed out is not begun again by the
// chain, but by whoever asks next; and a request that is wrong cools nothing.
func TestFallbackEnds(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		a, askedA := served(t, "a", scripted.Reply(scripted.Text("half"), scripted.Cut()), scripted.Reply(scripted.Status(400, 0)), text("well"))
		b, _ := served(t, "b", text("whole"), scripted.Reply(scripted.Status(400, 0)))
		m, err := policy.NewFallback([]llm.Model{a, b}, policy.Cooldown(time.Hour))
		require.NoError(t, err)
		got := ask(t.Context(), m, hello(stream))
		if stream {
			require.Equal(t, "half", got.text)
			require.True(t, llm.Retryable(got.err))
			got = ask(t.Context(), m, hello(stream))
		}
		require.Equal(t, "whole", got.text)
		require.EqualValues(t, 1, askedA.Load())

		uncooled, err := policy.NewFallback([]llm.Model{a, b}, policy.Cooldown(0))
		require.NoError(t, err)
		got = ask(t.Context(), uncooled, hello(stream))
		require.Equal(t, llm.CodeBadRequest, got.err.(*llm.Error).Code)
		require.Len(t, got.lost, 1)
		require.Equal(t, "well", ask(t.Context(), uncooled, hello(stream)).text)
	})
}

// TestFallbackAdmission: what bounds the calls of a turn is asked before the next model.
func TestFallbackAdmission(t *testing.T) {
	refused := errors.New("no more calls")
	a, _ := served(t, "a", scripted.Reply(scripted.Status(503, 0)))
	b, askedB := served(t, "b")
	m, err := policy.NewFallback([]llm.Model{a, b})
	require.NoError(t, err)
	got := ask(llm.WithAdmission(t.Context(), func(m llm.Model, _ *llm.Request, beside int) error {
		require.Equal(t, "b", m.Name())
		require.Zero(t, beside)
		return refused
	}), m, hello(false))
	require.ErrorIs(t, got.err, refused)
	require.Zero(t, askedB.Load())
}

// TestFallbackCools: after the cooldown, or what the endpoint has asked for if that is
// longer, the first model is asked again. If all have failed, none is passed over.
func TestFallbackCools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := scripted.New().
			Add("a", scripted.Reply(scripted.Status(429, time.Minute)), text("a again"), scripted.Reply(scripted.Status(500, 0)), text("a at last")).
			Add("b", text("b"), text("b"), scripted.Reply(scripted.Status(500, 0)))
		m, err := policy.NewFallback([]llm.Model{script.Model("a"), script.Model("b")}, policy.Cooldown(time.Second))
		require.NoError(t, err)
		require.Equal(t, "b", ask(t.Context(), m, hello(true)).text)
		time.Sleep(59 * time.Second)
		require.Equal(t, "b", ask(t.Context(), m, hello(true)).text)
		time.Sleep(time.Second)
		require.Equal(t, "a again", ask(t.Context(), m, hello(true)).text)
		require.Error(t, ask(t.Context(), m, hello(true)).err)
		require.Equal(t, "a at last", ask(t.Context(), m, hello(true)).text)
		require.NoError(t, script.Done())
	})
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := scripted.New().Always("a", text("yes")).Always("b", text("yes"))
		limit, err := policy.NewRateLimit(0.5, 2)
		require.NoError(t, err)
		a, b := limit.Wrap(script.Model("a")), limit.Wrap(script.Model("b"))
		began := time.Now()
		require.Empty(t, ask(t.Context(), a, hello(true)).notices)
		require.Empty(t, ask(t.Context(), b, hello(true)).notices)
		require.Zero(t, time.Since(began))
		require.Equal(t, []string{"waited"}, ask(t.Context(), a, hello(true)).notices, "they share the limit")
		require.Equal(t, 2*time.Second, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, ask(ctx, b, hello(true)).err, context.DeadlineExceeded)
		require.Equal(t, "yes", ask(t.Context(), b, hello(true)).text)
		require.Equal(t, 4*time.Second, time.Since(began), "who gave up has given its place back")
	})
}

// TestRateLimitGivesUp: a limit that would hold a request back too long lets a chain go on.
func TestRateLimitGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := scripted.New().Always("a", text("from a")).Always("b", text("from b"))
		limit, err := policy.NewRateLimit(100, 100, policy.TokensPerMinute(60, func(s string) int { return len(s) }), policy.MaxWait(time.Second))
		require.NoError(t, err)
		m, err := policy.NewFallback([]llm.Model{limit.Wrap(script.Model("a")), script.Model("b")}, policy.Cooldown(0))
		require.NoError(t, err)
		req := hello(false)
		req.MaxTokens = 40
		require.Equal(t, "from a", ask(t.Context(), m, req).text)
		got := ask(t.Context(), m, req)
		require.Equal(t, "from b", got.text)
		require.Equal(t, llm.CodeRateLimited, got.lost[0].Code)
		time.Sleep(time.Minute)
		require.Equal(t, "from a", ask(t.Context(), m, req).text)
		req.MaxTokens = 1000 // more than a minute has
		time.Sleep(time.Minute)
		require.Equal(t, "from a", ask(t.Context(), m, req).text)
	})
}

func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		places, err := policy.NewConcurrency(2)
		require.NoError(t, err)
		var now, most atomic.Int64
		slow := scripted.Reply(scripted.Wait(func(ctx context.Context) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}), scripted.Text("yes"))
		m := places.Wrap(scripted.New().Always("a", slow).Model("a"))
		began, done := time.Now(), make(chan said)
		for range 5 {
			go func() { done <- ask(t.Context(), m, hello(true)) }()
		}
		gone, cancel := context.WithCancel(t.Context())
		go func() { done <- ask(gone, m, hello(true)) }()
		synctest.Wait()
		cancel()
		failed := 0
		for range 6 {
			if s := <-done; s.err != nil {
				failed++
			}
		}
		require.Equal(t, 1, failed)
		require.Equal(t, 3*time.Second, time.Since(began))
		require.EqualValues(t, 2, most.Load())
		for range m.Generate(t.Context(), hello(true)) {
			break // gives its place back
		}
		for range m.Generate(t.Context(), hello(true)) {
			break
		}
		require.Equal(t, "yes", ask(t.Context(), m, hello(true)).text)
	})
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := scripted.Reply(scripted.Status(503, 0))
		b, err := policy.NewBreaker(2, time.Minute)
		require.NoError(t, err)
		m := b.Wrap(scripted.New().Add("a", bad, scripted.Reply(scripted.Status(400, 0)), bad, bad, text("back"), bad, text("stays")).Model("a"))
		for _, status := range []int{503, 400, 503, 503} { // 400 is the request's own fault: a success of the endpoint
			require.Equal(t, status, ask(t.Context(), m, hello(true)).err.(*llm.Error).Status)
		}
		time.Sleep(time.Second)
		open := ask(t.Context(), m, hello(true)).err.(*llm.Error)
		require.Equal(t, llm.CodeUnreachable, open.Code)
		require.Equal(t, 59*time.Second, open.RetryAfter)
		time.Sleep(open.RetryAfter + 1)
		require.Equal(t, "back", ask(t.Context(), m, hello(true)).text)
		require.Equal(t, 503, ask(t.Context(), m, hello(true)).err.(*llm.Error).Status, "one failure of two")
		require.Equal(t, "stays", ask(t.Context(), m, hello(true)).text)
	})
}

// TestBreakerLeavesCancellationsOut: neither who gives up nor who breaks out counts.
func TestBreakerLeavesCancellationsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := scripted.Reply(scripted.Wait(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))
		b, err := policy.NewBreaker(1, time.Minute)
		require.NoError(t, err)
		m := b.Wrap(scripted.New().Add("a", hangs, text("half"), scripted.Reply(scripted.Status(500, 0)), hangs, scripted.Reply(scripted.Status(500, 0)), text("back")).Model("a"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, ask(ctx, m, hello(true)).err, context.DeadlineExceeded)
		for range m.Generate(t.Context(), hello(true)) {
			break
		}
		require.Equal(t, 500, ask(t.Context(), m, hello(true)).err.(*llm.Error).Status)
		time.Sleep(time.Minute + 1)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, ask(ctx, m, hello(true)).err, context.DeadlineExceeded)
		require.Equal(t, 500, ask(t.Context(), m, hello(true)).err.(*llm.Error).Status, "the one that decides was given up, so another decides")
		require.Equal(t, llm.CodeUnreachable, ask(t.Context(), m, hello(true)).err.(*llm.Error).Code)
		time.Sleep(time.Minute + 1)
		require.Equal(t, "back", ask(t.Context(), m, hello(true)).text)
	})
}

func TestConstructorsRefuse(t *testing.T) {
	m := scripted.New().Model("a")
	for want, err := range map[string]error{
		"two models or more": second(policy.NewFallback([]llm.Model{m})), "none may be nil": second(policy.NewFallback([]llm.Model{m, nil})),
		"negative": second(policy.NewFallback([]llm.Model{m, m}, policy.Cooldown(-1))), "option 0": second(policy.NewFallback([]llm.Model{m, m}, nil)),
		"rate above zero": second(policy.NewRateLimit(0, 1)), "burst": second(policy.NewRateLimit(1, 0)),
		"limit of tokens": second(policy.NewRateLimit(1, 1, policy.TokensPerMinute(0, nil))), "longest wait": second(policy.NewRateLimit(1, 1, policy.MaxWait(-1))),
		"0 concurrent answers": second(policy.NewConcurrency(0)), "1 failure or more": second(policy.NewBreaker(0, 1)), "a pause": second(policy.NewBreaker(1, 0)),
		"delay above zero": second(policy.NewHedge(0, m, m)), "a hedge needs two": second(policy.NewHedge(1, m)),
		"1 answer or more": second(policy.NewCache(0, 1)), "a partition that": second(policy.NewCache(1, 1, policy.Partition(nil)))} {
		require.ErrorContains(t, err, want)
	}
}

func second[T any](_ T, err error) error { return err }
