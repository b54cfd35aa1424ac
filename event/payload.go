package event

import (
	"encoding/json"
	"strings"

	"github.com/agentarbor/arbor/llm"
)

// Data is the payload of an event: a pointer to one of the types of this file. The set
// is closed.
//
// A new type of event that is stored needs a struct, a name, an entry in stored, and the two
// methods here. Tests name the pages and the renderers that have to know it.
type Data interface {
	// EventType is the value of the JSON field "type".
	EventType() string
	eventData()
}

// stored are the payloads that have a JSON form. What is not among them is read as [Unknown].
var stored = [...]struct {
	name  string
	empty func() Data
}{
	{TypeUser, empty[User]},
	{TypeHarnessStart, empty[HarnessStart]},
	{TypeText, empty[Text]},
	{TypeReasoning, empty[Reasoning]},
	{TypeToolCall, empty[ToolCall]},
	{TypeToolProgress, empty[ToolProgress]},
	{TypeToolResult, empty[ToolResult]},
	{TypeRelay, empty[Relay]},
	{TypeRelayResolved, empty[RelayResolved]},
	{TypeTransfer, empty[Transfer]},
	{TypeRoute, empty[Route]},
	{TypeHandoffStatus, empty[HandoffStatus]},
	{TypeState, empty[State]},
	{TypeFile, empty[File]},
	{TypeUsage, empty[Usage]},
	{TypeRemoteTask, empty[RemoteTask]},
	{TypeCompaction, empty[Compaction]},
	{TypeNotice, empty[Notice]},
	{TypeDiscard, empty[Discard]},
	{TypeError, empty[Failure]},
	{TypeHarnessEnd, empty[HarnessEnd]},
}

// Types returns the types of events that are stored, the values of the JSON field "type".
func Types() []string {
	names := make([]string, len(stored))
	for i := range stored {
		names[i] = stored[i].name
	}
	return names
}

// New returns an empty payload of a type that is stored, nil if there is no such type.
func New(typ string) Data {
	for i := range stored {
		if stored[i].name == typ {
			return stored[i].empty()
		}
	}
	return nil
}

func empty[T any, P interface {
	*T
	Data
}]() Data {
	return P(new(T))
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
	// User is what the user said.
	User struct {
		Content  llm.Content    `json:"content"`
		Metadata map[string]any `json:"metadata,omitempty"`
	}
	// HarnessStart opens a run. Input is what an inner scope has instead of the user's words.
	HarnessStart struct {
		AgentID string          `json:"agentId"`
		Input   json.RawMessage `json:"input,omitempty"`
	}
	// Text is a block of an agent's words, or a delta of one.
	Text struct {
		Content string `json:"content"`
	}
	// Reasoning is a block of a model's thinking, or a delta of one. Sealed is what its
	// endpoint wants to be given back with it, and of no use to anybody else.
	Reasoning struct {
		Content string `json:"content"`
		Sealed  string `json:"sealed,omitempty"`
	}
	// ToolCall is a model's call. Input is always a JSON object; arguments that
	// were none are kept as {"raw": "…"}.
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
	// Relay asks somebody outside: whether a call may run, or for something that a call
	// under way has to know.
	Relay struct {
		// Kind is RelayPermission or RelayInput.
		Kind       string          `json:"kind"`
		ToolCallID string          `json:"toolCallId"`
		Tool       string          `json:"tool"`
		Params     json.RawMessage `json:"params"`
		// Message is what a call asks, and Schema the JSON schema of the answer, nil for
		// words.
		Message string          `json:"message,omitempty"`
		Schema  json.RawMessage `json:"schema,omitempty"`
		// Within are the agents around the one that asks, the conversation's first. The
		// runner fills it in; it is empty for a question of the conversation's own agent.
		Within []string `json:"within,omitempty"`
		// By says who may decide: [ByUser], or the names of the rights that are needed, all of
		// them. If it is empty the server's default applies to a permission, which needs
		// [ByStaff] without one; a question is the user's.
		By []string `json:"by,omitempty"`
		// Digest identifies what is decided: the tool's name and definition, and the
		// arguments. The call runs only if it is still the same.
		Digest string `json:"digest,omitempty"`
		// Client says that the user's client runs the call itself, with Params as its arguments. The
		// answer is the result of the call, a text.
		Client bool `json:"client,omitempty"`
	}
	// RelayResolved is the decision. Content is the answer to a RelayInput that was not
	// declined.
	RelayResolved struct {
		RelayID  string          `json:"relayId"`
		Approved bool            `json:"approved"`
		Reason   string          `json:"reason,omitempty"`
		By       string          `json:"by,omitempty"`
		Content  json.RawMessage `json:"content,omitempty"`
		// Rights are those by which By could decide; [ByUser] is that of the session's user.
		Rights []string `json:"rights,omitempty"`
		// Digest is that of the Relay.
		Digest string `json:"digest,omitempty"`
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
	// Route is a router's decision, or that another agent goes on for one that failed. It
	// is stored in one write with the transfer that it leads to.
	Route struct {
		From string `json:"from"`
		To   string `json:"to"`
		// RuleIndex is the place of the rule that decided, from 0; nil if none matched.
		RuleIndex        *int    `json:"ruleIndex"`
		Reason           string  `json:"reason,omitempty"`
		IntentLabel      string  `json:"intentLabel,omitempty"`
		IntentConfidence float64 `json:"intentConfidence,omitempty"`
		// Sentiment is what was measured of the user's words, from 0 to 1, by its label.
		Sentiment map[string]float64 `json:"sentiment,omitempty"`
		LatencyMs float64            `json:"latencyMs"`
		// GraphPath leads from the outermost router to the target.
		GraphPath []string `json:"graphPath"`
		// Failed says why From gave the conversation up, nil if From is a router.
		Failed *Failure `json:"failed,omitempty"`
	}
	// HandoffStatus is a step of the handoff of a conversation to a person, or news about
	// one under way, which has the status of the step before. Package human says
	// which statuses there are, and which may follow which.
	HandoffStatus struct {
		HandoffID string `json:"handoffId"`
		Status    string `json:"status"`
		// TargetAgent is the person or the queue that the conversation goes to, as the desk
		// calls it; with a final status, the agent of the tree that goes on.
		TargetAgent   string `json:"targetAgent,omitempty"`
		Reason        string `json:"reason,omitempty"`
		QueuePosition *int   `json:"queuePosition,omitempty"`
		// EstimatedWaitTime is in seconds.
		EstimatedWaitTime *float64 `json:"estimatedWaitTime,omitempty"`
		// RouteDecision and GraphPath are those of the router that led here, if one did.
		RouteDecision string   `json:"routeDecision,omitempty"`
		GraphPath     []string `json:"graphPath,omitempty"`
		// UpTo says that the desk has the conversation up to this position of the log.
		UpTo int64 `json:"upTo,omitempty"`
		// DeskEventID is the id of the desk's word that it comes from, if it does.
		DeskEventID string `json:"deskEventId,omitempty"`
	}
	// State changes the session's state: a null deletes its key. Keys that begin
	// with "turn:", "user:" or "app:" belong to those scopes, others to the session.
	State struct {
		Delta map[string]any `json:"delta"`
	}
	// File names a file that an agent or a tool has made. Its bytes are kept beside the
	// log, see session.Blobs, and are there before the event is.
	File struct {
		// Name is one element of a path, such as report.pdf. Two files of a session may
		// have the same; the later one is meant then.
		Name      string `json:"name"`
		MediaType string `json:"mediaType"`
		// Size is the number of bytes.
		Size int64 `json:"size"`
		// Digest names the bytes: "sha256:" and 64 hexadecimal digits.
		Digest string `json:"digest,omitempty"`
		// URL is where the file is if nobody has its bytes here, which are not fetched: a
		// remote agent's. It takes the place of the digest, and the size is 0.
		URL string `json:"url,omitempty"`
		// ToolCallID is the call that has made it, "" if the agent did so itself.
		ToolCallID string `json:"toolCallId,omitempty"`
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
	// Compaction is the summary that replaces all events up to UpTo in the
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
	// Discard voids a model attempt: drop the deltas with these ids. Usage is
	// what the attempt used, if the endpoint said so.
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

// The kinds of questions of a Relay.
const (
	RelayPermission = "permission"
	RelayInput      = "input"
)

// Who may decide, in the By of a [Relay], besides the names of rights that a server defines.
const (
	ByUser  = "user"    // the user of the session
	ByStaff = "approve" // callers with this right
)

// IsRight reports whether a name can be that of a right: a word of at most 32 lower-case
// letters, digits, "_" and "-" that begins with a letter and is not [ByUser].
func IsRight(name string) bool {
	bad := func(c rune) bool { return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-') }
	return name != "" && len(name) <= 32 && name != ByUser && name[0] >= 'a' && name[0] <= 'z' && !strings.ContainsFunc(name, bad)
}

// Control values: an agent yields one as its last event to say what comes next.
// They are not stored and not delivered.
type (
	// Continue asks the runner for another step of the same run.
	Continue struct{}
	// Finish ends the run with a reason and, for workflows, an output.
	Finish struct {
		Reason FinishReason
		Output json.RawMessage
	}
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
func (*Route) EventType() string         { return TypeRoute }
func (*HandoffStatus) EventType() string { return TypeHandoffStatus }
func (*State) EventType() string         { return TypeState }
func (*File) EventType() string          { return TypeFile }
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
func (*Route) eventData()         {}
func (*HandoffStatus) eventData() {}
func (*State) eventData()         {}
func (*File) eventData()          {}
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
