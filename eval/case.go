package eval

import "time"

// Case is a conversation with what is expected of it. Each is played in a session of its own.
type Case struct {
	Name string
	Note string // for people
	// Tags choose cases, as "held" or "de".
	Tags []string
	// File and Line say where the case begins; they are empty if it is made in Go.
	File string
	Line int
	// State is that of the session before the first turn.
	State map[string]any
	Turns []Turn
	// Max bounds the case as a whole.
	Max Max
}

// Turn is something that a user says, and what is expected until somebody has answered.
type Turn struct {
	User     string
	Metadata map[string]any
	Line     int
	// Approve and Deny are the tools whose calls may run, or may not, when the turn asks about
	// them, and Reply has what calls that ask for something are answered, by their tools. What
	// nobody has decided ends the case, and is a difference unless Asks expects the question.
	Approve, Deny []string
	Reply         map[string]any
	Expect        Expect
}

// Expect is what a turn is compared with. What is empty is not looked at.
type Expect struct {
	// Path is who has the conversation in this turn, from the one who had it before.
	Path Path
	// Answers are the agents of whom one says the last words.
	Answers []string
	// Tools are called, in whatever order, by any agent, also inside of tools and graphs;
	// NoTools are not.
	Tools, NoTools []string
	// Asks are the tools about whose calls somebody is asked.
	Asks []string
	// Says are parts of what the user is told, in whatever case; one between slashes is a regular
	// expression of package regexp. SaysNot are not part of it.
	Says, SaysNot []string
	// Judge is a statement about the answer which a second model must find to be true. It is
	// looked at only if there is a judge.
	Judge string
	Max   Max
}

// Max bounds what a turn or a case may use. Zero values bound nothing.
type Max struct {
	Transfers  int // of the conversation, those of routers left out
	ModelCalls int
	Tokens     int
	Cost       float64 // in the currency of the prices
	Time       time.Duration
}
