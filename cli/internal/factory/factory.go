// Package factory holds what the commands share: streams, environment, messages and exit statuses, how to load a
// tree and its models, how to open a store and find a session in it, and the flags that several commands have.
package factory

import (
	"context"
	"io/fs"
	"sync"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// Factory is one execution of the command.
type Factory struct {
	Streams
	Name       string
	Interrupts *Interrupts

	Build    func(llm.Model) (agent.Agent, error) // nil unless given
	OwnModel bool
	Files    fs.FS // nil unless given
	Dir      string
	Tools    []tools.Tool
	Guards   []agent.Guard

	RunnerOptions []runner.Option

	Desk        human.Desk // nil unless given
	DeskOptions []human.Option

	Postgres      func(ctx context.Context, address string) (session.Store, error) // nil: not built in
	Redis         Redis                                                            // nil: not built in
	GRPC          *GRPC                                                            // nil: not built in
	MCP           *MCP                                                             // nil: not built in
	openMCP       func(agentfile.MCPServer) (tools.Set, error)
	Metrics       func() (Metrics, error) // nil: not built in
	A2A03         a2aserver.Option        // nil: not built in
	A2A03Bindings []a2a.Binding

	Out      *FirstError // Stdout
	saying   sync.Mutex  // guards Stderr
	Place    place
	Server   serverFlags
	Tape     tape
	timeouts openai.Timeouts // of the models' endpoint, by flags
	Began    bool            // the command line was right, and the command has begun
	// Sources says which file an agent of the tree that was loaded last comes from; nil for a tree of the program's own.
	Sources func(agent string) (agentfile.Source, bool)
	// ConnectServers starts the servers of that tree, and says what is wrong with them; nil for a tree of the program's own.
	ConnectServers func(context.Context) []agentfile.Problem
	closer         []func()
}

// Embedded reports whether the tree is part of the program, so that commands
// take no PATH.
func (f *Factory) Embedded() bool { return f.Build != nil || f.Files != nil }

// AtEnd registers what is to be closed when the command is over.
func (f *Factory) AtEnd(end func()) { f.closer = append(f.closer, end) }

// Close closes what was registered, the last first.
func (f *Factory) Close() {
	for i := len(f.closer) - 1; i >= 0; i-- {
		f.closer[i]()
	}
	f.closer = nil
}
