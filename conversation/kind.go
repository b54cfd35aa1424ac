package conversation

import "github.com/agentarbor/arbor/agent"

// Kind says what a node is. Its values are those of the events' types.
type Kind string

// The kinds of nodes.
const (
	KindUser         Kind = agent.TypeUser
	KindHarnessStart Kind = agent.TypeHarnessStart
	KindHarnessEnd   Kind = agent.TypeHarnessEnd
	KindText         Kind = agent.TypeText
	KindReasoning    Kind = agent.TypeReasoning
	KindToolCall     Kind = agent.TypeToolCall
	KindToolProgress Kind = agent.TypeToolProgress
	KindToolResult   Kind = agent.TypeToolResult
	KindRelay        Kind = agent.TypeRelay
	KindUsage        Kind = agent.TypeUsage
	KindError        Kind = agent.TypeError
)

// payloadFields returns the fields of a payload that its node keeps, by the
// names that events use; nil if the type makes no node.
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
	}
	return false
}

// isBlock reports whether several events of one id make one node of this kind.
func (k Kind) isBlock() bool { return k == KindText || k == KindReasoning }

// newPayload returns an empty payload of the kind, nil if there is none.
func newPayload(k Kind) agent.EventData {
	switch k {
	case KindUser:
		return &agent.User{}
	case KindHarnessStart:
		return &agent.HarnessStart{}
	case KindHarnessEnd:
		return &agent.HarnessEnd{}
	case KindText:
		return &agent.Text{}
	case KindReasoning:
		return &agent.Reasoning{}
	case KindToolCall:
		return &agent.ToolCall{}
	case KindToolProgress:
		return &agent.ToolProgress{}
	case KindToolResult:
		return &agent.ToolResult{}
	case KindRelay:
		return &agent.Relay{}
	case KindUsage:
		return &agent.Usage{}
	case KindError:
		return &agent.Failure{}
	}
	return nil
}

// nodeField is the name of a payload's field in a node, where "kind" is taken.
func nodeField(k Kind, name string) string {
	if k == KindRelay && name == "kind" {
		return "relayKind"
	}
	return name
}
