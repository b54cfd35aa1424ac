package agent

import (
	"encoding/json"
	"time"

	"github.com/agentarbor/arbor/llm"
)

// Event is one entry of a session's log, or a streamed delta on its way to it.
// Its JSON form is one flat object in camel case; see docs/events.md.
//
// An agent that yields an event sets Data, and ID, Partial, Attempt and More
// where they matter; the runner fills in the rest. After delivery an event and
// its payload are immutable.
type Event struct {
	// Seq is the position in the session's log, from 1 without gaps; 0 on
	// partial events, which are never stored.
	Seq int64
	// ID is unique in the session. All deltas of one block of text share the id
	// of the block; a tool call and its result share the call's id.
	ID string
	// TurnID names the user's turn, RunID one activation of one agent, Scope the
	// inner conversation the run belongs to (empty for the user's own).
	TurnID, RunID, Scope string
	// ParentID, on a run's first event only, names the node that caused the run.
	ParentID string
	// Agent is the name of who speaks; Path its place in the tree (support/billing).
	Agent, Path string
	// Time is when the event was recorded, in UTC.
	Time time.Time
	// Partial marks a delta of the model attempt Attempt.
	Partial bool
	Attempt int
	// Streamed says that a runner has delivered deltas of this whole block before. It is
	// neither stored nor in JSON.
	Streamed bool
	// More joins the event to the next one: both are stored in one atomic write,
	// or neither. It never appears in JSON.
	More bool
	// Data is the payload.
	Data EventData
}

// EventData is the payload of an event: one of the pointer types of this
// package that have an EventType method. The set is closed.
type EventData interface {
	// EventType is the value of the JSON field "type".
	EventType() string
	eventData()
}

type (
	// User is what the user said.
	User struct {
		Content  llm.Content    `json:"content"`
		Metadata map[string]any `json:"metadata,omitempty"`
	}
	// HarnessStart opens a run. Input stands in for the user in an inner scope.
	HarnessStart struct {
		AgentID string          `json:"agentId"`
		Input   json.RawMessage `json:"input,omitempty"`
	}
	// Text is a block of an agent's words, or a delta of one.
	Text struct {
		Content string `json:"content"`
	}
	// Reasoning is a block of a model's thinking, or a delta of one.
	Reasoning struct {
		Content string `json:"content"`
	}
	// ToolCall is a model's call. Input is always a JSON object; arguments that
	// were none stand in it as {"raw": "…"}.
	ToolCall struct {
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	// ToolProgress is what a running tool reports.
	ToolProgress struct {
		ToolCallID string          `json:"toolCallId"`
		Name       string          `json:"name"`
		Content    json.RawMessage `json:"content"`
	}
	// ToolResult answers the call with the event's id.
	ToolResult struct {
		Name    string          `json:"name"`
		Output  json.RawMessage `json:"output"`
		IsError bool            `json:"isError,omitempty"`
	}
	// Relay asks somebody outside for a decision, such as a permission.
	Relay struct {
		Kind       string          `json:"kind"`
		ToolCallID string          `json:"toolCallId"`
		Tool       string          `json:"tool"`
		Params     json.RawMessage `json:"params"`
	}
	// RelayResolved is the decision.
	RelayResolved struct {
		RelayID  string `json:"relayId"`
		Approved bool   `json:"approved"`
		Reason   string `json:"reason,omitempty"`
		By       string `json:"by,omitempty"`
	}
	// Transfer records a transfer, or an attempt at one. Payload is the typed
	// input that a transfer may carry. An agent that yields one hands over if the
	// outcome is TransferCommitted, or none; From is always the agent itself.
	Transfer struct {
		From          string          `json:"from"`
		To            string          `json:"to"`
		Reason        string          `json:"reason,omitempty"`
		ToolCallID    string          `json:"toolCallId,omitempty"`
		Outcome       TransferOutcome `json:"outcome"`
		Payload       json.RawMessage `json:"payload,omitempty"`
		TransferType  string          `json:"transferType,omitempty"`
		RouteDecision json.RawMessage `json:"routeDecision,omitempty"`
		GraphPath     []string        `json:"graphPath,omitempty"`
	}
	// State changes the session's state: a null deletes its key. Keys that begin
	// with "turn:", "user:" or "app:" belong to those scopes, others to the session.
	State struct {
		Delta map[string]any `json:"delta"`
	}
	// Usage closes every recorded model answer; zeros if the endpoint sent none, or
	// none that can be true.
	Usage struct {
		InputTokens  int    `json:"inputTokens"`
		OutputTokens int    `json:"outputTokens"`
		CachedTokens int    `json:"cachedTokens,omitempty"`
		Model        string `json:"model,omitempty"`
	}
	// RemoteTask is the handle of a task that a remote A2A agent runs for us. Usage is
	// what the peer says its models have used for it, one entry a model. Nobody checks
	// it and whoever runs the peer pays for it, so that no limit and no budget counts it.
	RemoteTask struct {
		TaskID    string  `json:"taskId"`
		ContextID string  `json:"contextId,omitempty"`
		Status    string  `json:"status,omitempty"`
		URL       string  `json:"url,omitempty"`
		Usage     []Usage `json:"usage,omitempty"`
	}
	// Compaction is the summary that stands for all events up to UpTo in the
	// view of the event's agent.
	Compaction struct {
		UpTo    int64  `json:"upTo"`
		Summary string `json:"summary"`
	}
	// Notice tells people something; models never see it.
	Notice struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	// Discard voids a model attempt: the deltas with these ids are to be dropped.
	// Usage is what the attempt used, if the endpoint said so.
	Discard struct {
		Code    string   `json:"code"`
		Message string   `json:"message"`
		IDs     []string `json:"ids,omitempty"`
		Usage   *Usage   `json:"usage,omitempty"`
	}
	// Failure is the payload of an "error" event.
	Failure struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		Retryable bool   `json:"retryable"`
	}
	// HarnessEnd closes a run. Target is set when the reason is a transfer,
	// Output where a workflow or a graph needs it.
	HarnessEnd struct {
		AgentID      string          `json:"agentId"`
		FinishReason FinishReason    `json:"finishReason"`
		Target       string          `json:"target,omitempty"`
		Output       json.RawMessage `json:"output,omitempty"`
	}
	// Unknown keeps an event whose type this version does not know. Raw is a JSON
	// object of its payload's fields.
	Unknown struct {
		Type string
		Raw  json.RawMessage
	}
)

// Control values: an agent yields one as its last event to say what comes next.
// They are neither stored nor delivered.
type (
	// Continue asks the runner for another step of the same run.
	Continue struct{}
	// Finish ends the run with a reason and, for workflows, an output.
	Finish struct {
		Reason FinishReason
		Output json.RawMessage
	}
)

// FinishReason says how a run ended.
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

// TransferOutcome says what became of an attempt to transfer.
type TransferOutcome string

// The outcomes of a transfer.
const (
	// TransferCommitted: the conversation went to the target.
	TransferCommitted TransferOutcome = "committed"
	// TransferRejected: the target is unknown, not allowed, or the agent itself,
	// or a limit forbids it.
	TransferRejected TransferOutcome = "rejected"
	// TransferConflict: another call of the same answer won.
	TransferConflict TransferOutcome = "conflict"
	// TransferFailed: the target is legal but could not start.
	TransferFailed TransferOutcome = "failed"
)

// The values of the JSON field "type".
const (
	TypeUser          = "user"
	TypeHarnessStart  = "harness_start"
	TypeText          = "text"
	TypeReasoning     = "reasoning"
	TypeToolCall      = "tool_call"
	TypeToolProgress  = "tool_progress"
	TypeToolResult    = "tool_result"
	TypeRelay         = "relay"
	TypeRelayResolved = "relay_resolved"
	TypeTransfer      = "transfer"
	TypeState         = "state"
	TypeUsage         = "usage"
	TypeRemoteTask    = "remote_task"
	TypeCompaction    = "compaction"
	TypeNotice        = "notice"
	TypeDiscard       = "discard"
	TypeError         = "error"
	TypeHarnessEnd    = "harness_end"
)

func (*User) EventType() string          { return TypeUser }
func (*HarnessStart) EventType() string  { return TypeHarnessStart }
func (*Text) EventType() string          { return TypeText }
func (*Reasoning) EventType() string     { return TypeReasoning }
func (*ToolCall) EventType() string      { return TypeToolCall }
func (*ToolProgress) EventType() string  { return TypeToolProgress }
func (*ToolResult) EventType() string    { return TypeToolResult }
func (*Relay) EventType() string         { return TypeRelay }
func (*RelayResolved) EventType() string { return TypeRelayResolved }
func (*Transfer) EventType() string      { return TypeTransfer }
func (*State) EventType() string         { return TypeState }
func (*Usage) EventType() string         { return TypeUsage }
func (*RemoteTask) EventType() string    { return TypeRemoteTask }
func (*Compaction) EventType() string    { return TypeCompaction }
func (*Notice) EventType() string        { return TypeNotice }
func (*Discard) EventType() string       { return TypeDiscard }
func (*Failure) EventType() string       { return TypeError }
func (*HarnessEnd) EventType() string    { return TypeHarnessEnd }
func (u *Unknown) EventType() string     { return u.Type }
func (*Continue) EventType() string      { return "continue" }
func (*Finish) EventType() string        { return "finish" }

func (*User) eventData()          {}
func (*HarnessStart) eventData()  {}
func (*Text) eventData()          {}
func (*Reasoning) eventData()     {}
func (*ToolCall) eventData()      {}
func (*ToolProgress) eventData()  {}
func (*ToolResult) eventData()    {}
func (*Relay) eventData()         {}
func (*RelayResolved) eventData() {}
func (*Transfer) eventData()      {}
func (*State) eventData()         {}
func (*Usage) eventData()         {}
func (*RemoteTask) eventData()    {}
func (*Compaction) eventData()    {}
func (*Notice) eventData()        {}
func (*Discard) eventData()       {}
func (*Failure) eventData()       {}
func (*HarnessEnd) eventData()    {}
func (*Unknown) eventData()       {}
func (*Continue) eventData()      {}
func (*Finish) eventData()        {}

// Text returns the words of a text event and "" of any other.
func (e *Event) Text() string {
	if t, ok := e.Data.(*Text); ok {
		return t.Content
	}
	return ""
}

// Visible returns the words for the user that are new with the event, "" if it has none:
// what a delta adds, or a whole text of which no deltas were delivered. What is said in
// inner scopes, of tools and graphs, is not for the user. Words of deltas may still
// be taken back by a [Discard].
func (e *Event) Visible() string {
	if e.Scope != "" || e.Streamed {
		return ""
	}
	return e.Text()
}

// Type returns the payload's type, "" if there is none.
func (e *Event) Type() string {
	if e.Data == nil {
		return ""
	}
	return e.Data.EventType()
}
