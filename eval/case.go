package eval

import (
	"time"

	"github.com/agentarbor/arbor/internal/yamldoc"
)

// Case is a conversation with the expected results. Each case is played in a session of its own.
type Case struct {
	Name string
	Note string // for people
	// Tags select cases, for example "held" or "de".
	Tags []string
	// File and Line are the position of the case; they are empty if it was built in Go.
	File string
	Line int
	// State is the session's state before the first turn.
	State map[string]any
	Turns []Turn
	// Max limits the case as a whole.
	Max Max
}

// Turn is a message of the user, and what is expected until an agent has answered.
type Turn struct {
	User     string
	Metadata map[string]any
	Line     int
	// Approve and Deny are the tools whose calls are approved or denied if the turn asks about them. Reply contains the
	// answers to questions of calls, by tool. A question without a decision ends the case, and is a difference unless
	// Asks expects it.
	Approve, Deny []string
	Reply         map[string]any
	Expect        Expect
}

// Expect contains the expected results of a turn. Empty fields are not checked.
type Expect struct {
	// Path contains the agents that are active in this turn, from the one that was active before it.
	Path Path
	// Answers are the agents one of which answers last.
	Answers []string
	// Tools are called, in any order, by any agent, also inside of tools and graphs; NoTools are not called.
	Tools, NoTools []string
	// Asks are the tools with calls that ask for a decision.
	Asks []string
	// Says are parts of the texts for the user, regardless of case; one between slashes is a regular expression of
	// package regexp. SaysNot are not parts of them.
	Says, SaysNot []string
	// Judge is a statement about the answer that a second model must find to be true. It is checked only with
	// [WithJudge].
	Judge string
	Max   Max
}

// Max limits what a turn or a case may use. Zero in a field means no limit.
type Max struct {
	Transfers  int // of the conversation, without those of routers
	ModelCalls int
	Tokens     int
	Cost       float64 // in the currency of the prices
	Time       time.Duration
}

// Problem is one mistake in a file of cases: its File, its Line, which counts from 1, and a Message.
type Problem = yamldoc.Problem

// Error contains all problems of some cases, at least one, as Problems, sorted by file and line.
type Error = yamldoc.Error
