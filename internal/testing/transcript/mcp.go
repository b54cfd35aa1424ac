package transcript

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentarbor/arbor/tools/mcp"
)

// Server returns a source of tools over the Model Context Protocol, whose server runs in this process: weather answers,
// dies ends the server during the call, pay pays, and book asks for a seat. note gets each call with its id in Arbor
// before the call does anything.
func Server(note func(tool, call string)) (*mcp.Server, error) {
	return mcp.New("town", mcp.Transport(func() (sdk.Transport, error) {
		s := sdk.NewServer(&sdk.Implementation{Name: "town", Version: "1"}, nil)
		here, there := net.Pipe()
		add := func(name string, run func(req *sdk.CallToolRequest) *sdk.CallToolResult) {
			s.AddTool(&sdk.Tool{Name: name, Description: "Does " + name + ".", InputSchema: json.RawMessage(`{"type":"object"}`)},
				func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					key, _ := req.Params.Meta[mcp.MetaIdempotencyKey].(string)
					_, call, _ := strings.Cut(key, "/")
					note(name, call)
					return run(req), nil
				})
		}
		say := func(format string, args ...any) *sdk.CallToolResult {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
		}
		add("weather", func(*sdk.CallToolRequest) *sdk.CallToolResult { return say("rain") })
		add("pay", func(*sdk.CallToolRequest) *sdk.CallToolResult { return say("paid") })
		add("dies", func(*sdk.CallToolRequest) *sdk.CallToolResult {
			_ = here.Close()
			return say("nobody reads this")
		})
		add("book", func(req *sdk.CallToolRequest) *sdk.CallToolResult {
			if r, ok := req.Params.InputResponses["seat"].(*sdk.ElicitResult); ok {
				return say("%s %v", r.Action, r.Content["seat"])
			}
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"seat": &sdk.ElicitParams{Message: "Which seat?",
				RequestedSchema: json.RawMessage(`{"type":"object","properties":{"seat":{"type":"integer"}},"required":["seat"]}`)}}}
		})
		_, err := s.Connect(context.Background(), &sdk.IOTransport{Reader: here, Writer: here}, nil)
		return &sdk.IOTransport{Reader: there, Writer: there}, err
	}), mcp.WithIdempotent("book"))
}
