package view

import (
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// runStarts applies the start of a run.
func (v *progress) runStarts(d *event.HarnessStart, e *event.Event, mine bool) {
	if !v.waits(e.Agent) {
		v.flush()
	}
	if len(d.Input) > 0 && !v.entered {
		v.entered = true
		v.input(d, e.Seq)
	}
	if mine && v.handed != nil {
		v.run = v.begins(v.run)
	}
	v.handed = nil
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
	if mine && d.FinishReason != event.FinishReasonInputRequired { // else another run continues it
		v.run = v.idle()
	}
}

// transfer applies a transfer, and shows it to its target.
func (v *progress) transfer(t *event.Transfer, seq int64, mine bool) {
	switch t.Outcome {
	case event.TransferCommitted, event.TransferConflict:
		mine := mine && v.sharing == nil // else the call is shown
		if c := v.open.find(t.ToolCallID); mine && c != nil {
			c.hidden = true
		}
		// A call that repeats the committed one is part of it.
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
	v.moves(t)
	if v.last = t; v.since != nil {
		v.since, v.run.From, v.run.Reason = nil, "", ""
	}
	if v.sharing != nil {
		if line := v.moved(t); line != "" {
			v.flush()
			v.add(llm.UserText(line), seq)
		}
	}
	if t.To != v.agent {
		return
	}
	if !chosen(t) {
		v.handed = t
	}
	if v.sharing != nil {
		return
	}
	if t.TransferType == event.TransferTypeHumanToBot { // the status before it has said so
		return
	}
	v.flush()
	if line := v.arrives(t, v.arrival.returned); line != "" {
		v.add(llm.UserText(line), seq)
	}
}

// moves applies a committed transfer to what is known of the turn.
func (v *progress) moves(t *event.Transfer) {
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
	if chosen(t) {
		a.to = ""
	}
}

// idle returns the state of the agent before its next run. In turns after the one in which it was chosen its requests
// begin as they did then, so that the endpoint's cache has them; but the root is the one that chooses.
func (v *progress) idle() Run {
	if v.since == nil {
		return Run{}
	}
	return Run{From: v.since.From, Reason: v.reason(v.since)}
}

// begins returns a run that a transfer to the agent begins. Its source is known if it has chosen the agent rather than
// given the conversation back.
func (v *progress) begins(run Run) Run {
	t := v.handed
	run.Handed = t
	if t.TransferType == "" && !slices.Contains(v.arrival.returned, t.From) {
		run.From, run.Reason, run.Arrived = t.From, v.reason(t), true
	}
	return run
}

// chosen reports whether a transfer was chosen by a rule: by a router, or by a route after an answer or
// a failure.
func chosen(t *event.Transfer) bool { return t.Routed() || t.TransferType == event.TransferTypeRoute }

// handedBack shows that a person has returned the conversation to the agent.
func (v *progress) handedBack(d *event.HandoffStatus, seq int64) {
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
		v.run.Refused-- // the attempt is a limit's, not the model's mistake
		v.run.Limited = true
	case event.NoticeDecided, event.NoticeUndecided, event.NoticeAsksUser:
		v.run.Answered, v.run.Decided = true, code == event.NoticeDecided
		v.asks = code == event.NoticeAsksUser
	}
}

// answerMisfits is what an agent reads before it is asked once more, because its answer
// had not the form that was asked for; %s is what was wrong.
const answerMisfits = "[Your answer did not have the form that was asked for: %s. Answer again, in that form and with nothing else.]"

// discarded shows that an answer of the agent was discarded because of its form, or because it was empty. The model may
// read the former several times in a run, each time after it has answered with calls.
func (v *progress) discarded(d *event.Discard) {
	switch d.Code {
	case event.CodeBadOutput:
		v.flush()
		v.run.Misfit = true
		v.again(fmt.Sprintf(answerMisfits, v.policy.redactText(d.Message)))
	case event.CodeEmptyAnswer:
		v.flush()
		if !v.run.Empty { // else it has read the line
			v.again(AnswerWasEmpty)
		}
		v.run.Empty = true
	}
}

// again shows what was wrong with the answer of the agent. To agents that share their requests it is no part of the
// conversation: the next request ends with it.
func (v *progress) again(line string) {
	if v.sharing == nil {
		v.shown.join(llm.UserText(line))
		return
	}
	v.run.Again = line
}
