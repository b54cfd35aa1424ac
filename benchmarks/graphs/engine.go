package graphs

import (
	"context"
	"sync"
	"sync/atomic"
)

// Engine is a graph engine under measurement, used in one way.
type Engine struct {
	Name   string // in results and on the command line
	Title  string // as people write it
	Module string // its Go module, whose version go.mod pins
	// Stored says that a run happens in a session in memory and leaves there what the
	// framework keeps of it. Otherwise the engine runs alone.
	Stored bool
	// Build makes the graph of a shape and compiles it.
	Build func(*Work) (Graph, error)
}

// Engines returns all engines, those with sessions first.
func Engines() []Engine {
	const (
		arbor = "github.com/agentarbor/arbor"
		adk   = "google.golang.org/adk/v2"
		eino  = "github.com/cloudwego/eino"
		trpc  = "trpc.group/trpc-go/trpc-agent-go"
	)
	return []Engine{
		{"arbor", "Arbor", arbor, true, buildArbor},
		{"adk", "ADK-Go", adk, true, buildADK},
		{"trpc", "tRPC-Agent-Go", trpc, true, buildTRPC},
		{"arbor-alone", "Arbor", arbor, false, buildArborAlone},
		{"adk-alone", "ADK-Go", adk, false, buildADKAlone},
		{"eino-alone", "Eino", eino, false, buildEino},
		{"trpc-alone", "tRPC-Agent-Go", trpc, false, buildTRPCAlone},
	}
}

// Graph is a shape that was compiled with one engine. It is used by one goroutine
// at a time.
type Graph interface {
	// Reset makes an empty session store, where there is one. It is called before the
	// first run, and then from time to time so that sessions do not pile up.
	Reset() error
	// Run runs the graph, in a session of its own, with an input for its first node,
	// and returns the output of its last one.
	Run(ctx context.Context, input string) (string, error)
	// Events counts what the last run left in the session store.
	Events(ctx context.Context) (int, error)
}

// Work is what the nodes of a shape do, the same for all engines.
type Work struct {
	Shape *Shape

	calls  atomic.Int64
	mu     sync.Mutex
	inputs map[string]any // what the nodes got, by id; nil if nobody asks
}

// Call is a call of a node with the input that the engine gave it.
func (w *Work) Call(n *Node, input any) string {
	w.calls.Add(1)
	if w.inputs != nil {
		w.mu.Lock()
		w.inputs[n.ID] = input
		w.mu.Unlock()
	}
	return n.Value
}

// Calls says how often nodes were called since it was last asked.
func (w *Work) Calls() int { return int(w.calls.Swap(0)) }
