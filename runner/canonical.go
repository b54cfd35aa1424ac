package runner

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/agentarbor/arbor/agent"
)

// canonical returns a payload as it comes back from its JSON form, so that a
// session that is warm and one that is read from a store show models and tools
// the same: raw JSON without spaces, text that is valid UTF-8, state of JSON's
// own types. The payload given is not changed, because an agent may yield one
// value many times.
func canonical(data agent.EventData) agent.EventData {
	asStored := true
	switch d := data.(type) {
	case *agent.Usage, *agent.User: // a user's message was checked when the turn began
	case *agent.Text: // as its deltas were shown
		if d != nil && !utf8.ValidString(d.Content) {
			return &agent.Text{Content: validText(d.Content)}
		}
	case *agent.Reasoning:
		if d != nil && !utf8.ValidString(d.Content) {
			return &agent.Reasoning{Content: validText(d.Content)}
		}
	case *agent.ToolCall:
		asStored = d == nil || utf8.ValidString(d.Name) && isCompact(d.Input)
	case *agent.ToolResult:
		asStored = d == nil || utf8.ValidString(d.Name) && isCompact(d.Output)
	case *agent.Transfer:
		asStored = d == nil || d.RouteDecision == nil && d.GraphPath == nil && isCompact(d.Payload) &&
			utf8.ValidString(d.From) && utf8.ValidString(d.To) && utf8.ValidString(d.Reason) && utf8.ValidString(d.ToolCallID)
	case *agent.HarnessStart:
		asStored = d == nil || utf8.ValidString(d.AgentID) && isCompact(d.Input)
	case *agent.HarnessEnd:
		asStored = d == nil || utf8.ValidString(d.AgentID) && utf8.ValidString(d.Target) && isCompact(d.Output)
	case *agent.RemoteTask:
		asStored = d == nil || d.Usage == nil && utf8.ValidString(d.TaskID) && utf8.ValidString(d.ContextID) &&
			utf8.ValidString(d.Status) && utf8.ValidString(d.URL)
	case *agent.State:
		if d != nil {
			delta := make(map[string]any, len(d.Delta))
			for key, value := range d.Delta {
				delta[validText(key)] = jsonValue(value)
			}
			return &agent.State{Delta: delta}
		}
	default: // what is rare
		asStored = false
	}
	if asStored {
		return data
	}
	return readBack(data)
}

// readBack returns a payload of a type that is rare as a store would give it back. One
// that has no JSON form stays as it is; the store will refuse it.
func readBack(data agent.EventData) agent.EventData {
	var back agent.Event
	if b, err := (&agent.Event{Data: data}).MarshalJSON(); err != nil || back.UnmarshalJSON(b) != nil {
		return data
	}
	return back.Data
}

func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// isCompact reports whether raw JSON is valid UTF-8 and free of spaces outside
// strings.
func isCompact(raw json.RawMessage) bool {
	inString := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == ' ' || c == '\n' || c == '\r' || c == '\t'):
			return false
		}
	}
	return utf8.Valid(raw)
}

// compact leaves what is no JSON at all as it is; the store will refuse it.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, bytes.ToValidUTF8(raw, []byte("\uFFFD"))) != nil {
		return raw
	}
	return b.Bytes()
}

func jsonValue(v any) any {
	switch v := v.(type) {
	case nil, bool:
		return v
	case string:
		return validText(v)
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v
		}
	}
	return agent.StoredValue(agent.EncodeJSON(v))
}
