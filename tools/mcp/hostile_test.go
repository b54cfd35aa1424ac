package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/mcp"
)

// Whatever a server does, a call of it has a result that a model can read, and later calls
// work.
func TestHostileServers(t *testing.T) {
	for mode, c := range map[string]struct {
		failed bool
		result string // of the tool bad
	}{
		"banner":             {false, "fine"},
		"dies":               {true, "it has ended before it answered; the outcome of the call is unknown"},
		"hangs":              {true, "timed out after 1s"},
		"silent":             {true, "timed out after 1s"},
		"deaf":               {true, "timed out after 1s"},
		"huge":               {true, "and at most 16777216 are read"},
		"huge-js":            {true, "and at most 16777216 are read"},
		"null":               {false, ""},
		"wrong-type":         {true, "hologram"},
		"strangers":          {false, "mine"},
		"nil-params":         {false, "still here"},
		"flood":              {false, "done"},
		"dies-at-discover":   {false, "fine"},
		"silent-at-discover": {false, "fine"},
		"asks-again":         {true, "timed out after 1s"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var opts []mcp.Option
			if mode == "silent-at-discover" { // it is greeted otherwise after half of this
				opts = append(opts, mcp.WithStartTimeout(10*time.Second))
			}
			if c.failed && strings.Contains(c.result, "1s") {
				opts = append(opts, mcp.WithTimeout(time.Second))
			}
			s := start(t, mode, opts...)
			r := list(t, s)
			text, failed := call(t, r, "bad", `{}`)
			require.Equal(t, c.failed, failed, text)
			require.Contains(t, text, c.result)
			require.LessOrEqual(t, len(text), tools.DefaultMaxOutput+100)
			answersAgain(t, s) // a server that hangs is found out first
		})
	}
}

// The next call after a server has ended gets a new one, and not the rest of the old connection.
func TestCallsAfterTheEndOfATransport(t *testing.T) {
	t.Parallel()
	s := startCommand(t, "dies")
	for range 10 {
		r := list(t, s)
		require.Contains(t, bad(t, r, "bad", `{}`), "the outcome of the call is unknown")
		require.Equal(t, "again", good(t, r, "echo", `{"text":"again"}`))
	}
}

// A result that is longer than an output may be is cut, and a message of 40 MB is never held.
func TestLongAnswers(t *testing.T) {
	r := list(t, start(t, "long", mcp.WithMaxOutput(1000)))
	text := good(t, r, "bad", `{}`)
	require.Contains(t, text, "[cut here: 1000 of 1048576 bytes shown]")

	r = list(t, start(t, "huge"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	bad(t, r, "bad", `{}`)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(150<<20), "most of it while the line might still be short enough")
}

func TestHostileLists(t *testing.T) {
	t.Parallel()
	t.Run("thousands", func(t *testing.T) {
		r, err := start(t, "thousands").Tools(t.Context())
		require.ErrorContains(t, err, "it lists 5002 tools, of which the first 100 are used")
		require.Len(t, r.Names(), 100)
		r, err = start(t, "thousands", mcp.WithMaxTools(2)).Tools(t.Context())
		require.ErrorContains(t, err, "it lists 5002 tools, of which the first 2 are used")
		require.Len(t, r.Names(), 2)
		r = must.Get(start(t, "thousands", mcp.WithTools("t4999", "echo")).Tools(t.Context()))
		require.Equal(t, []string{"echo", "t4999"}, r.Names())
	})
	t.Run("endless", func(t *testing.T) {
		_, err := start(t, "endless").Tools(t.Context())
		require.ErrorContains(t, err, "its tools cannot be listed: the list has more than 100 pages")
	})
	t.Run("odd", func(t *testing.T) {
		r, err := start(t, "odd").Tools(t.Context())
		require.ErrorContains(t, err, "the tool a/b is left out: another one has its name, a_b")
		require.ErrorContains(t, err, "the tool _1password_get is left out: another one has its name, _1password_get")
		require.ErrorContains(t, err, "the tool list is left out: ")
		require.ErrorContains(t, err, "the tool wrong is left out: ")
		require.Equal(t, []string{"_1password_get", "a_b", "bad", "echo", strings.Repeat("n", 55) + "_4e9d8231", "no_schema"}, r.Names())
	})
}

// Answers that a server gives to the wrong calls reach those, and nothing else happens.
func TestAnswersOfOtherCalls(t *testing.T) {
	t.Parallel()
	r := list(t, start(t, "swaps"))
	var group sync.WaitGroup
	got := make([]string, 2)
	for i := range got {
		group.Go(func() {
			res, err := tools.Execute(context.Background(), r.Get("bad"), tools.CallInfo{}, json.RawMessage(`{}`))
			got[i] = fmt.Sprint(event.OutputText(res.Output), err)
		})
	}
	group.Wait()
	require.ElementsMatch(t, []string{"for the second<nil>", "for the first<nil>"}, got)
}

// A server that cannot be started is an error that says why, and is not tried at each
// question to the model.
func TestServersThatDoNotStart(t *testing.T) {
	t.Parallel()
	_, err := start(t, "exits").Tools(t.Context())
	require.ErrorContains(t, err, "mcp server peer: it does not start: ")
	require.ErrorContains(t, err, "; it said: cannot read the config, token=[redacted]")

	s := start(t, "mute", mcp.WithStartTimeout(100*time.Millisecond))
	_, err = s.Tools(t.Context())
	require.ErrorContains(t, err, "it has not answered within 100ms")
	_, again := s.Tools(t.Context())
	require.Same(t, err, again, "it pauses")

	_, err = open(t, mcp.Stdio{Command: "/no/such/program"}).Tools(t.Context())
	require.ErrorContains(t, err, "no such file or directory")
	_, err = open(t, mcp.HTTP{URL: "http://127.0.0.1:1/mcp?key=hidden"}).Tools(t.Context())
	require.ErrorContains(t, err, "connection refused")
	require.NotContains(t, err.Error(), "hidden")
}

// A server that is away is a warning once, and the end of the start if it is required.
func TestServersThatAreRequired(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	gone := mcp.Stdio{Command: "/no/such/program"}
	s := open(t, gone, mcp.Required(), mcp.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
	require.ErrorIs(t, s.Start(t.Context()), tools.ErrRequired)
	_, err := s.Tools(t.Context())
	require.ErrorIs(t, err, tools.ErrRequired)
	require.Equal(t, 1, strings.Count(logged.String(), "level=WARN"), logged.String())
	require.Contains(t, logged.String(), "an MCP server cannot be reached")

	require.NoError(t, start(t, "kind", mcp.Required()).Start(t.Context()))
	require.ErrorContains(t, start(t, "kind", mcp.Required(), mcp.WithTools("ehco")).Start(t.Context()), "it has no tool ehco")
	require.NoError(t, open(t, gone).Start(t.Context()), "it is not required, and not started")
}

// Close ends a server that neither the end of its input nor a signal ends.
func TestClose(t *testing.T) {
	t.Parallel()
	s := start(t, "stubborn")
	r := list(t, s)
	require.Equal(t, "fine", good(t, r, "bad", `{}`))
	begin := time.Now()
	require.NoError(t, s.Close())
	require.Less(t, time.Since(begin), time.Minute, "the server sleeps for an hour")
	_, err := s.Tools(t.Context())
	require.ErrorIs(t, err, mcp.ErrClosed)
	require.Contains(t, bad(t, r, "bad", `{}`), mcp.ErrClosed.Error())
	require.NoError(t, s.Close())

	hangs := start(t, "silent")
	r = list(t, hangs)
	done := make(chan string)
	go func() {
		res, _ := tools.Execute(context.Background(), r.Get("bad"), tools.CallInfo{}, json.RawMessage(`{}`))
		done <- event.OutputText(res.Output)
	}()
	require.NoError(t, hangs.Close())
	require.Contains(t, <-done, mcp.ErrClosed.Error())
}
