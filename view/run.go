package view

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// AnswerWasEmpty is what an agent reads before it is asked once more, because its
// answer had no text and no calls. The line stays where it is, so that the view
// only grows at its end.
const AnswerWasEmpty = "[Your answer was empty. Answer now, in words or by calling a tool.]"

// Run is the state of the agent's current run, as far as it matters for what its
// model may do next. When no run is under way it has From and Reason alone. A run that
// takes up another, after a pause or in a fork, continues with that one's state.
type Run struct {
	// Handed is the transfer that began the run, until the agent has said something
	// or another tool than that of transfers has answered it, not with an error; nil if none began it, and
	// if a router or a route did, because no model chose these.
	// Words and results of an answer count when its calls are all settled: what the
	// model was offered in a request holds for all of the answer.
	Handed *event.Transfer
	// From is the agent that chose this one by a transfer, in this turn or in an earlier one since which the agent has had
	// the conversation; "" if none did. Reason is its reason in one line, "" if it gave none or the edge hides it.
	From, Reason string
	// Arrived is set if the run began with that transfer.
	Arrived bool
	// Bounced is set once the model of an agent that a transfer had put in charge transferred the
	// conversation up or sideways in this turn before the agent had said or done anything.
	Bounced bool
	// Returned names the agents that gave the conversation back to this one in this turn
	// in that way, and those that did not take it. The slice is shared and must not be changed.
	Returned []string
	// Wordless counts the transfers of models in this turn before which nothing was said or done in the
	// source's run; Spoken is set once something was said or done since the last transfer.
	Wordless int
	Spoken   bool
	// Refused counts the transfers that were refused, those beyond a limit not among
	// them.
	Refused int
	// Limited is set once a transfer was answered "limit reached".
	Limited bool
	// Answered is set once a model has answered in the run, to the question who answers
	// too, or failed to answer that.
	Answered bool
	// Called is set once the results of an answer with calls are known, those of the agent's input included.
	Called bool
	// Decided is set once it was decided that the agent itself answers.
	Decided bool
	// Empty is set when the last attempt at an answer was discarded because it was
	// empty.
	Empty bool
	// Misfit is set when the last attempt at an answer was discarded because it had not
	// the form that the agent's answers have.
	Misfit bool
	// Again is what was wrong with that attempt, where the view does not show it because agents share their requests.
	Again string
	// Failures are the calls that failed, in answers whose calls are all settled.
	// The slice is shared and must not be changed.
	Failures []Failure
}

// Failure is a call that failed, in one answer or several.
type Failure struct {
	Name string
	// Input are the arguments as JSON whose keys are sorted.
	Input string
	// Error is the error text that the first of them got as its result. The others
	// got the same text, and perhaps more.
	Error string
	// Answers counts the answers that had the call.
	Answers int

	last int64 // the answer that had it last
}

// Of reports whether the failure is one of this call, with this error.
func (f *Failure) Of(name string, input json.RawMessage, failed string) bool {
	return f.Name == name && strings.HasPrefix(failed, f.Error) && f.Input == sorted(input)
}

// arrival is what transfers have done in the user's turn.
type arrival struct {
	// to is the agent that the last transfer has started, until it has said something or
	// a tool other than that of transfers has answered it; from is the transfer's source.
	to, from string
	bounced  bool     // see Run
	returned []string // see Run
	wordless int      // see Run
	spoken   bool     // see Run
}

// acts records that an agent has said something, or that a tool has answered it.
func (a *arrival) acts(agentName string) {
	a.spoken = true
	if a.to == agentName {
		a.to = ""
	}
}

// settle adds an answer of the agent whose calls are all settled.
func (r *Run) settle(a *answer) {
	done := strings.TrimSpace(a.text) != ""
	for i := range a.calls {
		c := &a.calls[i]
		done = done || c.Name != agent.TransferTool && !c.isError
		if c.isError && c.Name != agent.TransferTool {
			r.fails(c, a.last)
		}
	}
	if done {
		r.Handed = nil
	}
	r.Called = r.Called || len(a.calls) > 0
}

func (r *Run) fails(c *call, seq int64) {
	failed := event.OutputText(c.result)
	i := slices.IndexFunc(r.Failures, func(f Failure) bool { return f.Of(c.Name, c.Input, failed) })
	if i < 0 {
		r.Failures = append(slices.Clip(r.Failures), Failure{Name: c.Name, Input: sorted(c.Input), Error: failed, Answers: 1, last: seq})
		return
	}
	if r.Failures[i].last != seq { // a model that has not read the error yet does not insist
		r.Failures = slices.Clone(r.Failures)
		r.Failures[i].Answers++
		r.Failures[i].last = seq
	}
}

// sorted returns JSON with the keys of its objects sorted, so that the same
// arguments are the same text.
func sorted(input json.RawMessage) string {
	var v any
	d := json.NewDecoder(strings.NewReader(string(input)))
	d.UseNumber() // no digit is lost
	if d.Decode(&v) != nil {
		return string(input)
	}
	return string(event.EncodeJSON(v))
}
