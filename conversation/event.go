package conversation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/plainjson"
)

// received is the part of an event that the reducer reads, from an event.Event or from JSON.
type received struct {
	kind        string // the type, also of events that make no node
	id          string
	runID       string
	parentID    string
	agent, path string
	seq         int64
	time        time.Time
	partial     bool

	// The payload is in data for an event.Event. For JSON it is in fields, with the names of payloadFields.
	data   event.Data
	fields []field

	relayID  string   // of relay_resolved
	approved bool     // of relay_resolved
	ids      []string // of discard
	void     bool     // of a notice that the run was adopted
}

// field is one member of a JSON object.
type field struct {
	name  string
	value json.RawMessage
}

// lookup returns the value of a member, or nil. If a name occurs twice, the last one counts, as in JavaScript.
func lookup(fields []field, name string) json.RawMessage {
	for _, f := range slices.Backward(fields) {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// ofEvent reads an event.Event. It shares the payload, because delivered events are immutable.
func ofEvent(e *event.Event) received {
	in := received{kind: e.Type(), id: e.ID, runID: e.RunID, parentID: e.ParentID, agent: e.Agent, path: e.Path,
		seq: e.Seq, time: e.Time, partial: e.Partial, data: e.Data}
	switch d := e.Data.(type) {
	case *event.RelayResolved:
		in.relayID, in.approved = d.RelayID, d.Approved
	case *event.Discard:
		in.ids = d.IDs
	case *event.Notice:
		in.void = d.Code == event.NoticeAdopted
	}
	return in
}

// maxDepth is the maximum number of levels of a stored event: those of a payload's JSON, inside the event and an
// object.
const maxDepth = event.MaxDepth + 2

// ofJSON reads an event from one JSON object. It ignores members of the wrong type. An event that is nested deeper than
// maxDepth becomes one of a type without nodes.
func ofJSON(line []byte) (received, error) {
	var in received
	if event.Deeper(line, maxDepth) {
		return in, nil
	}
	members, err := object(line)
	if err != nil {
		return in, err
	}
	str := func(name string) string { return unquote(lookup(members, name)) }
	in.kind = str("type")
	in.id, in.runID, in.parentID = str("id"), str("runId"), str("parentId")
	in.agent, in.path = str("agent"), str("path")
	if n, err := strconv.ParseInt(string(lookup(members, "seq")), 10, 54); err == nil { // a safe integer, as in JavaScript
		in.seq = n
	}
	in.time, _ = time.Parse(time.RFC3339Nano, str("time"))
	in.partial = string(lookup(members, "partial")) == "true"
	switch in.kind {
	case event.TypeRelayResolved:
		in.relayID, in.approved = str("relayId"), string(lookup(members, "approved")) == "true"
	case event.TypeDiscard:
		var ids []json.RawMessage
		_ = json.Unmarshal(lookup(members, "ids"), &ids)
		for _, raw := range ids {
			in.ids = append(in.ids, unquote(raw))
		}
	case event.TypeNotice:
		in.void = str("code") == event.NoticeAdopted
	default:
		for _, name := range payloadFields(in.kind) {
			if value := lookup(members, name); value != nil {
				in.fields = append(in.fields, field{name, compact(value)}) // a copy, because the line belongs to the caller
			}
		}
	}
	return in, nil
}

// object splits a JSON object into its members.
func object(line []byte) ([]field, error) {
	members, err := plainjson.Members(line)
	if err != nil {
		return nil, fmt.Errorf("conversation: the event is not a JSON object: %w", err)
	}
	fields := make([]field, len(members))
	for i, m := range members {
		fields[i] = field{m.Name, m.Value}
	}
	return fields, nil
}

// compact returns a copy of valid JSON without spaces between values. Invalid UTF-8 becomes U+FFFD.
func compact(raw json.RawMessage) json.RawMessage {
	var buf bytes.Buffer
	buf.Grow(len(raw))
	_ = json.Compact(&buf, raw) // without an error, because raw is valid
	if !utf8.Valid(buf.Bytes()) {
		return bytes.ToValidUTF8(buf.Bytes(), []byte("\ufffd"))
	}
	return buf.Bytes()
}

// piece returns the text of a text or reasoning event as the inside of a JSON string.
func (e *received) piece() []byte {
	switch d := e.data.(type) {
	case *event.Text:
		return inside(quote(d.Content))
	case *event.Reasoning:
		return inside(quote(d.Content))
	}
	if raw := lookup(e.fields, "content"); len(raw) > 0 && raw[0] == '"' {
		return inside(raw)
	}
	return nil
}

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
