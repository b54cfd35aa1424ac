package benchmarks

import "context"

// build returns the scenario's tree of agents, built with a framework, with an empty session store.
func (f Framework) build(s *Scenario) (System, error) {
	switch f.Name {
	case "adk":
		return newADK(s)
	case "eino":
		return newEino(s)
	case "trpc":
		return newTRPC(s)
	}
	return newArbor(s)
}

// System is a tree of agents, built with one framework, that talks to users. It
// is used by one goroutine at a time.
type System interface {
	// Turn passes a user's message to a session and reads the framework's answer
	// to its end. A session that does not exist is a new one. In a later turn the
	// agent that answered before answers again: if the framework does not do this
	// by itself, the adapter addresses this agent.
	Turn(ctx context.Context, session, message string) (Reply, error)
	// Past returns what a session contains, for PutBack.
	Past(ctx context.Context, session string) (Past, error)
	// PutBack stores a past under a new session, as if its turns had been run there.
	PutBack(ctx context.Context, session string, past Past) error
	// Warm does, before a session's next turn, what a framework does only in
	// the first turn of a session in a process. Most do nothing of the kind.
	Warm(ctx context.Context, session string) error
	// Forget deletes all sessions.
	Forget() error
}

// Past is what a session of one framework contains: its events or messages, and
// the agent that answered last.
type Past any

// Reply is what a user sees of a turn.
type Reply struct {
	Agent  string // that answered last
	Text   string // its whole answer
	Pieces int    // the number of deltas of the text; 0 if the scenario does not stream
}
