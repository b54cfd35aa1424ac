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
	switch d := data.(type) {
	case *agent.Text:
		if d != nil && !utf8.ValidString(d.Content) {
			return &agent.Text{Content: validText(d.Content)}
		}
	case *agent.Reasoning:
		if d != nil && !utf8.ValidString(d.Content) {
			return &agent.Reasoning{Content: validText(d.Content)}
		}
	case *agent.ToolCall:
		if d != nil && !isCompact(d.Input) {
			c := *d
			c.Input = compact(d.Input)
			return &c
		}
	case *agent.ToolResult:
		if d != nil && !isCompact(d.Output) {
			c := *d
			c.Output = compact(d.Output)
			return &c
		}
	case *agent.ToolProgress:
		if d != nil && !isCompact(d.Content) {
			c := *d
			c.Content = compact(d.Content)
			return &c
		}
	case *agent.HarnessStart:
		if d != nil && !isCompact(d.Input) {
			c := *d
			c.Input = compact(d.Input)
			return &c
		}
	case *agent.HarnessEnd:
		if d != nil && !isCompact(d.Output) {
			c := *d
			c.Output = compact(d.Output)
			return &c
		}
	case *agent.Relay:
		if d != nil && !isCompact(d.Params) {
			c := *d
			c.Params = compact(d.Params)
			return &c
		}
	case *agent.Transfer:
		if d != nil && (!utf8.ValidString(d.Reason) || !isCompact(d.Payload) || !isCompact(d.RouteDecision)) {
			c := *d
			c.Reason, c.Payload, c.RouteDecision = validText(d.Reason), compact(d.Payload), compact(d.RouteDecision)
			return &c
		}
	case *agent.Notice:
		if d != nil && !utf8.ValidString(d.Message) {
			return &agent.Notice{Code: d.Code, Message: validText(d.Message)}
		}
	case *agent.Failure:
		if d != nil && !utf8.ValidString(d.Message) {
			return &agent.Failure{Code: d.Code, Message: validText(d.Message), Retryable: d.Retryable}
		}
	case *agent.State:
		if d != nil {
			delta := make(map[string]any, len(d.Delta))
			for key, value := range d.Delta {
				delta[validText(key)] = jsonValue(value)
			}
			return &agent.State{Delta: delta}
		}
	}
	return data
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
