package view

import (
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/llm"
)

// runStarts applies the start of a run.
func (v *progress) runStarts(d *event.HarnessStart, e *event.Event, mine bool) {
	if !v.waits(e.Agent) {
		v.flush()
	}
	v.refused = false // the turn continues after the error
	if len(d.Input) > 0 && !v.entered {
		v.entered = true
		v.input(d, e.Seq)
	}
	if mine && v.pending != nil {
		v.run = v.startedRun(v.run)
	}
	v.pending = nil
}

// runEnds applies the end of a run.
func (v *progress) runEnds(d *event.HarnessEnd, e *event.Event, mine bool) {
	if mine {
		if v.asked = 0; v.asks {
			v.asked = v.turn + 1
		}
		v.asks = false
	}
	if d.FinishReason != event.FinishReasonInputRequired || !v.waits(e.Agent) {
		v.flush()
	}
	if mine && d.FinishReason != event.FinishReasonInputRequired { // else another run continues this one
		v.run = v.idle()
	}
}

// transfer applies a transfer. The view of its target, and of agents that share their requests, get a line about it.
func (v *progress) transfer(t *event.Transfer, seq int64, mine bool) {
	switch t.Outcome {
	case event.TransferCommitted, event.TransferConflict:
		mine := mine && v.sharing == nil // agents that share their requests see the call
		if c := v.open.find(t.ToolCallID); mine && c != nil {
			c.hidden = true
		}
		// Also hide calls of the answer that repeat the committed transfer.
		for i := range v.open.calls {
			if c := &v.open.calls[i]; mine && t.Outcome == event.TransferCommitted && c.Name == agent.TransferTool && !c.isError {
				c.hidden = true
			}
		}
	case event.TransferRejected:
		if mine {
			v.run.Refused++
		}
	}
	if t.Outcome != event.TransferCommitted {
		return
	}
	v.trackTransfer(t)
	if v.last = t; v.since != nil {
		v.since, v.run.From, v.run.Reason = nil, "", ""
	}
	if v.sharing != nil {
		if line := v.sharedTransferLine(t); line != "" {
			v.flush()
			v.add(llm.UserText(line), seq)
		}
	}
	if t.To != v.agent {
		return
	}
	if !byRule(t) {
		v.pending = t
	}
	if v.sharing != nil || t.TransferType == event.TransferTypeHumanToBot { // the view has the line already
		return
	}
	v.flush()
	if line := v.transferLine(t, v.arrival.returned); line != "" {
		v.add(llm.UserText(line), seq)
	}
}

// trackTransfer applies a committed transfer to the state of the turn. A transfer is wordless here if a transfer
// started the source, whose model then transferred up or sideways before the source had said or done anything.
func (v *progress) trackTransfer(t *event.Transfer) {
	a, from, to := &v.arrival, v.node.Tree().Node(t.From), v.node.Tree().Node(t.To)
	refused := t.TransferType == event.TransferTypeRefused
	wordless := a.to == t.From && t.ToolCallID != "" && !refused && t.To != agent.Human &&
		(from == nil || to == nil || !from.Down(to))
	a.bounced = a.bounced || wordless
	if t.ToolCallID != "" && !a.spoken {
		a.wordless++
	}
	a.spoken = false
	if t.To == v.agent && (refused || wordless && t.To == a.from) {
		a.returned = append(slices.Clip(a.returned), t.From)
	}
	a.to, a.from = t.To, t.From
	if byRule(t) {
		a.to = ""
	}
}

// idle returns the state of the agent before its next run. It keeps the source and the reason of the transfer since
// which the agent is active, so that the requests of later turns begin with the same bytes, for the endpoint's cache.
func (v *progress) idle() Run {
	if v.since == nil {
		return Run{}
	}
	return Run{From: v.since.From, Reason: v.reason(v.since)}
}

// startedRun returns run as the pending transfer starts it. It sets the source if the source has chosen the agent and
// not returned the conversation to it.
func (v *progress) startedRun(run Run) Run {
	t := v.pending
	run.Transfer = t
	if t.TransferType == "" && !slices.Contains(v.arrival.returned, t.From) {
		run.From, run.Reason, run.Arrived = t.From, v.reason(t), true
	}
	if m := chosenReason.FindStringSubmatch(t.Reason); m != nil && t.TransferType == "" && t.ToolCallID != "" {
		run.Chosen, run.OnTheWay = m[1] == "", m[1] != ""
	}
	return run
}

// IsChosenReason reports whether a reason is one that [ChosenReason] returns. No model may give such a reason.
func IsChosenReason(reason string) bool { return chosenReason.MatchString(reason) }

// chosenReason matches what [ChosenReason] returns.
var chosenReason = lazyregexp.New(`^decided(?: with a confidence of \d\.\d\d)?(?:: for (\S+))?$`)

// ChosenReason returns the reason of a transfer by the routing question: with its confidence, if that is known, and
// the agent that it named, if that is not the target.
func ChosenReason(confidence float64, known bool, named string) string {
	reason := "decided"
	if known {
		reason += fmt.Sprintf(" with a confidence of %.2f", confidence)
	}
	if named != "" {
		reason += ": for " + named
	}
	return reason
}

// byRule reports whether a rule made a transfer: a router, or a route after an answer or a failure.
func byRule(t *event.Transfer) bool { return t.Routed() || t.TransferType == event.TransferTypeRoute }

// handoffStatus adds a line if a person has returned the conversation to the agent.
func (v *progress) handoffStatus(d *event.HandoffStatus, seq int64) {
	if !event.HandoffOver(d.Status) || d.TargetAgent != v.agent && v.sharing == nil {
		return
	}
	to := "you"
	if v.sharing != nil {
		to = d.TargetAgent
	}
	v.flush()
	v.add(llm.UserText("[human] handed the conversation back to "+to+"."), seq)
}

// notice applies a notice of the agent.
func (v *progress) notice(code string) {
	switch code {
	case event.NoticeCompactionFailed:
		v.dropped.failed++
		v.dropped.since = 0
	case event.NoticeTransferLimit:
		v.run.Refused-- // a limit refused the transfer: the model made no mistake
		v.run.Limited = true
	case event.NoticeDecided, event.NoticeUndecided, event.NoticeAsksUser:
		v.run.Answered, v.run.Decided = true, code == event.NoticeDecided
		v.asks = code == event.NoticeAsksUser
	}
}

// wrongForm is the line that an agent's model reads before it is asked again because its answer did not have the
// required form. %s is the mistake.
const wrongForm = "[Your answer did not have the form that was asked for: %s. Answer again, in that form and with nothing else.]"

// discard adds a line if an answer of the agent was discarded because of its form, or because it was empty. The line
// about the form can appear several times in a run, each time after an answer with calls. The line about an empty
// answer appears once in a run.
func (v *progress) discard(d *event.Discard) {
	switch d.Code {
	case event.CodeBadOutput:
		v.flush()
		v.run.WrongForm = true
		v.addRetryLine(fmt.Sprintf(wrongForm, v.policy.redactText(d.Message)))
	case event.CodeEmptyAnswer:
		v.flush()
		if !v.run.Empty { // else the view has the line
			v.addRetryLine(answerWasEmpty)
		}
		v.run.Empty = true
	}
}

// addRetryLine adds a line about a discarded answer of the agent. For agents that share their requests it sets
// Run.Again instead, and only the next request has the line.
func (v *progress) addRetryLine(line string) {
	if v.sharing == nil {
		v.shown.join(llm.UserText(line))
		return
	}
	v.run.Correction = line
}
