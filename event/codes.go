package event

import (
	"cmp"

	"github.com/agentarbor/arbor/llm"
)

// The TransferType of a transfer that nobody asked for.
const (
	// TransferTypeRefused: the conversation returns to the agent that transferred it,
	// because the target refused it.
	TransferTypeRefused = "refused"
	// TransferTypeRoute: a route made the transfer.
	TransferTypeRoute = "route"
	// TransferTypeBotToBot: a router chose the target, or an agent that failed gives the
	// conversation up to it.
	TransferTypeBotToBot = "bot_to_bot"
	// TransferTypeBotToHuman: the conversation goes to a person, by whatever way.
	TransferTypeBotToHuman = "bot_to_human"
	// TransferTypeHumanToBot: nobody is available, and the agent that asked for a person continues.
	TransferTypeHumanToBot = "human_to_bot"
)

// Other values of TransferType that contact centres use. Nothing here makes such a
// transfer; agents of others may.
const (
	TransferTypeHumanToHuman      = "human_to_human"
	TransferTypeSupervisorConsult = "supervisor_consult"
	TransferTypeBlind             = "blind"
	TransferTypeWarm              = "warm"
)

// Routed reports whether a router made the transfer, so that it counts against no limit.
func (d *Transfer) Routed() bool { return d.RouteDecision != nil }

// Public returns the failure as it is shown to clients that may not inspect the session: with the runner's own words about limits, or with
// a sentence about its code. Other messages can quote what an endpoint, a tool or a library said, and where they are.
func (f *Failure) Public() *Failure {
	public := *f
	public.Message = publicly(f.Code, f.Message)
	return &public
}

// Public does for a discard what [Failure.Public] does for a failure.
func (d *Discard) Public() *Discard {
	public := *d
	public.Message = publicly(d.Code, d.Message)
	return &public
}

func publicly(code, message string) string {
	switch code {
	case "transfer_limit", "transfer_rejected", "repeated_call", "limit", "budget", CodeEmptyAnswer, CodeBadOutput, CodeTripwire:
		return message
	}
	if message == "" {
		return ""
	}
	return cmp.Or(llm.ErrorCode(code).Public(), "the agent failed")
}

// HandoffOver reports whether nothing follows a status of a handoff but another handoff.
func HandoffOver(status string) bool {
	switch status {
	case "completed", "ended", "cancelled", "failed":
		return true
	}
	return false
}

// The codes of notices that something depends on.
const (
	// NoticeTransferLimit comes with a transfer which was answered "limit reached".
	NoticeTransferLimit = "transfer_limit"
	// NoticeTransferRefused comes before a transfer of the type TransferTypeRefused.
	NoticeTransferRefused = "transfer_refused"
	// NoticeWandering: models have transferred the conversation three times in one turn before anything was
	// said or done, as small models do.
	NoticeWandering = "wandering"
	// NoticeDecided, NoticeUndecided and NoticeAsksUser are the outcomes of the question
	// who answers, which is asked at the beginning of a run. Decided: the agent itself
	// answers, and is offered no transfer. Undecided: the agent continues as if nothing
	// had been asked. AsksUser: the user is asked which agent they mean. Where another
	// agent answers there is a transfer instead.
	NoticeDecided   = "decided"
	NoticeUndecided = "undecided"
	NoticeAsksUser  = "asks_user"
	// NoticeRouteFailed says why a route made no transfer, so that the agent answers itself.
	NoticeRouteFailed = "route_failed"
	// NoticeForked comes with the start of a run that continues, in a fork, what a run of
	// the shared past had left open. That run continues in the other session alone, so that
	// no run has two ends.
	NoticeForked = "forked"
	// NoticeResumed says that a run which was cut off continues, where a budget of time must
	// know.
	NoticeResumed = "resumed"
	// NoticeTakenOver reports that a process has adopted a turn whose process died. NoticeLeft reports that no
	// process adopts it any more, because each died at the same place.
	NoticeTakenOver = "taken_over"
	NoticeLeft      = "left"
	// NoticeTooDeep comes with an event whose JSON was deeper than [MaxDepth] and is
	// kept as a string.
	NoticeTooDeep = "too_deep"
	// NoticeWithheld says that a guard has withheld an agent's reasoning.
	NoticeWithheld = "withheld"
	// NoticeCompactionFailed says that a summary of the earlier part of a conversation failed, and whether that part is
	// left out without it.
	NoticeCompactionFailed = "compaction_failed"
	// NoticeToolset says that an agent continues without tools of one of its sets, and why, or that it has
	// them again.
	NoticeToolset = "toolset"
)

// The codes of errors and discards that something depends on.
const (
	// CodeInternal is that of a run that ended with a panic.
	CodeInternal = "internal"
	// CodeEmptyAnswer is that of an answer that was discarded because it was empty, of the
	// notice that the next one was as well, and of the run that ended with that.
	CodeEmptyAnswer = "empty_answer"
	// CodeBadOutput is that of an answer that was discarded because it had not the form
	// that its agent's answers have, and of the run that ended with that.
	CodeBadOutput = "bad_output"
	// CodeAnticipated is that of the discard of an answer that was asked for before a transfer which was not made so.
	CodeAnticipated = "anticipated"
	// CodeTripwire is that of the error event of a turn that a guard ended, and of the
	// discard that takes back the words which it refused.
	CodeTripwire = "tripwire"
	// CodeToolFailed is that of a tool node's run whose tool failed.
	CodeToolFailed = "tool_failed"
	// CodeToolRefused is that of a tool node's run whose call was not made, because it was
	// denied or cannot be made, or was interrupted with an unknown outcome. No strategy
	// makes the call again.
	CodeToolRefused = "tool_refused"
)
