package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

func fn(t testing.TB, f func(tools.Context) (any, error), opts ...tools.Option) tools.Tool {
	tool, err := tools.Func("work", "Works.", func(c tools.Context, _ struct{}) (any, error) { return f(c) }, opts...)
	require.NoError(t, err)
	return tool
}

func TestOutputs(t *testing.T) {
	for _, c := range []struct {
		out  any
		want string
	}{
		{"plain", `"plain"`},
		{"", `""`},
		{"<a href=\"x\">\n", `"<a href=\"x\">\n"`},
		{"a\xffb", `"a�b"`},
		{nil, `null`},
		{3.5, `3.5`},
		{[]string{"a"}, `["a"]`},
		{json.RawMessage(`{"a":1}`), `{"a":1}`},
		{json.RawMessage("{oops"), `"{oops"`},
		{json.RawMessage("{\"a\":\"\xff\"}"), `{"a":"�"}`},
		{math.NaN(), `"value without a JSON form: json: unsupported value: NaN"`},
		{func() {}, `"value without a JSON form: json: unsupported type: func()"`},
	} {
		res := call(t, fn(t, func(tools.Context) (any, error) { return c.out, nil }), "{}")
		require.False(t, res.IsError)
		require.Equal(t, c.want, string(res.Output))
		require.True(t, utf8.Valid(res.Output))
	}
}

func TestAToolsErrorIsAResult(t *testing.T) {
	res := call(t, fn(t, func(tools.Context) (any, error) { return "half", errors.New("disk \xff full") }), "{}")
	require.True(t, res.IsError)
	require.Equal(t, "disk � full", text(t, res))
	// Its own context errors are nothing else.
	res = call(t, fn(t, func(tools.Context) (any, error) { return nil, context.Canceled }), "{}")
	require.True(t, res.IsError)
	require.Equal(t, "context canceled", text(t, res))
}

func TestOutputIsCapped(t *testing.T) {
	for _, c := range []struct {
		name  string
		out   any
		err   error
		limit int
		want  string
	}{
		{"fits", "12345", nil, 5, "12345"},
		{"at a character's border", "123é5", nil, 4, "123\n[cut here: 3 of 6 bytes shown]"},
		{"after a character", "123é5", nil, 5, "123é\n[cut here: 5 of 6 bytes shown]"},
		{"an error", nil, errors.New("12345678"), 3, "123\n[cut here: 3 of 8 bytes shown]"},
		{"an error of bad bytes", nil, errors.New(strings.Repeat("a\x80", 4)), 6, "a�a\n[cut here: 5 of 16 bytes shown]"},
		{"JSON becomes text", []int{1, 2, 3}, nil, 4, "[1,2\n[cut here: 4 of 7 bytes shown]"},
		{"raw JSON becomes text", json.RawMessage(`["a","b"]`), nil, 4, "[\"a\"\n[cut here: 4 of 9 bytes shown]"},
		{"the default", strings.Repeat("x", tools.DefaultMaxOutput+1), nil, 0,
			strings.Repeat("x", tools.DefaultMaxOutput) + "\n[cut here: 65536 of 65537 bytes shown]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := call(t, fn(t, func(tools.Context) (any, error) { return c.out, c.err }, tools.MaxOutput(c.limit)), "{}")
			require.Equal(t, c.want, text(t, res))
			require.Equal(t, c.err != nil, res.IsError)
		})
	}
}

type panicsInJSON struct{}

func (panicsInJSON) MarshalJSON() ([]byte, error) { panic("json") }

func TestPanicsStayInside(t *testing.T) {
	for name, f := range map[string]func(tools.Context) (any, error){
		"panic":        func(tools.Context) (any, error) { panic("secret") },
		"index":        func(tools.Context) (any, error) { return []int{1}[len(os.Args)+1], nil },
		"in its JSON":  func(tools.Context) (any, error) { return panicsInJSON{}, nil },
		"nil error":    func(tools.Context) (any, error) { var e *json.SyntaxError; return nil, e },
		"runtime exit": func(tools.Context) (any, error) { runtime.Goexit(); return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				begin := time.Now()
				res, err := tools.Execute(t.Context(), fn(t, f), tools.CallInfo{CallID: "c1", Logger: slog.New(slog.NewTextHandler(&log, nil))}, json.RawMessage("{}"))
				require.NoError(t, err)
				require.True(t, res.IsError)
				require.Contains(t, text(t, res), "the tool work failed with an internal error")
				require.NotContains(t, text(t, res), "secret", "the model does not read what the tool's insides say")
				require.Zero(t, time.Since(begin), "nobody waits for the time limit")
				if name != "runtime exit" {
					require.Contains(t, log.String(), "a tool panicked")
				}
			})
		})
	}
}

func TestTimeout(t *testing.T) {
	run := func(t *testing.T, f func(tools.Context) (any, error), opts ...tools.Option) (tools.Result, time.Duration) {
		begin := time.Now()
		res, err := tools.Execute(t.Context(), fn(t, f, opts...), tools.CallInfo{}, json.RawMessage("{}"))
		require.NoError(t, err)
		return res, time.Since(begin)
	}
	t.Run("a tool that minds its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			res, took := run(t, func(c tools.Context) (any, error) { <-c.Done(); c.Set("left", true); return nil, c.Err() }, tools.Timeout(time.Second))
			require.True(t, res.IsError)
			require.Contains(t, text(t, res), "timed out after 1s")
			require.Equal(t, time.Second, took)
			require.Equal(t, map[string]any{"left": true}, res.State)
		})
	})
	t.Run("the default", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, took := run(t, func(c tools.Context) (any, error) { <-c.Done(); return nil, c.Err() })
			require.Equal(t, tools.DefaultTimeout, took)
		})
	})
	t.Run("none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			res, took := run(t, func(c tools.Context) (any, error) { time.Sleep(24 * time.Hour); return "done", c.Err() }, tools.Timeout(-1))
			require.False(t, res.IsError)
			require.Equal(t, 24*time.Hour, took)
		})
	})
	t.Run("a result at the last moment counts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			res, took := run(t, func(c tools.Context) (any, error) { time.Sleep(1500 * time.Millisecond); return "late", nil }, tools.Timeout(time.Second))
			require.False(t, res.IsError)
			require.Equal(t, `"late"`, string(res.Output))
			require.Equal(t, 1500*time.Millisecond, took)
		})
	})
	t.Run("a tool that ignores its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			res, took := run(t, func(c tools.Context) (any, error) {
				time.Sleep(time.Hour)
				c.Set("late", true)
				c.Progress("late")
				return "never seen", nil
			}, tools.Timeout(time.Second))
			require.True(t, res.IsError)
			require.Contains(t, text(t, res), "outcome is unknown")
			require.Less(t, took, 10*time.Second)
			require.Nil(t, res.State)
			time.Sleep(2 * time.Hour) // lets it end; the bubble fails if it stays
		})
	})
	t.Run("the caller's context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := tools.Execute(ctx, fn(t, func(c tools.Context) (any, error) { <-c.Done(); return nil, c.Err() }), tools.CallInfo{}, json.RawMessage("{}"))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			// What was finished in spite of it is kept.
			res, err := tools.Execute(ctx, fn(t, func(tools.Context) (any, error) { return "paid", nil }), tools.CallInfo{}, json.RawMessage("{}"))
			require.NoError(t, err)
			require.Equal(t, `"paid"`, string(res.Output))
		})
	})
}

func TestProgressIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		tool := fn(t, func(c tools.Context) (any, error) {
			for i := range 25 {
				c.Progress(map[string]int{"step": i})
				time.Sleep(100 * time.Millisecond / 10)
			}
			return nil, nil
		})
		_, err := tools.Execute(t.Context(), tool, tools.CallInfo{Progress: func(p json.RawMessage) { got = append(got, string(p)) }}, json.RawMessage("{}"))
		require.NoError(t, err)
		require.Equal(t, []string{`{"step":0}`, `{"step":10}`, `{"step":20}`}, got)
	})
	call(t, fn(t, func(c tools.Context) (any, error) { c.Progress(1); return nil, nil }), "{}") // nobody listens
}

func TestContext(t *testing.T) {
	state := map[string]any{"old": "value", "gone": 1.0}
	info := tools.CallInfo{Session: session.ID("s1"), Agent: "billing", RunID: "r1", CallID: "c1",
		State: func(k string) (any, bool) { v, ok := state[k]; return v, ok },
		RunAgent: func(_ context.Context, a agent.Agent, in llm.Content) (string, error) {
			return "ran on " + in.Text, nil
		}}
	tool := fn(t, func(c tools.Context) (any, error) {
		require.Equal(t, session.ID("s1"), c.Session())
		require.Equal(t, "billing", c.Agent())
		require.Equal(t, "c1", c.CallID())
		require.Equal(t, "r1/c1", c.IdempotencyKey())
		require.NotNil(t, c.Logger())
		v, ok := c.Get("old")
		require.True(t, ok)
		require.Equal(t, "value", v)
		c.Set("gone", nil)
		_, ok = c.Get("gone")
		require.False(t, ok, "a deleted key is gone at once")
		c.Set("new", 3)
		v, _ = c.Get("new")
		require.Equal(t, 3.0, v, "a number is what it will be after it was stored")
		c.Set("list", []address{{City: "Rom"}})
		c.Set("bad", math.Inf(1))
		_, ok = c.Get("never")
		require.False(t, ok)
		return c.RunAgent(nil, "this")
	})
	res, err := tools.Execute(context.Background(), tool, info, json.RawMessage("{}"))
	require.NoError(t, err)
	require.Equal(t, `"ran on this"`, string(res.Output))
	require.Equal(t, map[string]any{"gone": nil, "new": 3.0, "list": []any{map[string]any{"city": "Rom"}},
		"bad": "value without a JSON form: json: unsupported value: +Inf"}, res.State)
	require.Equal(t, map[string]any{"old": "value", "gone": 1.0}, state, "nothing is changed directly")

	bare := call(t, fn(t, func(c tools.Context) (any, error) {
		_, ok := c.Get("x")
		require.False(t, ok)
		_, err := c.RunAgent(nil, "this")
		require.Error(t, err)
		return nil, nil
	}), "{}")
	require.Nil(t, bare.State)
}

func TestStateOfAFailedCallIsKept(t *testing.T) {
	for name, f := range map[string]func(tools.Context) (any, error){
		"error": func(c tools.Context) (any, error) { c.Set("tried", true); return nil, errors.New("no") },
		"panic": func(c tools.Context) (any, error) { c.Set("tried", true); panic("no") },
	} {
		res := call(t, fn(t, f), "{}")
		require.True(t, res.IsError, name)
		require.Equal(t, map[string]any{"tried": true}, res.State, name)
	}
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	type in struct {
		N int `json:"n" jsonschema:"minimum=0"`
	}
	tool, err := tools.Func("work", "", func(c tools.Context, in in) (int, error) {
		var inner sync.WaitGroup
		for i := range 4 {
			inner.Go(func() { c.Set(fmt.Sprint(i), in.N); c.Get("0"); c.Progress(i) })
		}
		inner.Wait()
		return in.N * 2, nil
	})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for n := range 50 {
		wg.Go(func() {
			res, err := tools.Execute(context.Background(), tool, tools.CallInfo{Progress: func(json.RawMessage) {}}, json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)))
			if err != nil || string(res.Output) != fmt.Sprint(n*2) || len(res.State) != 4 {
				t.Errorf("%d: %s %v", n, res.Output, err)
			}
			res, _ = tools.Execute(context.Background(), tool, tools.CallInfo{}, json.RawMessage(`{"n":-1}`))
			if !res.IsError {
				t.Error("not validated")
			}
		})
	}
	wg.Wait()
}

// What a tool says of itself allows nothing; a rule that somebody writes may go by it.
func TestRulesAboutReadOnlyTools(t *testing.T) {
	yes, no := true, false
	p, err := tools.NewPolicy(tools.Rule{Tool: "*", ReadOnly: &no, Decision: tools.Ask}, tools.Rule{Tool: "secret", ReadOnly: &yes, Decision: tools.Deny})
	require.NoError(t, err)
	info := func(name string, readOnly bool) tools.Info {
		return tools.Info{ToolSpec: llm.ToolSpec{Name: name}, ReadOnly: readOnly}
	}
	require.Equal(t, tools.Allow, p.Decide(info("look", true), nil))
	require.Equal(t, tools.Ask, p.Decide(info("write", false), nil))
	require.Equal(t, tools.Deny, p.Decide(info("secret", true), nil))
	asks := info("look", true)
	asks.Approval = tools.Ask
	require.Equal(t, tools.Ask, p.Decide(asks, nil), "the hint takes nothing back")
}
