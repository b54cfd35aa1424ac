package conversation

import "github.com/agentarbor/arbor/event"

// payloadFields returns the names of the payload's fields that a node keeps, or nil for a type without nodes.
func payloadFields(k string) []string {
	switch k {
	case event.TypeUser:
		return []string{"content", "metadata"}
	case event.TypeHarnessStart:
		return []string{"agentId", "input"}
	case event.TypeHarnessEnd:
		return []string{"agentId", "finishReason", "target", "output"}
	case event.TypeText, event.TypeReasoning:
		return []string{"content"}
	case event.TypeToolCall:
		return []string{"name", "input"}
	case event.TypeToolProgress:
		return []string{"toolCallId", "name", "content"}
	case event.TypeToolResult:
		return []string{"name", "output", "isError"}
	case event.TypeRelay:
		return []string{"kind", "toolCallId", "tool", "params"}
	case event.TypeUsage:
		return []string{"inputTokens", "outputTokens", "cachedTokens", "model"}
	case event.TypeError:
		return []string{"code", "message", "retryable"}
	case event.TypeRelayResolved, event.TypeDiscard: // change a node
	case event.TypeTransfer, event.TypeRoute, event.TypeHandoffStatus, event.TypeState, event.TypeFile, event.TypeRemoteTask, event.TypeCompaction, event.TypeNotice: // are not in the graph
	}
	return nil
}

// makesNode reports whether events of the type make nodes.
func makesNode(k string) bool { return payloadFields(k) != nil }

// isBlock reports whether several events with one id make one node of this kind.
func isBlock(k string) bool { return k == event.TypeText || k == event.TypeReasoning }
