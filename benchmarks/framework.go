// Package benchmarks runs the same conversations on Arbor and on other Go agent
// frameworks, so that what they cost can be compared in one run on one machine.
//
// The models answer from a script, in process, so that only the frameworks are
// measured. Each test file named after a framework adapts it to the interface System in the way
// its own documentation shows. conversation_test.go has the trees and the answers of their models,
// composition_test.go the other ways to put agents together, and cmd/report writes docs/benchmarks.md from
// what the benchmarks measure. The package is part of a module of its own so that nobody who uses Arbor
// downloads the others. It never opens a connection.
package benchmarks

// Framework is an agent framework under measurement.
type Framework struct {
	Name   string // as in the names of the benchmarks
	Title  string // as people write it
	Module string // its Go module, whose version go.mod pins
}

// All returns the frameworks, Arbor first.
func All() []Framework {
	return []Framework{
		{"arbor", "Arbor", "github.com/agentarbor/arbor"},
		{"adk", "ADK-Go", "google.golang.org/adk/v2"},
		{"eino", "Eino", "github.com/cloudwego/eino"},
		{"trpc", "tRPC-Agent-Go", "trpc.group/trpc-go/trpc-agent-go"},
	}
}
