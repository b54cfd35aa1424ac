package event

import (
	"cmp"
	"slices"

	"github.com/agentarbor/arbor/llm"
)

// The TransferType of a transfer that no call of an agent's model requested.
const (
	// TransferTypeRefused: the conversation returns to the agent that transferred it,
	// because the target refused it.
	TransferTypeRefused = "refused"
	// TransferTypeRoute: a route made the transfer.
	TransferTypeRoute = "route"
	// TransferTypeBotToBot: a router chose the target, or the target continues for an agent that failed.
	TransferTypeBotToBot = "bot_to_bot"
	// TransferTypeBotToHuman: the conversation goes to a person.
	TransferTypeBotToHuman = "bot_to_human"
	// TransferTypeHumanToBot: no person is available, and the agent that asked for one continues.
	TransferTypeHumanToBot = "human_to_bot"
)

// Other values of TransferType that contact centres use. The agents of this module make no such
// transfers, but other agents may.
const (
	TransferTypeHumanToHuman      = "human_to_human"
	TransferTypeSupervisorConsult = "supervisor_consult"
	TransferTypeBlind             = "blind"
	TransferTypeWarm              = "warm"
)

// Routed reports whether a router made the transfer. Such a transfer counts against no limit.
func (d *Transfer) Routed() bool { return d.RouteDecision != nil }

// Public returns a copy of the failure for clients that may not inspect the session. A message that the runner wrote,
// such as one about a limit, stays. Any other message becomes a general sentence for the code, because it can contain
// text or addresses from an endpoint, a tool or a library.
func (f *Failure) Public() *Failure {
	public := *f
	public.Message = publicMessage(f.Code, f.Message)
	return &public
}

// Public returns a copy of the discard for clients that may not inspect the session; see [Failure.Public].
func (d *Discard) Public() *Discard {
	public := *d
	public.Message = publicMessage(d.Code, d.Message)
	return &public
}

// publicMessage returns the message that clients without the right to inspect may read.
func publicMessage(code, message string) string {
	switch code {
	case "transfer_limit", "transfer_rejected", "repeated_call", "limit", "budget", CodeEmptyAnswer, CodeBadOutput, CodeTripwire:
		return message
	}
	if message == "" {
		return ""
	}
	return cmp.Or(llm.ErrorCode(code).Public(), "the agent failed")
}

// HandoffOver reports whether a status is final, so that the handoff has ended.
func HandoffOver(status string) bool {
	return slices.Contains([]string{"completed", "ended", "cancelled", "failed"}, status)
}

// The codes of notices that programs depend on.
const (
	// NoticeTransferLimit comes with a transfer that was refused because of a limit.
	NoticeTransferLimit = "transfer_limit"
	// NoticeTransferRefused comes before a transfer of the type TransferTypeRefused.
	NoticeTransferRefused = "transfer_refused"
	// NoticeWandering: models have transferred the conversation three times in one turn without a text or a tool call
	// in between.
	NoticeWandering = "wandering"
	// NoticeDecided, NoticeUndecided and NoticeAsksUser are outcomes of the routing question at the start of a run:
	// which agent answers. Decided: the agent itself answers, and its model gets no transfer tool. Undecided: the
	// agent continues as if the question had not been asked. AsksUser: the user is asked which agent they mean. If
	// another agent answers, there is a transfer instead.
	NoticeDecided   = "decided"
	NoticeUndecided = "undecided"
	NoticeAsksUser  = "asks_user"
	// NoticeRouteFailed says why a route made no transfer. The agent then answers itself.
	NoticeRouteFailed = "route_failed"
	// NoticeRoutingError reports that a condition or a transform of a graph failed.
	NoticeRoutingError = "routing_error"
	// NoticeLoopLimit reports that a loop of a graph or a workflow has ended at its limit of rounds. It is also the code
	// of the error of a loop that fails there.
	NoticeLoopLimit = "loop_limit"
	// NoticeForked comes with the start of a run that resumes, in a fork, an open run of the parent session. The
	// parent's run has no end in the fork's log, because the parent session continues it.
	NoticeForked = "forked"
	// NoticeResumed says that an interrupted run continues: after NoticeStopped, and if there is a budget of time.
	NoticeResumed = "resumed"
	// NoticeAdopted reports that a process has adopted a turn whose process died, or was stopped: NoticeGivenBack says
	// before it that a server was stopped. NoticeLeft reports that no process adopts the turn any more, because too many
	// died or were stopped at the same place.
	NoticeAdopted   = "taken_over"
	NoticeGivenBack = "given_back"
	NoticeLeft      = "left"
	// NoticeStopped is the last event of a turn that was stopped, until a user resumes it: then NoticeResumed follows.
	NoticeStopped = "stopped"
	// NoticeTooDeep comes with an event whose JSON was deeper than [MaxDepth] and is stored as a string.
	NoticeTooDeep = "too_deep"
	// NoticeWithheld reports that a guard has withheld an agent's reasoning.
	NoticeWithheld = "withheld"
	// NoticeCompactionFailed reports that a summary of the earlier part of a conversation failed. It says whether
	// requests leave that part out.
	NoticeCompactionFailed = "compaction_failed"
	// NoticeToolset reports that an agent continues without the tools of a toolset, and why, or that it has them
	// again.
	NoticeToolset = "toolset"
)

// The codes of errors and discards that programs depend on.
const (
	// CodeInternal is the code of a run that ended with a panic.
	CodeInternal = "internal"
	// CodeEmptyAnswer is the code of a discard of an empty answer. If the next answer is empty too, it is also the
	// code of the notice about it, and of the error of the run that ends with it.
	CodeEmptyAnswer = "empty_answer"
	// CodeBadOutput is the code of a discard of an answer that does not have the form that its agent requires, and of
	// the error of a run that ends with such an answer.
	CodeBadOutput = "bad_output"
	// CodeAnticipated is the code of a discard of an answer that was requested early for an expected transfer, if the
	// transfer was not made as expected.
	CodeAnticipated = "anticipated"
	// CodeInterrupted is the code of a discard that is never stored: the turn that streamed the blocks was interrupted.
	CodeInterrupted = "interrupted"
	// CodeTripwire is the code of the error of a turn that a guard ended, and of the discard of the text that the
	// guard refused.
	CodeTripwire = "tripwire"
	// CodeToolFailed is the code of a tool node's run whose tool failed.
	CodeToolFailed = "tool_failed"
	// CodeToolRefused is the code of a tool node's run whose tool was not called, because the call was denied or is
	// invalid, or was interrupted with an unknown outcome. Error strategies do not repeat the call.
	CodeToolRefused = "tool_refused"
)
