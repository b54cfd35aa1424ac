package eval

import (
	"time"

	"github.com/agentarbor/arbor/event"
)

// Report is what came of all cases. Its JSON form is a baseline for later ones.
type Report struct {
	Cases    int       `json:"cases"`
	Repeat   int       `json:"repeat"`
	Subjects []Results `json:"subjects"`
	// Judge is how the judge compares with people, nil if there was none.
	Judge *Agreement `json:"judge,omitempty"`
}

// Results are those of one tree, or of one tree with one model.
type Results struct {
	Subject  string    `json:"subject"`
	Outcomes []Outcome `json:"outcomes"` // in the order of the cases; of one case the repetitions in order
}

// Outcome is what came of a case that was played once.
type Outcome struct {
	Case   string        `json:"case"`
	File   string        `json:"file,omitempty"`
	Line   int           `json:"line,omitempty"`
	Tags   []string      `json:"tags,omitempty"`
	Repeat int           `json:"repeat"` // from 1
	Turns  []TurnOutcome `json:"turns"`  // as far as it came
	// Differences are those of the case as a whole, as from its Max.
	Differences []Difference `json:"differences,omitempty"`
}

// TurnOutcome is what came of a turn.
type TurnOutcome struct {
	User string `json:"user"`
	Line int    `json:"line,omitempty"`
	// Expected is the path that was expected, as a file of cases has it.
	Expected string `json:"expected,omitempty"`
	// ExpectedAnswers are the agents of whom one was to answer, if that was looked at.
	ExpectedAnswers []string `json:"expectedAnswers,omitempty"`

	Path     []string `json:"path"`              // who had the conversation
	Answered string   `json:"answered"`          // who said the last words, "" if nobody
	Tools    []string `json:"tools,omitempty"`   // that were called, but for transfers
	Asked    []string `json:"asked,omitempty"`   // the tools about whose calls somebody was asked
	Said     string   `json:"said"`              // all words that the user was told
	Leaked   bool     `json:"leaked,omitempty"`  // the user was shown a call that a model wrote as words
	Verdict  *Verdict `json:"verdict,omitempty"` // of the judge

	Decisions  []Decision  `json:"decisions,omitempty"`
	Transfers  int         `json:"transfers"`
	ModelCalls int         `json:"modelCalls"` // answers of models, those that were discarded too
	Usage      event.Usage `json:"usage"`      // the sum, inside of tools and graphs too
	// Arrivals are the tokens of prompts that were computed anew for the first answer after each
	// transfer: what of it the endpoint did not have from a prompt with the same beginning.
	Arrivals []int         `json:"arrivals,omitempty"`
	Cost     *float64      `json:"cost"` // nil if a model has no price, or its endpoint does not say what it used
	Took     time.Duration `json:"took"` // in nanoseconds
	// FirstWord is how long the user waited for the first text, which is whole without streaming; 0 if there was none.
	FirstWord time.Duration `json:"firstWord,omitempty"`
	// Error is the code of what ended the turn, as in the log.
	Error string `json:"error,omitempty"`

	Differences []Difference `json:"differences,omitempty"`
}

// add adds what another turn has used.
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

// Decision is one of an agent that had the conversation: whom it handed it to, and who was right.
type Decision struct {
	From     string `json:"from"`
	Expected string `json:"expected"` // the same as From if it was to answer itself
	Chosen   string `json:"chosen"`
}

// Verdict is what a judge said of an answer.
type Verdict struct {
	True bool   `json:"true"`
	Why  string `json:"why,omitempty"`
}

// Difference is something that is not as expected.
type Difference struct {
	// Kind is one of the Kind constants.
	Kind    string `json:"kind"`
	Message string `json:"message"` // of one line
}

// The kinds of differences.
const (
	KindPath    = "path"
	KindAnswers = "answers"
	KindTools   = "tools"
	KindAsks    = "asks" // also of a question that the case does not decide
	KindSays    = "says"
	KindJudge   = "judge"
	KindMax     = "max"
	KindError   = "error"
)

// OK reports whether all is as expected.
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
