package graphs

import (
	"context"
	"sync"
	"sync/atomic"
)

// build makes the graph of a shape and compiles it.
func (e Engine) build(w *Work) (Graph, error) {
	return map[string]func(*Work) (Graph, error){
		"arbor": buildArbor, "arbor-alone": buildArborAlone, "adk": buildADK, "adk-alone": buildADKAlone,
		"eino-alone": buildEino, "trpc": buildTRPC, "trpc-alone": buildTRPCAlone,
	}[e.Name](w)
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
