// Package benchmarks runs the same conversations on Arbor and on other Go agent frameworks, so that their costs can be
// compared in one run on one machine.
//
// The models answer from a script, in process, so that the benchmarks measure only the frameworks. Each test file named
// after a framework adapts it to the interface System as its own documentation shows. conversation_test.go contains the
// trees and the answers of their models, composition_test.go the other ways to compose agents, and cmd/report writes
// docs/benchmarks.md from the results. The package is in a separate module so that users of Arbor do not download the
// other frameworks. It never opens a connection.
package benchmarks

// Framework is an agent framework under measurement.
type Framework struct {
	Name   string // in the names of the benchmarks
	Title  string // for readers
	Module string // its Go module; go.mod pins the version
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
