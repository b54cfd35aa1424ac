// Package graphs runs the same graphs of functions on Arbor's agentgraph and on the graph engines of other Go agent
// frameworks, so that the cost of an engine per node can be compared in one process.
//
// The nodes do no work: each counts its calls and returns its own value, so that the benchmarks measure only the
// engines. shape_test.go contains the graphs. Each test file named after a framework builds and runs them as its own
// documentation shows, and bench_test.go measures. The package never opens a connection.
package graphs

// Engine is a graph engine under measurement with one way to use it.
type Engine struct {
	Name   string // in results
	Title  string // for readers
	Module string // its Go module; go.mod pins the version
	// Stored reports that a run is part of a session in memory, where the framework stores its events.
	// Otherwise the engine runs alone.
	Stored bool
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
		{"arbor", "Arbor", arbor, true},
		{"adk", "ADK-Go", adk, true},
		{"trpc", "tRPC-Agent-Go", trpc, true},
		{"arbor-alone", "Arbor", arbor, false},
		{"adk-alone", "ADK-Go", adk, false},
		{"eino-alone", "Eino", eino, false},
		{"trpc-alone", "tRPC-Agent-Go", trpc, false},
	}
}

// The names of the shapes of graphs.
const (
	ShapeChain  = "chain"
	ShapeWide   = "wide"
	ShapeRandom = "random"
)

// Shapes returns the names of all shapes.
func Shapes() []string { return []string{ShapeChain, ShapeWide, ShapeRandom} }

// Sizes returns the numbers of nodes of the graphs.
func Sizes() []int { return []int{100, 1000} }
