package analytics

import (
	"encoding/json"
	"time"
)

// The types of events. The first six concern graphs, in the order of the package comment.
const (
	TypeGraphEntered        = "agent_graph_entered"
	TypeRouted              = "agent_routed"
	TypeSpecialistStarted   = "agent_specialist_started"
	TypeSpecialistCompleted = "agent_specialist_completed"
	TypeSpecialistFailed    = "agent_specialist_failed"
	TypeGraphExited         = "agent_graph_exited"

	TypeMessageReceived   = "message_received"   // from the user
	TypeMessageSent       = "message_sent"       // one text for the user
	TypeApprovalRequested = "approval_requested" // a call waits for a decision
	TypeApprovalResolved  = "approval_resolved"
	TypeHandoffStatus     = "handoff_status" // a step of a handoff to a person, or news about it
	TypeDropped           = "events_dropped" // this number of events before this one was lost
)

// The outcomes of a graph.
const (
	OutcomeSpecialist = "specialist" // an agent answered, asked a question, or transferred the conversation out of the graph
	OutcomeHuman      = "human"      // a person took the conversation
	OutcomeFailed     = "failed"     // it ended with an error
	OutcomeCancelled  = "cancelled"  // it was cancelled
)

// CodeCanceled is the code of a specialist that was cancelled with its turn.
const CodeCanceled = "canceled"

// Event is one event of analytics. Its JSON is one flat object. The comment of a field lists in parentheses the types
// that have it. Times are in milliseconds if the name says so.
type Event struct {
	Type      string    `json:"type"`
	SessionID string    `json:"sessionId,omitempty"`
	TurnID    string    `json:"turnId,omitempty"`
	Timestamp time.Time `json:"timestamp"`         // the time in the log, by the runner's clock
	GraphID   string    `json:"graphId,omitempty"` // the name of the outermost router, also in other events within a graph
	Scope     string    `json:"scope,omitempty"`   // the inner conversation of an agent that a tool or a workflow runs
	Resumed   bool      `json:"resumed,omitempty"` // the turn was started before (entered)

	// The decision of a router; see [event.Route]. The JSON always has RuleIndex, which is null if no rule matched, and
	// LatencyMs. (routed; Reason and GraphPath also: handoff_status)
	From             string             `json:"from,omitempty"`
	To               string             `json:"to,omitempty"`
	RuleIndex        *int               `json:"ruleIndex,omitempty"`
	Reason           string             `json:"reason,omitempty"`
	IntentLabel      string             `json:"intentLabel,omitempty"`
	IntentConfidence float64            `json:"intentConfidence,omitempty"`
	Sentiment        map[string]float64 `json:"sentiment,omitempty"`
	LatencyMs        float64            `json:"latencyMs,omitempty"`
	// GraphPath is the path from the outermost router to the target, or to the last active agent. (routed, exited)
	GraphPath []string `json:"graphPath,omitempty"`

	// SpecialistID is the specialist's name, also in other events during its run. The other two are those of a remote
	// agent. (started, completed, failed)
	SpecialistID string `json:"specialistId,omitempty"`
	AgentCardURL string `json:"agentCardUrl,omitempty"` // without user, password and query
	TaskID       string `json:"taskId,omitempty"`       // (started: if it is the remote agent's first message)
	// DurationMs is the time since the start of the specialist, or the entry into the graph. (completed, failed,
	// exited)
	DurationMs *float64 `json:"durationMs,omitempty"`
	// FirstEventMs is the time to the specialist's first text or reasoning, including deltas; nil without any.
	// EventCount is the number of its events in the log, without those of inner scopes. (completed, failed)
	FirstEventMs *float64 `json:"firstEventMs,omitempty"`
	EventCount   int      `json:"eventCount,omitempty"`
	FinishReason string   `json:"finishReason,omitempty"` // see [event.FinishReason]. (completed)
	Code         string   `json:"code,omitempty"`         // of the error. (failed; exited after an error)
	Message      string   `json:"message,omitempty"`      // of the error, like Code
	Retryable    *bool    `json:"retryable,omitempty"`    // of the error, like Code
	Outcome      string   `json:"outcome,omitempty"`      // one of the Outcome constants (exited)

	ID         string `json:"id,omitempty"`    // of the message, the question or the handoff
	Agent      string `json:"agent,omitempty"` // the agent of the message or the question
	Size       *int   `json:"size,omitempty"`  // the length of the text in bytes (message_received, message_sent)
	Text       string `json:"text,omitempty"`  // the text, or the reason of the decision; only with [WithTexts]
	Tool       string `json:"tool,omitempty"`  // (approval_requested)
	ToolCallID string `json:"toolCallId,omitempty"`
	Approved   *bool  `json:"approved,omitempty"` // (approval_resolved)
	By         string `json:"by,omitempty"`

	// See [event.HandoffStatus]. (handoff_status)
	Status            string   `json:"status,omitempty"`
	TargetAgent       string   `json:"targetAgent,omitempty"`
	QueuePosition     *int     `json:"queuePosition,omitempty"`
	EstimatedWaitTime *float64 `json:"estimatedWaitTime,omitempty"` // in seconds
	RouteDecision     string   `json:"routeDecision,omitempty"`

	Dropped uint64 `json:"dropped,omitempty"` // the number of lost events (events_dropped)
}

// MarshalJSON implements json.Marshaler.
func (e Event) MarshalJSON() ([]byte, error) {
	type plain Event
	if e.Type != TypeRouted {
		return json.Marshal(plain(e))
	}
	return json.Marshal(struct {
		plain
		RuleIndex *int    `json:"ruleIndex"`
		LatencyMs float64 `json:"latencyMs"`
	}{plain(e), e.RuleIndex, e.LatencyMs})
}
