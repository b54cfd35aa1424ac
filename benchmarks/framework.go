// Package benchmarks runs the same conversations on Arbor and on other Go agent
// frameworks, so that what they cost can be compared in one run on one machine.
//
// The models answer from a script, in process, so that only the frameworks are
// measured. Each file named after a framework adapts it to System in the way
// its own documentation shows; scenario.go has the trees and what their models
// say, compose.go the other ways to put agents together, bench_test.go and
// compose_test.go the measurements, and cmd/report writes docs/benchmarks.md from them. It is a module of its own so that nobody who uses Arbor downloads the
// others. It never opens a connection.
package benchmarks

import "context"

// Framework is an agent framework under measurement.
type Framework struct {
	Name   string // as in the names of the benchmarks
	Title  string // as people write it
	Module string // its Go module, whose version go.mod pins
	// New builds the scenario's tree of agents with an empty session store.
	New func(*Scenario) (System, error)
}

// All returns the frameworks, Arbor first.
func All() []Framework {
	return []Framework{
		{"arbor", "Arbor", "github.com/agentarbor/arbor", newArbor},
		{"adk", "ADK-Go", "google.golang.org/adk/v2", newADK},
		{"eino", "Eino", "github.com/cloudwego/eino", newEino},
		{"trpc", "tRPC-Agent-Go", "trpc.group/trpc-go/trpc-agent-go", newTRPC},
	}
}

// System is a tree of agents, built with one framework, that talks to users. It
// is used by one goroutine at a time.
type System interface {
	// Turn hands a user's message to a session and reads the framework's answer
	// to its end. A session that does not exist is a new one. In a later turn the
	// agent that answered before answers again: where the framework does not see
	// to that by itself, the adapter addresses this agent.
	Turn(ctx context.Context, session, message string) (Reply, error)
	// Past takes down what a session holds, for PutBack.
	Past(ctx context.Context, session string) (Past, error)
	// PutBack stores a past under a new session, as if its turns had been run there.
	PutBack(ctx context.Context, session string, past Past) error
	// Warm does once, ahead of a session's next turn, what a framework does in
	// the first turn of a session in a process only. Most do nothing of the kind.
	Warm(ctx context.Context, session string) error
	// Forget drops all sessions.
	Forget() error
}

// Past is what a session of one framework holds: its events or messages, and
// the agent that answered last.
type Past any

// Reply is what a user sees of a turn.
type Reply struct {
	Agent  string // who spoke last
	Text   string // what it said, whole
	Pieces int    // in how many deltas it arrived; 0 if the scenario does not stream
}
