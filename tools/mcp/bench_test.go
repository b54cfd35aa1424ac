package mcp_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/tools"
)

// BenchmarkCall compares a call over standard input and output as an agent makes it,
// with its schema checked, with a call of the SDK alone.
func BenchmarkCall(b *testing.B) {
	input := json.RawMessage(`{"text":"hello"}`)
	b.Run("sdk", func(b *testing.B) {
		self := must.Get(os.Executable())
		cmd := exec.Command(self)
		cmd.Env = []string{"SERVER=kind"}
		c := must.Get(sdk.NewClient(&sdk.Implementation{Name: "bare", Version: "1"}, nil).Connect(b.Context(), &sdk.CommandTransport{Command: cmd}, nil))
		b.Cleanup(func() { _ = c.Close() })
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.CallTool(context.Background(), &sdk.CallToolParams{Name: "echo", Arguments: input}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("arbor", func(b *testing.B) {
		tool := list(b, start(b, "kind")).Get("echo")
		b.ReportAllocs()
		for b.Loop() {
			if r, err := tools.Execute(context.Background(), tool, tools.CallInfo{}, input); err != nil || r.IsError {
				b.Fatal(err, string(r.Output))
			}
		}
	})
}
