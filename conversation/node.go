package conversation

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Node is one node of a graph. It is a copy of what the graph holds; the JSON
// that its methods return must not be changed.
type Node struct {
	// ID is the node's id: the event's for text, reasoning, tool_call,
	// tool_progress and relay, CALL:result for a tool_result, RUN:usage:1 and so on
	// for usage, RUN:TYPE for the others. RUN: precedes an id that another run had
	// first.
	ID    string
	RunID string
	Kind  Kind
	// Agent, Path, Seq and Time are the event's, zero if it had none. Of a block of
	// several deltas they are the first one's until the complete event comes.
	Agent, Path string
	Seq         int64
	Time        time.Time
	// Streaming says that only deltas of this block have come so far.
	Streaming bool

	n *node
}

func (g *Graph) view(place int32) Node {
	n := g.at(place)
	b := n.body
	return Node{ID: n.id, RunID: g.runAt(n.run).id, Kind: b.kind, Agent: b.agent, Path: b.path, Seq: b.seq, Time: b.time,
		Streaming: !n.complete, n: n}
}

// Text returns the words of a text or reasoning node and "" of any other.
func (n Node) Text() string {
	if n.n == nil {
		return ""
	}
	return n.n.text()
}

func (n *node) text() string {
	if !n.body.kind.isBlock() {
		return ""
	}
	if n.words.last != nil {
		return unquote(n.words.json())
	}
	switch d := n.body.data.(type) {
	case *event.Text:
		return d.Content
	case *event.Reasoning:
		return d.Content
	}
	return unquote(lookup(n.body.fields, "content"))
}

// State returns of a relay "approved" or "denied", or "" as long as nobody has
// decided.
func (n Node) State() string {
	if n.n == nil {
		return ""
	}
	switch n.n.relay {
	case relayApproved:
		return "approved"
	case relayDenied:
		return "denied"
	}
	return ""
}

// Data returns the payload. Of a node that was made from JSON, fields of the
// wrong type are zero.
func (n Node) Data() event.Data {
	if n.n == nil {
		return nil
	}
	return n.n.data()
}

func (n *node) data() event.Data {
	b := n.body
	switch {
	case b.kind == KindText && (n.words.last != nil || b.data == nil):
		return &event.Text{Content: n.text()}
	case b.kind == KindReasoning && (n.words.last != nil || b.data == nil):
		return &event.Reasoning{Content: n.text()}
	case b.data != nil:
		return b.data
	}
	data := newPayload(b.kind)
	for _, f := range b.fields {
		var one bytes.Buffer
		writeFields(&one, []field{{f.name, f.value}})
		if json.Unmarshal(one.Bytes(), data) != nil && b.kind == KindUser && f.name == "content" {
			// Content of a form that is not ours is still what the user said.
			data.(*event.User).Content = llm.Content{Text: event.OutputText(f.value)}
		}
	}
	return data
}

// payload returns the payload's fields by the names that nodes have, in the
// order in which payloadFields names them.
func (n *node) payload() []field {
	b := n.body
	fields := b.fields
	if b.data != nil {
		// Metadata without a JSON form leaves the node without a payload.
		fields, _ = object(event.EncodeJSON(b.data))
	}
	out := make([]field, 0, len(fields)+1)
	for _, name := range payloadFields(b.kind) {
		value := lookup(fields, name)
		if name == "content" && n.words.last != nil {
			value = n.words.json()
		}
		if value != nil {
			out = append(out, field{nodeField(b.kind, name), value})
		}
	}
	if n.relay != relayOpen {
		out = append(out, field{"state", quote(Node{n: n}.State())})
	}
	return out
}

// MarshalJSON writes id, runId, kind, then the payload's fields as they were
// received, the state of a relay that was decided, and agent, path, seq and time
// if the event had them.
func (n Node) MarshalJSON() ([]byte, error) {
	fields := []field{{"id", quote(n.ID)}, {"runId", quote(n.RunID)}, {"kind", quote(string(n.Kind))}}
	if n.n != nil {
		fields = append(fields, n.n.payload()...)
	}
	if n.Agent != "" {
		fields = append(fields, field{"agent", quote(n.Agent)})
	}
	if n.Path != "" {
		fields = append(fields, field{"path", quote(n.Path)})
	}
	if n.Seq != 0 {
		fields = append(fields, field{"seq", event.EncodeJSON(n.Seq)})
	}
	if !n.Time.IsZero() {
		fields = append(fields, field{"time", event.EncodeJSON(n.Time.UTC())})
	}
	var buf bytes.Buffer
	writeFields(&buf, fields)
	return buf.Bytes(), nil
}
