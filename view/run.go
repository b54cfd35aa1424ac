package view

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/plainjson"
)

// answerWasEmpty is the line that an agent's model reads before it is asked again because its answer had no text and no
// calls. The line stays in the view, so that the view only grows at its end.
const answerWasEmpty = "[Your answer was empty. Answer now, in words or by calling a tool.]"

// Run is the state of the agent's current run, as far as it affects what its model may do next. If the agent has no
// current run, only From and Reason are set. A run that resumes another one, after a pause or in a fork, continues with
// its state.
type Run struct {
	// Transfer is the transfer that started the run. It is nil if no transfer did, or if a router or a route made the
	// transfer, because no model chose these. It becomes nil when the agent has said something, or a tool other than
	// the transfer tool has returned a result without an error. An answer counts when all of its calls have results,
	// because what the model is offered in a request holds for the whole answer.
	Transfer *event.Transfer
	// From is the agent that chose this one by a transfer, in this turn or in an earlier turn since which this agent is
	// active; "" if none did. Reason is the reason of that transfer in one line; "" if it had none or the edge hides
	// it.
	From, Reason string
	// Arrived reports that the run started with that transfer.
	Arrived bool
	// Chosen reports that the routing question of the agent From named this agent, and OnTheWay that it named an agent
	// to which this agent leads.
	Chosen, OnTheWay bool
	// Bounced reports that in this turn the model of an agent that a transfer had started transferred the conversation
	// up or sideways before the agent had said or done anything.
	Bounced bool
	// Returned names the agents that transferred the conversation back to this agent in this way in this turn, and
	// those that refused it. The slice is shared and must not be changed.
	Returned []string
	// Wordless counts the transfers by models in this turn before which the source's run had neither text nor a tool's
	// result. Spoken reports that there was one of these since the last transfer.
	Wordless int
	Spoken   bool
	// Refused counts the refused transfers, without those that a limit refused.
	Refused int
	// Limited reports that a transfer was refused because of a limit.
	Limited bool
	// Answered reports that a model has answered in the run, including the routing question, or has failed to answer
	// that question.
	Answered bool
	// Called reports that the results of an answer with calls are known. Calls in the agent's input count.
	Called bool
	// Decided reports that the routing question chose the agent itself.
	Decided bool
	// Empty reports that the last attempt at an answer was discarded because it was empty.
	Empty bool
	// WrongForm reports that the last attempt at an answer was discarded because it did not have the required form.
	WrongForm bool
	// Correction says what was wrong with that attempt. It is set only if agents share their requests, because the view then
	// does not contain the line.
	Correction string
	// Failures are the failed calls, in answers whose calls all have results. The slice is shared and must not be
	// changed.
	Failures []Failure
}

// Failure is a failed call, which one or several answers contained.
type Failure struct {
	Name string
	// Input contains the arguments as JSON with sorted keys.
	Input string
	// Error is the result of the first of the calls. The results of the others start with the same text.
	Error string
	// Answers counts the answers with the call.
	Answers int

	last int64 // the position of the last answer with the call
}

// Of reports whether the failure is of the same call with the same error.
func (f *Failure) Of(name string, input json.RawMessage, failed string) bool {
	return f.Name == name && strings.HasPrefix(failed, f.Error) && f.Input == sorted(input)
}

// arrival is what transfers have done in the user's turn.
type arrival struct {
	// to is the agent that the last transfer has started, until it has said something or a tool other than that of
	// transfers has answered it; from is the transfer's source.
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

// addAnswer applies an answer of the agent whose calls all have results.
func (r *Run) addAnswer(a *answer) {
	done := strings.TrimSpace(a.text) != ""
	for i := range a.calls {
		c := &a.calls[i]
		done = done || c.Name != agent.TransferTool && !c.isError
		if c.isError && c.Name != agent.TransferTool {
			r.fails(c, a.last)
		}
	}
	if done {
		r.Transfer = nil
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

// sorted returns JSON with the keys of its objects sorted, so that equal arguments are equal texts.
func sorted(input json.RawMessage) string {
	var v any
	if plainjson.Unmarshal(input, &v) != nil {
		return string(input)
	}
	return string(event.EncodeJSON(v))
}
