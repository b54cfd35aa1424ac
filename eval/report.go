package eval

import (
	"time"

	"github.com/agentarbor/arbor/event"
)

// Report contains the results of all cases. Its JSON form is a baseline for later reports.
type Report struct {
	Cases    int       `json:"cases"`
	Repeat   int       `json:"repeat"`
	Subjects []Results `json:"subjects"`
	// Judge compares the judge with people, nil if there was no judge.
	Judge *Agreement `json:"judge,omitempty"`
}

// Results are those of one tree, or of one tree with one model.
type Results struct {
	Subject  string    `json:"subject"`
	Outcomes []Outcome `json:"outcomes"` // in the order of the cases, with the repetitions of a case in order
}

// Outcome is the result of a case that was played once.
type Outcome struct {
	Case   string        `json:"case"`
	File   string        `json:"file,omitempty"`
	Line   int           `json:"line,omitempty"`
	Tags   []string      `json:"tags,omitempty"`
	Repeat int           `json:"repeat"` // from 1
	Turns  []TurnOutcome `json:"turns"`  // as far as the case came
	// Differences are those of the case as a whole, for example of its Max.
	Differences []Difference `json:"differences,omitempty"`
}

// TurnOutcome is the result of a turn.
type TurnOutcome struct {
	User string `json:"user"`
	Line int    `json:"line,omitempty"`
	// Expected is the expected path in the form of files of cases.
	Expected string `json:"expected,omitempty"`
	// ExpectedAnswers are the agents one of which had to answer, if that was checked.
	ExpectedAnswers []string `json:"expectedAnswers,omitempty"`

	Path     []string `json:"path"`              // the active agents
	Answered string   `json:"answered"`          // the agent that answered last, "" if none did
	Tools    []string `json:"tools,omitempty"`   // the called tools, without those for transfers
	Asked    []string `json:"asked,omitempty"`   // the tools with calls that asked for a decision
	Said     string   `json:"said"`              // all texts for the user
	Leaked   bool     `json:"leaked,omitempty"`  // the user saw a call that a model wrote as text
	Verdict  *Verdict `json:"verdict,omitempty"` // of the judge

	Decisions  []Decision  `json:"decisions,omitempty"`
	Transfers  int         `json:"transfers"`
	ModelCalls int         `json:"modelCalls"` // the number of answers of models, including discarded ones
	Usage      event.Usage `json:"usage"`      // the sum, including that of tools and graphs
	// Arrivals are the tokens of the first prompt after each transfer that the endpoint did not have in its cache.
	Arrivals []int         `json:"arrivals,omitempty"`
	Cost     *float64      `json:"cost"` // nil if a model has no price, or its endpoint does not report its usage
	Took     time.Duration `json:"took"` // in nanoseconds
	// FirstWord is how long the user waited for the first text, which is the whole text without streaming; 0 if there
	// was none.
	FirstWord time.Duration `json:"firstWord,omitempty"`
	// Error is the code of the error that ended the turn, as in the log.
	Error string `json:"error,omitempty"`

	Differences []Difference `json:"differences,omitempty"`
}

// add adds the usage of another turn.
func (t *TurnOutcome) add(o *TurnOutcome) {
	t.Transfers, t.ModelCalls, t.Took = t.Transfers+o.Transfers, t.ModelCalls+o.ModelCalls, t.Took+o.Took
	t.Usage.InputTokens += o.Usage.InputTokens
	t.Usage.OutputTokens += o.Usage.OutputTokens
	t.Usage.CachedTokens += o.Usage.CachedTokens
	if t.Cost == nil || o.Cost == nil {
		t.Cost = nil
		return
	}
	sum := *t.Cost + *o.Cost
	t.Cost = &sum
}

// Decision is a decision of an active agent: the agent to which it transferred, and the right one.
type Decision struct {
	From     string `json:"from"`
	Expected string `json:"expected"` // the same as From if it had to answer itself
	Chosen   string `json:"chosen"`
}

// Verdict is a judge's verdict on an answer.
type Verdict struct {
	True bool   `json:"true"`
	Why  string `json:"why,omitempty"`
}

// Difference is an unexpected result.
type Difference struct {
	// Kind is path, answers, tools, asks (also for a question that the case does not decide), says, judge, max or error.
	Kind    string `json:"kind"`
	Message string `json:"message"` // in one line
}

// The kinds of differences.
const (
	kindPath    = "path"
	kindAnswers = "answers"
	kindTools   = "tools"
	kindAsks    = "asks"
	kindSays    = "says"
	kindJudge   = "judge"
	kindMax     = "max"
	kindError   = "error"
)

// OK reports whether all results are as expected.
func (o *Outcome) OK() bool {
	if len(o.Differences) > 0 {
		return false
	}
	for i := range o.Turns {
		if len(o.Turns[i].Differences) > 0 {
			return false
		}
	}
	return true
}
