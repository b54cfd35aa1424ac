// Package graphs runs the same graphs of functions on Arbor's agentgraph and on the
// graph engines of other Go agent frameworks, so that the cost of an engine for each node
// can be compared in one process.
//
// No node does any work: it counts its calls and returns a value of its own,
// so that only the engines are measured. shape_test.go has the graphs. Each test
// file named after a framework builds and runs them in the way its own documentation
// shows, and bench_test.go measures. It never opens a connection.
package graphs

// Engine is a graph engine under measurement, used in one way.
type Engine struct {
	Name   string // in results
	Title  string // as people write it
	Module string // its Go module, whose version go.mod pins
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

// Names of the shapes of the graphs.
const (
	ShapeChain  = "chain"
	ShapeWide   = "wide"
	ShapeRandom = "random"
)

// Shapes returns the names of all shapes.
func Shapes() []string { return []string{ShapeChain, ShapeWide, ShapeRandom} }

// Sizes returns the numbers of nodes of the graphs.
func Sizes() []int { return []int{100, 1000} }
