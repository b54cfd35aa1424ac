package mcp_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/mcppeers"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/mcp"
)

func everything(t *testing.T) (command, path string) {
	return mcppeers.Node(t, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
}

// The server with which the protocol's makers try out clients.
func TestPeerEverything(t *testing.T) {
	t.Parallel()
	node, script := everything(t)
	tryEverything(t, open(t, mcp.Stdio{Command: node, Args: []string{script, "stdio"}}, mcp.WithResources(), mcp.WithPrompts()))
}

func TestPeerEverythingOverHTTP(t *testing.T) {
	t.Parallel()
	node, script := everything(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	cmd := exec.CommandContext(t.Context(), node, script, "streamableHttp")
	cmd.Env = []string{"PORT=" + port}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	must.Wait(t, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	tryEverything(t, open(t, mcp.HTTP{URL: "http://127.0.0.1:" + port + "/mcp"}, mcp.WithResources(), mcp.WithPrompts()))
}

func tryEverything(t *testing.T, s *mcp.Server) {
	r := list(t, s)
	require.Equal(t, "Echo: hello", good(t, r, "echo", `{"message":"hello"}`))
	require.Equal(t, "The sum of 2 and 3 is 5.", good(t, r, "get-sum", `{"a":2,"b":3}`))
	require.Contains(t, bad(t, r, "get-sum", `{"a":"two"}`), "do not fit the schema")
	require.Contains(t, good(t, r, "get-tiny-image", `{}`), "[file get-tiny-image-1.png, image/png")
	require.Contains(t, good(t, r, "get-structured-content", `{"location":"Chicago"}`), `"temperature"`)
	require.Contains(t, good(t, r, "list_resources", `{}`), `"uri"`)
	require.Contains(t, good(t, r, "get_prompt", `{"name":"simple-prompt"}`), "user: ")

	steps := make(chan string, 100)
	_, err := tools.Execute(t.Context(), r.Get("trigger-long-running-operation"), tools.CallInfo{Progress: func(c json.RawMessage) { steps <- string(c) }},
		json.RawMessage(`{"duration":0.5,"steps":2}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"progress":1,"total":2}`, <-steps)

	u := &turn{id: "c1"}
	_, err = u.run(t, s, "trigger-elicitation-request", `{}`)
	require.Error(t, err, "%v", r.Names())
	require.Len(t, u.asked, 1)
	u.answer(`{"name":"Ann"}`)
	text := must.Get(u.run(t, s, "trigger-elicitation-request", `{}`))
	require.Contains(t, text, "Ann")
}

func TestPeerFilesystem(t *testing.T) {
	t.Parallel()
	node, script := mcppeers.Node(t, "node_modules", "@modelcontextprotocol", "server-filesystem", "dist", "index.js")
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "note.txt"), []byte("milk"), 0o600))
	s := open(t, mcp.Stdio{Command: node, Args: []string{script, dir}}, mcp.WithPrefix("fs_"), mcp.WithTools("read_text_file", "write_file", "list_*"))
	r := list(t, s)
	require.True(t, r.Get("fs_read_text_file").Info().ReadOnly)
	require.False(t, r.Get("fs_write_file").Info().ReadOnly)
	input := func(v map[string]string) string { return string(event.EncodeJSON(v)) }
	require.Equal(t, "milk", good(t, r, "fs_read_text_file", input(map[string]string{"path": filepath.Join(dir, "note.txt")})))
	require.Contains(t, good(t, r, "fs_list_directory", input(map[string]string{"path": dir})), "[FILE] note.txt")
	good(t, r, "fs_write_file", input(map[string]string{"path": filepath.Join(dir, "new.txt"), "content": "bread"}))
	data := must.Get(os.ReadFile(filepath.Join(dir, "new.txt")))
	require.Equal(t, "bread", string(data))
	require.Contains(t, bad(t, r, "fs_read_text_file", `{"path":"/etc/passwd"}`), "Access denied")
}

// A server made with FastMCP, one of whose tools prints to standard output.
func TestPeerFastMCP(t *testing.T) {
	t.Parallel()
	python, script := mcppeers.Python(t, "fast.py")
	r := list(t, open(t, mcp.Stdio{Command: python, Args: []string{script}}, mcp.WithResources()))
	require.Equal(t, "5", good(t, r, "add", `{"a":2,"b":3}`))
	require.JSONEq(t, `{"name":"Ann","letters":3}`, good(t, r, "person", `{"name":"Ann"}`))
	require.True(t, r.Get("person").Info().ReadOnly)
	require.Equal(t, "counted", good(t, r, "count", `{"n":3}`))
	require.Contains(t, bad(t, r, "broken", `{}`), "the disk is full")
	require.Contains(t, good(t, r, "list_resources", `{}`), `"uriTemplate":"memo://{name}"`)
	require.Equal(t, "memo of ann", good(t, r, "read_resource", `{"uri":"memo://ann"}`))
	res := must.Get(tools.Execute(context.Background(), r.Get("add"), tools.CallInfo{}, json.RawMessage(`{"a":"x"}`)))
	require.True(t, res.IsError)
}
