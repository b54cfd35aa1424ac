package event

// FinishReason says why a run ended.
type FinishReason string

// The finish reasons of a run.
const (
	FinishReasonStop          FinishReason = "stop"
	FinishReasonTransfer      FinishReason = "transfer"
	FinishReasonInputRequired FinishReason = "input_required"
	FinishReasonLength        FinishReason = "length"
	FinishReasonContentFilter FinishReason = "content_filter"
	FinishReasonLimit         FinishReason = "limit"
	FinishReasonError         FinishReason = "error"
	FinishReasonCanceled      FinishReason = "canceled"
)

// TransferOutcome is the result of an attempt to transfer.
type TransferOutcome string

// The outcomes of a transfer.
const (
	// TransferCommitted: the conversation went to the target.
	TransferCommitted TransferOutcome = "committed"
	// TransferRejected: the target is unknown, not legal or the agent itself, or a limit was reached.
	TransferRejected TransferOutcome = "rejected"
	// TransferConflict: another transfer call of the same answer was committed.
	TransferConflict TransferOutcome = "conflict"
	// TransferFailed: the target is legal but could not start.
	TransferFailed TransferOutcome = "failed"
)
