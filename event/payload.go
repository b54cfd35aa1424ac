package event

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/agentarbor/arbor/llm"
)

// Data is the payload of an event: a pointer to one of the types in this file. Other packages cannot implement it.
//
// A new type of stored event needs a struct, a name, an entry in stored, and the method below. Tests name the
// pages and renderers that must know it.
type Data interface {
	// eventType returns the value of the JSON field "type".
	eventType() string
}

// stored lists the payloads that have a JSON form. An event of another type is read as [Unknown].
var stored = [...]Data{
	(*User)(nil),
	(*HarnessStart)(nil),
	(*Text)(nil),
	(*Reasoning)(nil),
	(*ToolCall)(nil),
	(*ToolProgress)(nil),
	(*ToolResult)(nil),
	(*Relay)(nil),
	(*RelayResolved)(nil),
	(*Transfer)(nil),
	(*Route)(nil),
	(*HandoffStatus)(nil),
	(*State)(nil),
	(*File)(nil),
	(*Usage)(nil),
	(*RemoteTask)(nil),
	(*Compaction)(nil),
	(*Notice)(nil),
	(*Discard)(nil),
	(*Failure)(nil),
	(*HarnessEnd)(nil),
}

// Types returns the types of stored events: the values of the JSON field "type".
func Types() []string {
	names := make([]string, len(stored))
	for i, d := range stored {
		names[i] = d.eventType()
	}
	return names
}

// New returns an empty payload of a stored type, or nil if the type is unknown.
func New(typ string) Data {
	for _, d := range stored {
		if d.eventType() == typ {
			return reflect.New(reflect.TypeOf(d).Elem()).Interface().(Data)
		}
	}
	return nil
}

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
	TypeRoute         = "route"
	TypeHandoffStatus = "handoff_status"
	TypeState         = "state"
	TypeFile          = "file"
	TypeUsage         = "usage"
	TypeRemoteTask    = "remote_task"
	TypeCompaction    = "compaction"
	TypeNotice        = "notice"
	TypeDiscard       = "discard"
	TypeError         = "error"
	TypeHarnessEnd    = "harness_end"
)

type (
	// User is the user's message. It starts a turn.
	User struct {
		Content  llm.Content    `json:"content"`
		Metadata map[string]any `json:"metadata,omitempty"`
	}
	// HarnessStart is the start of a run. Input is the input of an inner scope, which has no user's message.
	HarnessStart struct {
		AgentID string          `json:"agentId"`
		Input   json.RawMessage `json:"input,omitempty"`
	}
	// Text is a block of an agent's text, or a delta of one.
	Text struct {
		Content string `json:"content"`
	}
	// Reasoning is a block of a model's reasoning, or a delta of one. Sealed is data that only the endpoint
	// understands, and that it needs back with the block.
	Reasoning struct {
		Content string `json:"content"`
		Sealed  string `json:"sealed,omitempty"`
	}
	// ToolCall is a model's request to call a tool. Input is always a JSON object. Arguments that are not an object
	// become {"raw": "…"}.
	ToolCall struct {
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	// ToolProgress is a report of a running tool.
	ToolProgress struct {
		ToolCallID string          `json:"toolCallId"`
		Name       string          `json:"name"`
		Content    json.RawMessage `json:"content"`
	}
	// ToolResult is the result of the call that has the event's id.
	ToolResult struct {
		Name    string          `json:"name"`
		Output  json.RawMessage `json:"output"`
		IsError bool            `json:"isError,omitempty"`
	}
	// Relay is a question to a person or a client: whether a call may run (an approval request), or for information
	// that a running call needs.
	Relay struct {
		// Kind is RelayPermission or RelayInput.
		Kind       string          `json:"kind"`
		ToolCallID string          `json:"toolCallId"`
		Tool       string          `json:"tool"`
		Params     json.RawMessage `json:"params"`
		// Message is the question of a call. Schema is the JSON schema of the answer, nil if the answer is a text.
		Message string          `json:"message,omitempty"`
		Schema  json.RawMessage `json:"schema,omitempty"`
		// Within are the agents around the agent that asks, starting with the conversation's. The runner sets it. It
		// is empty for a question of the conversation's own agent.
		Within []string `json:"within,omitempty"`
		// By says who may answer: [ByUser], or the names of the rights that a caller needs, all of them. If it is
		// empty, the server's default applies to a permission; without one, it needs [ByStaff]. Other questions are
		// then for the user.
		By []string `json:"by,omitempty"`
		// Digest identifies what is approved: the tool's name and definition, and the arguments. The call runs only
		// if they are unchanged.
		Digest string `json:"digest,omitempty"`
		// Client reports that the user's client runs the call itself, with Params as its arguments. The answer is the
		// result of the call, a text.
		Client bool `json:"client,omitempty"`
	}
	// RelayResolved is the answer to a Relay. Content is the answer to a RelayInput that was not declined.
	RelayResolved struct {
		RelayID  string          `json:"relayId"`
		Approved bool            `json:"approved"`
		Reason   string          `json:"reason,omitempty"`
		By       string          `json:"by,omitempty"`
		Content  json.RawMessage `json:"content,omitempty"`
		// Rights are the rights that allowed By to answer. [ByUser] stands for the session's user.
		Rights []string `json:"rights,omitempty"`
		// Digest is the Digest of the Relay.
		Digest string `json:"digest,omitempty"`
	}
	// Transfer records a transfer, or an attempt to transfer. Payload is the typed input that a transfer may have. An
	// agent that yields a Transfer with the outcome TransferCommitted or "" transfers the conversation. From is
	// always the agent itself.
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
	// Route is a router's decision, or the choice of another agent to continue for one that failed. It is stored in
	// one write with its transfer.
	Route struct {
		From string `json:"from"`
		To   string `json:"to"`
		// RuleIndex is the index of the rule that decided, from 0. It is nil if no rule matched.
		RuleIndex        *int    `json:"ruleIndex"`
		Reason           string  `json:"reason,omitempty"`
		IntentLabel      string  `json:"intentLabel,omitempty"`
		IntentConfidence float64 `json:"intentConfidence,omitempty"`
		// Sentiment is the measured sentiment of the user's message: a score from 0 to 1 by label.
		Sentiment map[string]float64 `json:"sentiment,omitempty"`
		LatencyMs float64            `json:"latencyMs"`
		// GraphPath contains the agents from the outermost router to the target.
		GraphPath []string `json:"graphPath"`
		// Failed is the failure of From. It is nil if From is a router.
		Failed *Failure `json:"failed,omitempty"`
	}
	// HandoffStatus is a step of the handoff of a conversation to a person. An event with the status of the step
	// before contains news about the current handoff. Package human defines the statuses and their order.
	HandoffStatus struct {
		HandoffID string `json:"handoffId"`
		Status    string `json:"status"`
		// TargetAgent is the person or queue that the conversation goes to, with the desk's name for it. With a final
		// status it is the agent of the tree that continues.
		TargetAgent   string `json:"targetAgent,omitempty"`
		Reason        string `json:"reason,omitempty"`
		QueuePosition *int   `json:"queuePosition,omitempty"`
		// EstimatedWaitTime is the estimated time until a person answers, in seconds.
		EstimatedWaitTime *float64 `json:"estimatedWaitTime,omitempty"`
		// RouteDecision and GraphPath are those of the router that started the handoff, if one did.
		RouteDecision string   `json:"routeDecision,omitempty"`
		GraphPath     []string `json:"graphPath,omitempty"`
		// UpTo is the position of the log up to which the desk has received the conversation.
		UpTo int64 `json:"upTo,omitempty"`
		// DeskEventID is the id of the desk's message that caused the event, if one did.
		DeskEventID string `json:"deskEventId,omitempty"`
	}
	// State changes the session's state. A nil value deletes its key. Keys that start with "turn:", "user:" or "app:"
	// belong to the turn, the user or the app; other keys belong to the session.
	State struct {
		Delta map[string]any `json:"delta"`
	}
	// File describes a file that an agent or a tool created. Its bytes are stored outside the log, before the event;
	// see session.Blobs.
	File struct {
		// Name is one element of a path, such as report.pdf. If two files of a session have the same name, the name
		// means the later one.
		Name      string `json:"name"`
		MediaType string `json:"mediaType"`
		// Size is the number of bytes. It is 0 if URL is set.
		Size int64 `json:"size"`
		// Digest identifies the bytes: "sha256:" and 64 hexadecimal digits.
		Digest string `json:"digest,omitempty"`
		// URL is the address of a remote agent's file whose bytes are not stored here and are not downloaded. It
		// replaces the digest.
		URL string `json:"url,omitempty"`
		// ToolCallID is the call that created the file, or "" if the agent did.
		ToolCallID string `json:"toolCallId,omitempty"`
	}
	// Usage ends every recorded model answer. The numbers are 0 if the endpoint sent no usage, or an implausible one.
	Usage struct {
		InputTokens  int    `json:"inputTokens"`
		OutputTokens int    `json:"outputTokens"`
		CachedTokens int    `json:"cachedTokens,omitempty"`
		Model        string `json:"model,omitempty"`
	}
	// RemoteTask identifies a task that a remote A2A agent runs for the run. Question is the id of the message with
	// which the task asks something, if it does. Usage is the usage of the peer's models, as the peer reports it, with
	// one element for each model. It is not checked, and the operator of the peer pays for it, so it counts against no
	// limit and no budget.
	RemoteTask struct {
		TaskID    string  `json:"taskId"`
		ContextID string  `json:"contextId,omitempty"`
		Status    string  `json:"status,omitempty"`
		Question  string  `json:"question,omitempty"`
		URL       string  `json:"url,omitempty"`
		Usage     []Usage `json:"usage,omitempty"`
	}
	// Compaction is the summary that replaces all events up to UpTo in the view of the event's agent.
	Compaction struct {
		UpTo    int64  `json:"upTo"`
		Summary string `json:"summary"`
	}
	// Notice is a message to people. Models never see it.
	Notice struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	// Discard makes a model's answer void: clients drop the deltas with these ids. Usage is the usage of the answer,
	// nil if the endpoint did not report it.
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
	// HarnessEnd is the end of a run. Target is set if the reason is a transfer. Output is the result that a workflow
	// or a graph needs.
	HarnessEnd struct {
		AgentID      string          `json:"agentId"`
		FinishReason FinishReason    `json:"finishReason"`
		Target       string          `json:"target,omitempty"`
		Output       json.RawMessage `json:"output,omitempty"`
	}
	// Unknown is an event of a type that this version does not know. Raw is a JSON object with the fields of its
	// payload.
	Unknown struct {
		Type string
		Raw  json.RawMessage
	}
)

// The kinds of questions of a Relay.
const (
	RelayPermission = "permission"
	RelayInput      = "input"
)

// Values for the By of a [Relay], in addition to the names of rights that a server defines.
const (
	ByUser  = "user"    // the user of the session
	ByStaff = "approve" // callers with this right
)

// IsRight reports whether a name can be the name of a right: at most 32 lower-case letters, digits, "_" and "-",
// starting with a letter. [ByUser] is not a right.
func IsRight(name string) bool {
	bad := func(c rune) bool { return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-') }
	return name != "" && len(name) <= 32 && name != ByUser && name[0] >= 'a' && name[0] <= 'z' && !strings.ContainsFunc(name, bad)
}

// Control values. An agent yields one of them as its last event to say what comes next.
// The runner neither stores nor delivers them.
type (
	// Continue asks the runner for another step of the same run.
	Continue struct{}
	// Finish ends the run with a reason. Output is the result of a workflow.
	Finish struct {
		Reason FinishReason
		Output json.RawMessage
	}
)

func (*User) eventType() string          { return TypeUser }
func (*HarnessStart) eventType() string  { return TypeHarnessStart }
func (*Text) eventType() string          { return TypeText }
func (*Reasoning) eventType() string     { return TypeReasoning }
func (*ToolCall) eventType() string      { return TypeToolCall }
func (*ToolProgress) eventType() string  { return TypeToolProgress }
func (*ToolResult) eventType() string    { return TypeToolResult }
func (*Relay) eventType() string         { return TypeRelay }
func (*RelayResolved) eventType() string { return TypeRelayResolved }
func (*Transfer) eventType() string      { return TypeTransfer }
func (*Route) eventType() string         { return TypeRoute }
func (*HandoffStatus) eventType() string { return TypeHandoffStatus }
func (*State) eventType() string         { return TypeState }
func (*File) eventType() string          { return TypeFile }
func (*Usage) eventType() string         { return TypeUsage }
func (*RemoteTask) eventType() string    { return TypeRemoteTask }
func (*Compaction) eventType() string    { return TypeCompaction }
func (*Notice) eventType() string        { return TypeNotice }
func (*Discard) eventType() string       { return TypeDiscard }
func (*Failure) eventType() string       { return TypeError }
func (*HarnessEnd) eventType() string    { return TypeHarnessEnd }
func (u *Unknown) eventType() string     { return u.Type }
func (*Continue) eventType() string      { return "continue" }
func (*Finish) eventType() string        { return "finish" }
