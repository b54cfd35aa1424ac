package routing

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// The values of [Decision.Kind].
const (
	ByTransfer = "transfer" // the agent, or its model, transferred, or tried to
	ByRoute    = "route"    // a route of the agent was followed when its run ended
	ByRule     = "rule"     // the agent is a router
	ByFailure  = "failure"  // the agent failed, and another one continues
	Answers    = "answer"   // the agent answered itself
	AsksUser   = "asks_user"
	Fails      = "failed" // the run of the agent ended otherwise, and no agent continues
)

// Decision is a point of a session's log at which it was decided which agent continues.
type Decision struct {
	Kind   string `json:"kind"`
	Agent  string `json:"agent"`  // the agent that was active
	Chosen string `json:"chosen"` // the agent that continues: the same one for an answer, "" for none
	// Outcome is the outcome of a transfer.
	Outcome event.TransferOutcome `json:"outcome,omitempty"`
	Reason  string                `json:"reason,omitempty"`
	// Rule is the index of a router's rule, from 0; nil if none decided.
	Rule *int `json:"rule,omitempty"`
	// Notes are the notices of the run before it, for example that no agent was chosen.
	Notes []string `json:"notes,omitempty"`
	// Model is the model of the answer that contains the decision, by its endpoint's name.
	Model string `json:"model,omitempty"`
	// Said is the user's last message. Scope is the inner conversation of the decision, "" if it was in the user's.
	Said   string    `json:"said"`
	TurnID string    `json:"turnId"`
	Scope  string    `json:"scope,omitempty"`
	Time   time.Time `json:"time"`
	// At is the position of the log with which the decision was made, Seq the position of its event, and Until the last
	// position that belongs to it.
	At    int64 `json:"at"`
	Seq   int64 `json:"seq"`
	Until int64 `json:"until"`
}

// Moved reports whether another agent became active.
func (d *Decision) Moved() bool {
	return d.Chosen != d.Agent && (d.Outcome == event.TransferCommitted || d.Kind == ByRule || d.Kind == ByFailure)
}

// Find returns the decision to which a position of a log belongs, or the next one after it. For a position below 1 it
// returns the last decision of the conversation that made another agent active in its turn or, without one, the last
// decision. The error is agent.ErrBadInput if there is no such decision, or the log's.
func Find(log iter.Seq2[*event.Event, error], seq int64) (*Decision, error) {
	f := finder{runs: make(map[string]*runState), calls: make(map[string]int64)}
	end, scope := int64(0), ""
	for e, err := range log {
		if err != nil {
			return nil, err
		}
		if end = e.Seq; end == seq {
			scope = e.Scope
		}
		f.apply(e)
	}
	var found *Decision
	for i := range f.all {
		d := &f.all[i]
		switch {
		case d.Scope != scope:
		case seq > 0 && d.Until >= seq:
			return d, nil
		case seq < 1 && (found == nil || d.TurnID != found.TurnID || d.Moved() || !found.Moved()):
			found = d
		}
	}
	switch {
	case seq > end:
		return nil, fmt.Errorf("there is no position %d, the last one is %d: %w", seq, end, agent.ErrBadInput)
	case found == nil && seq > 0:
		return nil, fmt.Errorf("no decision was made at or after position %d: %w", seq, agent.ErrBadInput)
	case found == nil:
		return nil, fmt.Errorf("nothing was decided in this session yet: %w", agent.ErrBadInput)
	}
	return found, nil
}

// finder finds all decisions of a log.
type finder struct {
	all   []Decision
	runs  map[string]*runState // the open runs by id
	calls map[string]int64     // the position with which each call was made, by id
	said  string
}

// runState is the state of a run.
type runState struct {
	at      int64 // the position with which the last answer was requested
	open    bool  // the answer is not complete
	notes   []string
	model   string    // of the last answer
	settled *Decision // the routing decision before the answer
	failure string
}

func (f *finder) apply(e *event.Event) {
	run := f.runs[e.RunID]
	if run == nil {
		run = &runState{at: e.Seq - 1}
		f.runs[e.RunID] = run
	}
	switch d := e.Data.(type) {
	case *event.User:
		f.said = d.Content.PlainText()
		delete(f.runs, e.RunID)
	case *event.HarnessStart:
		run.at, run.open = e.Seq, false
	case *event.Text, *event.Reasoning:
		run.begin(e)
	case *event.ToolCall:
		run.begin(e)
		f.calls[e.ID] = run.at
	case *event.Usage:
		run.open, run.model = false, d.Model
	case *event.Notice:
		f.notice(e, run, d)
	case *event.Route:
		kind, reason := ByRule, d.Reason
		if d.Failed != nil {
			kind, reason = ByFailure, d.Failed.Code+": "+d.Failed.Message
		}
		run.begin(e)
		f.add(e, run, Decision{Kind: kind, Agent: d.From, Chosen: d.To, Reason: reason, Rule: d.RuleIndex, At: run.at})
	case *event.Transfer:
		f.transfer(e, run, d)
	case *event.Failure:
		run.failure = d.Message
	case *event.HarnessEnd:
		f.ends(e, run, d)
		delete(f.runs, e.RunID)
	}
}

// begin records that an answer starts, or continues.
func (r *runState) begin(e *event.Event) {
	if !r.open {
		r.at, r.open = e.Seq-1, true
	}
}

func (f *finder) add(e *event.Event, run *runState, d Decision) {
	d.Notes, d.Model, d.Said, d.TurnID, d.Scope, d.Time, d.Seq, d.Until = run.notes, run.model, f.said, e.TurnID, e.Scope, e.Time, e.Seq, e.Seq
	if d.Agent == "" {
		d.Agent = e.Agent
	}
	f.all = append(f.all, d)
}

func (f *finder) notice(e *event.Event, run *runState, d *event.Notice) {
	switch d.Code {
	case event.NoticeDecided, event.NoticeAsksUser:
		run.begin(e)
		kind := Answers
		if d.Code == event.NoticeAsksUser {
			kind = AsksUser
		}
		run.settled = &Decision{Kind: kind, Agent: e.Agent, Chosen: e.Agent, Reason: d.Message, At: run.at}
	case event.NoticeUndecided, event.NoticeTransferLimit, event.NoticeTransferRefused:
		run.notes = append(slices.Clip(run.notes), d.Message)
	}
}

func (f *finder) transfer(e *event.Event, run *runState, d *event.Transfer) {
	if n := len(f.all) - 1; n >= 0 && (f.all[n].Kind == ByRule || f.all[n].Kind == ByFailure) && f.all[n].Seq == e.Seq-1 && f.all[n].Chosen == d.To {
		f.all[n].Outcome, f.all[n].Until = d.Outcome, e.Seq // the transfer of the decision
		return
	}
	made := Decision{Kind: ByTransfer, Agent: d.From, Chosen: d.To, Outcome: d.Outcome, Reason: d.Reason, At: run.at}
	if d.TransferType == event.TransferTypeRoute {
		made.Kind = ByRoute
	}
	if at, ok := f.calls[d.ToolCallID]; ok {
		made.At = at
	}
	f.add(e, run, made)
}

// ends adds the end of a run to its decision, or finds that the agent has answered.
func (f *finder) ends(e *event.Event, run *runState, d *event.HarnessEnd) {
	if d.FinishReason == event.FinishReasonTransfer {
		if n := len(f.all) - 1; n >= 0 && f.all[n].Scope == e.Scope && f.all[n].Agent == e.Agent {
			f.all[n].Until = e.Seq
		}
		return
	}
	made := Decision{Kind: Answers, Agent: e.Agent, Chosen: e.Agent, At: run.at}
	if run.settled != nil {
		made = *run.settled
	}
	switch d.FinishReason {
	case event.FinishReasonError, event.FinishReasonLimit, event.FinishReasonCanceled:
		made.Kind, made.Chosen = Fails, ""
		run.notes = append(slices.Clip(run.notes), strings.TrimSuffix("the run ended with "+string(d.FinishReason)+": "+run.failure, ": "))
	}
	f.add(e, run, made)
}
