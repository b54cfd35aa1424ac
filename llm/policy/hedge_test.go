package policy_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/policy"
	"github.com/agentarbor/arbor/llm/scripted"
)

// TestHedgeOverHTTP: the slow endpoint sees its request cancelled.
func TestHedgeOverHTTP(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		arrived, cancelled := make(chan struct{}), make(chan struct{})
		slow, _ := served(t, "slow", scripted.Reply(scripted.Wait(func(ctx context.Context) error {
			close(arrived)
			<-ctx.Done()
			close(cancelled)
			return ctx.Err()
		})))
		fast, _ := served(t, "fast", scripted.Reply(scripted.Wait(func(ctx context.Context) error {
			select {
			case <-arrived: // else nothing would have to be cancelled
			case <-ctx.Done():
			}
			return nil
		}), scripted.Text("quick ", "one"), scripted.Call("f", "{}"), scripted.Usage(7, 3, 0)))
		m, err := policy.NewHedge(time.Millisecond, slow, fast)
		require.NoError(t, err)
		got := ask(t.Context(), m, hello(stream))
		require.NoError(t, got.err)
		require.Equal(t, "quick one", got.text)
		require.Equal(t, 1, got.calls)
		require.Equal(t, "fast", got.model)
		require.Equal(t, []string{"hedged"}, got.notices)
		require.Len(t, got.lost, 1)
		require.Equal(t, "slow", got.lost[0].Model)
		require.Equal(t, llm.CodeHedged, got.lost[0].Code)
		require.True(t, got.lost[0].Begun, "somebody pays for it")
		<-cancelled
	})
}

func sleeps(d time.Duration, items ...scripted.Item) scripted.Answer {
	return scripted.Reply(append([]scripted.Item{scripted.Wait(func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})}, items...)...)
}

// TestHedgeWithoutCancellation: a request that ignores its cancellation delays no answer, and ends with its next chunk.
func TestHedgeWithoutCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, ended := time.Now(), time.Time{}
		deaf := scripted.Reply(scripted.Wait(func(context.Context) error { time.Sleep(time.Hour); return nil }), scripted.Text("late"),
			scripted.Wait(func(context.Context) error { ended = time.Now(); return nil }), scripted.Text("again"))
		m, err := policy.NewHedge(time.Second, scripted.Always("deaf", deaf), scripted.Always("fast", scripted.Reply(scripted.Text("quick"))))
		require.NoError(t, err)
		require.Equal(t, "quick", ask(t.Context(), m, hello(true)).text)
		require.Equal(t, time.Second, time.Since(began))
		time.Sleep(2 * time.Hour) // the bubble does not end before its goroutines
		require.Zero(t, ended)
	})
}

func TestHedge(t *testing.T) {
	fails := scripted.Status(503, 0)
	for name, c := range map[string]struct {
		first, second scripted.Answer
		took          time.Duration
		text          string
		lost          []llm.ErrorCode
		status        int
	}{
		"first in time":        {sleeps(time.Second, scripted.Text("1")), text("2"), time.Second, "1", nil, 0},
		"first late but first": {sleeps(3*time.Second, scripted.Text("1")), sleeps(5*time.Second, scripted.Text("2")), 3 * time.Second, "1", []llm.ErrorCode{llm.CodeHedged}, 0},
		"second":               {sleeps(9*time.Second, scripted.Text("1")), sleeps(time.Second, scripted.Text("2")), 3 * time.Second, "2", []llm.ErrorCode{llm.CodeHedged}, 0},
		"first fails at once":  {sleeps(time.Second, fails), text("2"), time.Second, "", nil, 503},
		"first fails late":     {sleeps(3*time.Second, fails), sleeps(5*time.Second, scripted.Text("2")), 7 * time.Second, "2", []llm.ErrorCode{llm.CodeServer}, 0},
		"second fails":         {sleeps(9*time.Second, scripted.Text("1")), sleeps(time.Second, fails), 9 * time.Second, "1", []llm.ErrorCode{llm.CodeServer}, 0},
		"both fail":            {sleeps(9*time.Second, fails), sleeps(time.Second, scripted.Status(429, 0)), 9 * time.Second, "", []llm.ErrorCode{llm.CodeRateLimited}, 503},
		"second is cut":        {sleeps(9*time.Second, scripted.Text("1")), scripted.Reply(scripted.Cut()), 9 * time.Second, "1", []llm.ErrorCode{llm.CodeTruncated}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script := scripted.New().Add("a", c.first).Add("b", c.second)
				m, err := policy.NewHedge(2*time.Second, script.Model("a"), script.Model("b"))
				require.NoError(t, err)
				began := time.Now()
				got := ask(t.Context(), m, hello(true))
				require.Equal(t, c.took, time.Since(began))
				require.Equal(t, c.text, got.text)
				var lost []llm.ErrorCode
				for _, a := range got.lost {
					lost = append(lost, a.Code)
				}
				require.Equal(t, c.lost, lost)
				if c.status != 0 {
					require.Equal(t, c.status, got.err.(*llm.Error).Status)
				} else {
					require.NoError(t, got.err)
				}
			})
		})
	}
}

// TestHedgeIsNotAllowed: a turn that may ask no more is answered by the first.
func TestHedgeIsNotAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := scripted.New().Add("a", sleeps(5*time.Second, scripted.Text("1")))
		m, err := policy.NewHedge(time.Second, script.Model("a"), script.Model("b"))
		require.NoError(t, err)
		asked := 0
		got := ask(llm.WithAdmission(t.Context(), func(m llm.Model, _ *llm.Request, beside int) error {
			asked++
			require.Equal(t, 1, beside)
			return errors.New("no")
		}), m, hello(true))
		require.Equal(t, 1, asked)
		require.Equal(t, said{text: "1", model: "a"}, got)
	})
}

// TestHedgeEnds: cancelling, breaking out and panics reach all who race, and nobody stays
// behind, which the bubble would notice.
func TestHedgeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := scripted.New().Always("a", sleeps(time.Hour)).Always("b", sleeps(2*time.Second, scripted.Text("x", "y")))
		m, err := policy.NewHedge(time.Second, script.Model("a"), script.Model("b"))
		require.NoError(t, err)
		for _, after := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			require.ErrorIs(t, ask(ctx, m, hello(true)).err, context.DeadlineExceeded)
			cancel()
		}
		for most := range 4 { // at the notice, the lost one, and each part of the answer
			got := 0
			for range m.Generate(t.Context(), hello(true)) {
				if got++; got > most {
					break
				}
			}
			require.Equal(t, most+1, got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var failed error
		for c, err := range m.Generate(ctx, hello(true)) {
			if c.Text == "x" {
				cancel()
			}
			failed = err
		}
		require.ErrorIs(t, failed, context.Canceled)

		bad, err := policy.NewHedge(time.Second, panics{}, script.Model("b"))
		require.NoError(t, err)
		require.PanicsWithValue(t, "boom", func() { ask(t.Context(), bad, hello(true)) })
	})
}

type panics struct{}

func (panics) Name() string { return "panics" }
func (panics) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(func(llm.Chunk, error) bool) { panic("boom") }
}
