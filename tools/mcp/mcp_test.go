package mcp_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/mcp"
)

// start makes a server of a mode of this test binary.
func start(t testing.TB, mode string, opts ...mcp.Option) *mcp.Server {
	t.Helper()
	self := must.Get(os.Executable())
	return open(t, mcp.Stdio{Command: self, Env: []string{"SERVER=" + mode, "NAMED=yes"}, Dir: t.TempDir()}, opts...)
}

// startCommand makes the server that start makes, with a transport of the SDK.
func startCommand(t testing.TB, mode string) *mcp.Server {
	t.Helper()
	return open(t, mcp.Transport(func() (sdk.Transport, error) {
		cmd := exec.Command(must.Get(os.Executable()))
		cmd.Env = append(os.Environ(), "SERVER="+mode)
		return &sdk.CommandTransport{Command: cmd}, nil
	}))
}

// open makes a server with time enough to start on a busy machine, unless the options give another one.
func open(t testing.TB, at mcp.Endpoint, opts ...mcp.Option) *mcp.Server {
	t.Helper()
	s := must.Get(mcp.New("peer", at, append([]mcp.Option{mcp.WithStartTimeout(2 * time.Minute)}, opts...)...))
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func list(t testing.TB, s *mcp.Server) *tools.Registry {
	t.Helper()
	return must.Get(s.Tools(t.Context()))
}

// call executes a tool as an agent does.
func call(t testing.TB, r *tools.Registry, name, input string) (text string, failed bool) {
	t.Helper()
	require.NotNil(t, r.Get(name), "there is no tool %s: %v", name, r.Names())
	res := must.Get(tools.Execute(context.Background(), r.Get(name), tools.CallInfo{}, json.RawMessage(input)))
	return event.OutputText(res.Output), res.IsError
}

func good(t testing.TB, r *tools.Registry, name, input string) string {
	t.Helper()
	text, failed := call(t, r, name, input)
	require.False(t, failed, text)
	return text
}

func bad(t testing.TB, r *tools.Registry, name, input string) string {
	t.Helper()
	text, failed := call(t, r, name, input)
	require.True(t, failed, text)
	return text
}

// answersAgain waits until a server that was in trouble answers a call.
func answersAgain(t testing.TB, s *mcp.Server) {
	t.Helper()
	must.Wait(t, func() bool {
		r, err := s.Tools(t.Context())
		if err != nil {
			return false
		}
		text, failed := call(t, r, "echo", `{"text":"again"}`)
		return !failed && text == "again"
	})
}

func TestAServerOverStdio(t *testing.T) {
	t.Setenv("SECRET", "must not be handed on")
	s := start(t, "kind", mcp.WithPrefix("k_"), mcp.WithResources(), mcp.WithPrompts(), mcp.WithIdempotent("o*"))
	r := list(t, s)
	require.Equal(t, []string{"k_book", "k_echo", "k_env_list", "k_fail", "k_get_prompt", "k_grow", "k_list_prompts", "k_list_resources",
		"k_object", "k_parts", "k_read_resource", "k_reserve", "k_steps"}, r.Names())
	require.Same(t, r, list(t, s))

	info := r.Get("k_echo").Info()
	require.Equal(t, "The tool echo", info.Description)
	require.True(t, info.ReadOnly)
	require.False(t, info.Idempotent, "a server's word allows nothing")
	require.Equal(t, tools.Allow, info.Approval)
	require.True(t, r.Get("k_object").Info().Idempotent)

	require.Equal(t, "hello", good(t, r, "k_echo", `{"text":"hello"}`))
	require.Contains(t, bad(t, r, "k_echo", `{"text":7}`), "do not fit the schema")
	require.Contains(t, bad(t, r, "k_fail", `{"text":""}`), "the disk is full")
	require.JSONEq(t, `{"n":4}`, good(t, r, "k_object", `{"text":"","n":4}`))
	require.Equal(t, "look:\n[file parts-1.png, image/png, 5 bytes]\n[resource file:///a a]\nin b", good(t, r, "k_parts", `{"text":""}`))
	env := good(t, r, "k_env_list", `{"text":""}`)
	require.Contains(t, env, "NAMED=yes")
	require.NotContains(t, env, "SECRET")
	require.NotContains(t, env, "PATH=")

	require.JSONEq(t, `{"cursor":"","resources":[{"mediaType":"text/plain","name":"one","uri":"memo:one"}]}`, good(t, r, "k_list_resources", `{}`))
	require.Equal(t, "the first memo", good(t, r, "k_read_resource", `{"uri":"memo:one"}`))
	require.Contains(t, bad(t, r, "k_read_resource", `{"uri":"memo:two"}`), "mcp server peer: ")
	require.JSONEq(t, `{"cursor":"","prompts":[{"name":"greet","description":"","arguments":[{"name":"who"}]}]}`, good(t, r, "k_list_prompts", `{}`))
	require.Equal(t, "user: Greet Ann", good(t, r, "k_get_prompt", `{"name":"greet","arguments":{"who":"Ann"}}`))
}

// A tool that waits for an approval is named as the server names it or as the model sees it. A name that is
// nobody's is a mistake for which all calls are refused, until the list has such a tool.
func TestApproval(t *testing.T) {
	t.Parallel()
	asks := func(r *tools.Registry) (names []string) {
		for _, name := range r.Names() {
			if info := r.Get(name).Info(); info.Approval == tools.Ask {
				names = append(names, info.Own)
			}
		}
		return names
	}
	require.Equal(t, []string{"env.list", "list_resources", "object"},
		asks(list(t, start(t, "kind", mcp.WithPrefix("k_"), mcp.WithResources(), mcp.WithApproval("env.list", "k_obj*", "list_resources")))))
	all := list(t, start(t, "kind", mcp.WithPrompts(), mcp.WithApproval("*")))
	require.Len(t, asks(all), len(all.Names()))

	s := start(t, "kind", mcp.WithApproval("lat", "late"))
	refused := func(name string) {
		r, err := s.Tools(t.Context())
		require.ErrorContains(t, err, "calls of "+name+" are to be approved, and it has no such tool")
		require.Contains(t, bad(t, r, "echo", `{"text":"hello"}`), "all calls are refused until that is mended")
	}
	refused("lat")
	s = start(t, "kind", mcp.WithApproval("parts"), mcp.WithTools("echo", "grow", "parts"))
	r := list(t, s)
	require.Equal(t, "grown", good(t, r, "grow", `{"text":"late"}`)) // takes parts away
	must.Wait(t, func() bool { _, err := s.Tools(t.Context()); return err != nil })
	refused("parts")
	_, err := mcp.New("peer", mcp.Stdio{Command: "x"}, mcp.WithApproval("["))
	require.ErrorContains(t, err, "is not a pattern")
}

func TestProgress(t *testing.T) {
	t.Parallel()
	r := list(t, start(t, "kind"))
	got := make(chan string)
	ended := make(chan error)
	go func() {
		_, err := tools.Execute(context.Background(), r.Get("steps"), tools.CallInfo{Progress: func(content json.RawMessage) { got <- string(content) }}, json.RawMessage(`{"text":"","n":1}`))
		ended <- err
	}()
	require.JSONEq(t, `{"progress":1,"total":1,"message":"step"}`, <-got)
	require.Equal(t, "go on", good(t, r, "echo", `{"text":"go on"}`))
	require.NoError(t, <-ended)
}

// A list that changes is another registry, with the tools that are there now.
func TestListChanged(t *testing.T) {
	t.Parallel()
	s := start(t, "kind")
	r := list(t, s)
	require.Equal(t, "grown", good(t, r, "grow", `{"text":"late"}`))
	must.Wait(t, func() bool { return list(t, s) != r })
	now := list(t, s)
	require.NotNil(t, now.Get("late"))
	require.Nil(t, now.Get("parts"))
	require.Equal(t, "here", good(t, now, "late", `{"text":""}`))
	require.Contains(t, bad(t, r, "parts", `{"text":""}`), "unknown tool")
}

func TestFilter(t *testing.T) {
	t.Parallel()
	s := start(t, "kind", mcp.WithTools("e*", "missing"))
	r, err := s.Tools(t.Context())
	require.ErrorContains(t, err, "mcp server peer: it has no tool missing")
	require.Equal(t, []string{"echo", "env_list"}, r.Names())
	_, again := s.Tools(t.Context())
	require.Equal(t, err, again)
}

func TestNew(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		name string
		at   mcp.Endpoint
		opts []mcp.Option
	}{
		"the name is empty":                       {"", mcp.Stdio{Command: "x"}, nil},
		"the endpoint is nil":                     {"s", nil, nil},
		"the command is empty":                    {"s", mcp.Stdio{}, nil},
		"is not NAME=VALUE":                       {"s", mcp.Stdio{Command: "x", Env: []string{"PATH"}}, nil},
		"the URL is no http or https address":     {"s", mcp.HTTP{URL: "ftp://x"}, nil},
		`the header "A" cannot be sent`:           {"s", mcp.HTTP{URL: "http://x", Headers: map[string]string{"A": "secret\n"}}, nil},
		"the transport is nil":                    {"s", mcp.Transport(nil), nil},
		"a limit is negative":                     {"s", mcp.Stdio{Command: "x"}, []mcp.Option{mcp.WithTimeout(-1)}},
		`the prefix "a b"`:                        {"s", mcp.Stdio{Command: "x"}, []mcp.Option{mcp.WithPrefix("a b")}},
		`"[" is not a pattern for names of tools`: {"s", mcp.Stdio{Command: "x"}, []mcp.Option{mcp.WithTools("[")}},
		"option 0 is nil":                         {"s", mcp.Stdio{Command: "x"}, []mcp.Option{nil}},
	} {
		_, err := mcp.New(c.name, c.at, c.opts...)
		require.ErrorContains(t, err, what)
		require.NotContains(t, err.Error(), "secret")
	}
}
