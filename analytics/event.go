package analytics

import (
	"encoding/json"
	"time"
)

// The types of events. The first six are about graphs, in the order of the package comment.
const (
	TypeGraphEntered        = "agent_graph_entered"
	TypeRouted              = "agent_routed"
	TypeSpecialistStarted   = "agent_specialist_started"
	TypeSpecialistCompleted = "agent_specialist_completed"
	TypeSpecialistFailed    = "agent_specialist_failed"
	TypeGraphExited         = "agent_graph_exited"

	TypeMessageReceived   = "message_received"   // of the user
	TypeMessageSent       = "message_sent"       // one block of words for the user
	TypeApprovalRequested = "approval_requested" // a call waits for somebody's decision
	TypeApprovalResolved  = "approval_resolved"
	TypeHandoffStatus     = "handoff_status" // a step of a handoff to a person, or news about one
	TypeDropped           = "events_dropped" // so many events before this one were lost
)

// The outcomes of a graph.
const (
	OutcomeSpecialist = "specialist" // somebody answered, asked for something, or gave the conversation away
	OutcomeHuman      = "human"      // the conversation went to a person
	OutcomeFailed     = "failed"     // it ended with an error
	OutcomeCancelled  = "cancelled"  // it was cut off
)

// CodeCanceled is the code of a specialist that was cut off together with its turn.
const CodeCanceled = "canceled"

// Event is one event of analytics. Its JSON is one flat object; which types have a field is said in parentheses. Times
// are in milliseconds where the name says so.
type Event struct {
	Type      string    `json:"type"`
	SessionID string    `json:"sessionId,omitempty"`
	TurnID    string    `json:"turnId,omitempty"`
	Timestamp time.Time `json:"timestamp"`         // the time in the log, by the runner's clock
	GraphID   string    `json:"graphId,omitempty"` // the outermost router's name, also in other events within a graph
	Scope     string    `json:"scope,omitempty"`   // the inner conversation of an agent that a tool or a workflow runs
	Resumed   bool      `json:"resumed,omitempty"` // the turn was begun before. (entered)

	// What a router has decided; see [event.Route]. In JSON RuleIndex, null if no rule matched, and LatencyMs are
	// always there. (routed; Reason and GraphPath also: handoff_status)
	From             string             `json:"from,omitempty"`
	To               string             `json:"to,omitempty"`
	RuleIndex        *int               `json:"ruleIndex,omitempty"`
	Reason           string             `json:"reason,omitempty"`
	IntentLabel      string             `json:"intentLabel,omitempty"`
	IntentConfidence float64            `json:"intentConfidence,omitempty"`
	Sentiment        map[string]float64 `json:"sentiment,omitempty"`
	LatencyMs        float64            `json:"latencyMs,omitempty"`
	// GraphPath leads from the outermost router to the target, or to who had the conversation last. (routed, exited)
	GraphPath []string `json:"graphPath,omitempty"`

	// SpecialistID is its name, also in other events that happen while it runs. The other two are those of a remote
	// one. (started, completed, failed)
	SpecialistID string `json:"specialistId,omitempty"`
	AgentCardURL string `json:"agentCardUrl,omitempty"` // without user, password and query
	TaskID       string `json:"taskId,omitempty"`       // (started: if the peer names it first of all)
	// DurationMs is since the specialist was started, or the graph entered. (completed, failed, exited)
	DurationMs *float64 `json:"durationMs,omitempty"`
	// FirstEventMs is the time to its first words or thoughts, deltas included; nil without any. EventCount is of the
	// log, without those of inner scopes. (completed, failed)
	FirstEventMs *float64 `json:"firstEventMs,omitempty"`
	EventCount   int      `json:"eventCount,omitempty"`
	FinishReason string   `json:"finishReason,omitempty"` // see [event.FinishReason]. (completed)
	Code         string   `json:"code,omitempty"`         // of the error. (failed; exited after an error)
	Message      string   `json:"message,omitempty"`      // likewise
	Retryable    *bool    `json:"retryable,omitempty"`    // likewise
	Outcome      string   `json:"outcome,omitempty"`      // one of those above. (exited)

	ID         string `json:"id,omitempty"`    // of the message, the question or the handoff
	Agent      string `json:"agent,omitempty"` // whose message or question it is
	Size       *int   `json:"size,omitempty"`  // of the words in bytes. (message_received, message_sent)
	Text       string `json:"text,omitempty"`  // what was said, or why decided so; with [WithTexts] only
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

	Dropped uint64 `json:"dropped,omitempty"` // how many events. (events_dropped)
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
