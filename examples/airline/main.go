// Command airline is the desk of an airline: an embedded tree of five agents in Markdown, with tools on a database of
// bookings and a server of the Model Context Protocol. With the argument "airport", the program itself is that server.
// All other arguments are those of package cli: serve, run, chat, users, desk, sessions.
//
//	go run ./examples/airline run "I want my money back for booking BK7001"
package main

import (
	"cmp"
	"context"
	"embed"
	"log"
	"os"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentarbor/arbor/agentfile/agentmcp"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/human"
)

//go:embed agents
var agents embed.FS

func main() {
	if slices.Equal(os.Args[1:], []string{"airport"}) {
		must(0, airport().Run(context.Background(), &mcp.StdioTransport{}))
		return
	}
	must(0, os.Setenv("AIRLINE", must(os.Executable()))) // the command of the server in agents/airline/trips
	cli.Main(options(must(openDesk(os.Getenv("AIRLINE_DATA"))))...)
}

// options returns the options of the command. Agents can transfer a conversation to a person, who answers with the
// command desk or on the page.
func options(d *desk) []cli.Option {
	return []cli.Option{cli.WithName("airline"), cli.WithFiles(agents, "agents"), cli.WithTools(d.tools()...),
		cli.WithMCP(cli.MCP{Servers: agentmcp.Opener}), cli.WithDesk(human.Log{})}
}

// airport runs a server of the Model Context Protocol with one tool.
func airport() *mcp.Server {
	type in struct {
		Flight string `json:"flight_id" jsonschema:"The flight, such as MA101"`
	}
	type out struct {
		Status string `json:"status"`
	}
	known := map[string]string{"MA101": "cancelled", "MA103": "on time", "MA205": "delayed by 40 minutes"}
	server := mcp.NewServer(&mcp.Implementation{Name: "airport", Version: "1"}, nil)
	tool := &mcp.Tool{Name: "flight_status", Description: "Tell whether a flight is on time, delayed or cancelled."}
	mcp.AddTool(server, tool, func(_ context.Context, _ *mcp.CallToolRequest, f in) (*mcp.CallToolResult, out, error) {
		return nil, out{cmp.Or(known[f.Flight], "unknown flight")}, nil
	})
	return server
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
