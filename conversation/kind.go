package conversation

import "github.com/agentarbor/arbor/event"

// Kind is the kind of a node: the type of its events.
type Kind string

// The kinds of nodes.
const (
	KindUser         Kind = event.TypeUser
	KindHarnessStart Kind = event.TypeHarnessStart
	KindHarnessEnd   Kind = event.TypeHarnessEnd
	KindText         Kind = event.TypeText
	KindReasoning    Kind = event.TypeReasoning
	KindToolCall     Kind = event.TypeToolCall
	KindToolProgress Kind = event.TypeToolProgress
	KindToolResult   Kind = event.TypeToolResult
	KindRelay        Kind = event.TypeRelay
	KindUsage        Kind = event.TypeUsage
	KindError        Kind = event.TypeError
)

// payloadFields returns the names of the payload's fields that a node keeps, or nil for a type without nodes.
func payloadFields(k Kind) []string {
	switch k {
	case KindUser:
		return []string{"content", "metadata"}
	case KindHarnessStart:
		return []string{"agentId", "input"}
	case KindHarnessEnd:
		return []string{"agentId", "finishReason", "target", "output"}
	case KindText, KindReasoning:
		return []string{"content"}
	case KindToolCall:
		return []string{"name", "input"}
	case KindToolProgress:
		return []string{"toolCallId", "name", "content"}
	case KindToolResult:
		return []string{"name", "output", "isError"}
	case KindRelay:
		return []string{"kind", "toolCallId", "tool", "params"}
	case KindUsage:
		return []string{"inputTokens", "outputTokens", "cachedTokens", "model"}
	case KindError:
		return []string{"code", "message", "retryable"}
	}
	return nil
}

// makesNode reports whether events of the type make nodes.
func (k Kind) makesNode() bool {
	switch k {
	case KindUser, KindHarnessStart, KindHarnessEnd, KindText, KindReasoning, KindToolCall, KindToolProgress, KindToolResult, KindRelay, KindUsage, KindError:
		return true
	case event.TypeRelayResolved, event.TypeDiscard: // change a node
	case event.TypeTransfer, event.TypeRoute, event.TypeHandoffStatus, event.TypeState, event.TypeFile, event.TypeRemoteTask, event.TypeCompaction, event.TypeNotice: // are not in the graph
	}
	return false
}

// isBlock reports whether several events with one id make one node of this kind.
func (k Kind) isBlock() bool { return k == KindText || k == KindReasoning }

// newPayload returns an empty payload of the kind, or nil for a type without nodes.
func newPayload(k Kind) event.Data {
	if !k.makesNode() {
		return nil
	}
	return event.New(string(k))
}

// nodeField returns the name of a payload's field in the JSON of a node, where "kind" has another meaning.
func nodeField(k Kind, name string) string {
	if k == KindRelay && name == "kind" {
		return "relayKind"
	}
	return name
}
