package conversation

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Node is a copy of one node of a graph. The values that its methods return must not be changed.
type Node struct {
	// ID is the event's id for text, reasoning, tool_call, tool_progress and relay, CALL:result for a tool_result,
	// RUN:usage:1 and so on for usage, and RUN:TYPE for the others. If another run has a node with the same id, the id
	// begins with RUN:.
	ID    string
	RunID string
	// Kind is the type of its events: one that makes a node, such as [event.TypeText].
	Kind string
	// Agent, Path, Seq and Time are those of the event, or zero. A block of several deltas has those of its first delta
	// until the complete event arrives.
	Agent, Path string
	Seq         int64
	Time        time.Time
	// Streaming reports that only deltas of this block have arrived so far.
	Streaming bool

	n *node
}

func (g *Graph) view(place int32) Node {
	n := g.at(place)
	b := n.body
	return Node{ID: n.id, RunID: g.runAt(n.run).id, Kind: b.kind, Agent: b.agent, Path: b.path, Seq: b.seq, Time: b.time,
		Streaming: !n.complete, n: n}
}

// Text returns the content of a text or reasoning node, and "" for any other node.
func (n Node) Text() string {
	if n.n == nil {
		return ""
	}
	return n.n.text()
}

func (n *node) text() string {
	if !isBlock(n.body.kind) {
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

// State returns "approved" or "denied" for a relay with a decision, and otherwise "".
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

// Data returns the payload. In a payload from JSON, fields of the wrong type are zero.
func (n Node) Data() event.Data {
	if n.n == nil {
		return nil
	}
	return n.n.data()
}

func (n *node) data() event.Data {
	b := n.body
	switch {
	case b.kind == event.TypeText && (n.words.last != nil || b.data == nil):
		return &event.Text{Content: n.text()}
	case b.kind == event.TypeReasoning && (n.words.last != nil || b.data == nil):
		return &event.Reasoning{Content: n.text()}
	case b.data != nil:
		return b.data
	}
	data := event.New(b.kind)
	for _, f := range b.fields {
		if json.Unmarshal(encode([]field{f}), data) != nil && b.kind == event.TypeUser && f.name == "content" {
			// Content of another form becomes a text, so that no message of the user is lost.
			data.(*event.User).Content = llm.Content{Text: event.OutputText(f.value)}
		}
	}
	return data
}

// payload returns the payload's fields with their names in nodes, in the order of payloadFields.
func (n *node) payload() []field {
	b := n.body
	fields := b.fields
	if b.data != nil {
		// If metadata has no JSON form, the node has no fields.
		fields, _ = object(event.EncodeJSON(b.data))
	}
	out := make([]field, 0, len(fields)+1)
	for _, name := range payloadFields(b.kind) {
		value := lookup(fields, name)
		if name == "content" && n.words.last != nil {
			value = n.words.json()
		}
		if b.kind == event.TypeRelay && name == "kind" {
			name = "relayKind" // the kind of a node is its type
		}
		if value != nil {
			out = append(out, field{name, value})
		}
	}
	if n.relay != relayOpen {
		out = append(out, field{"state", quote(Node{n: n}.State())})
	}
	return out
}

// MarshalJSON encodes id, runId and kind, then the fields of the payload as they were received, the state of a relay
// with a decision, and agent, path, seq and time if the event has them.
func (n Node) MarshalJSON() ([]byte, error) {
	fields := []field{{"id", quote(n.ID)}, {"runId", quote(n.RunID)}, {"kind", quote(n.Kind)}}
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
	return encode(fields), nil
}

// encode returns a JSON object.
func encode(fields []field) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quote(f.name))
		b.WriteByte(':')
		b.Write(f.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// MarshalJSON encodes the graph as one object: "nodes" in the order of their first events, "edges" with the ids of the
// children by the id of their parent, and "lastNodeByRunId". Everything is in the order of the events, so that equal
// streams have equal bytes.
func (g *Graph) MarshalJSON() ([]byte, error) {
	nodes := []Node{}
	var edges, last []field
	for place := range g.places() {
		nodes = append(nodes, g.view(place))
		var children []string
		for _, child := range g.children(place) {
			children = append(children, g.at(child).id)
		}
		if children != nil {
			edges = append(edges, field{g.at(place).id, event.EncodeJSON(children)})
		}
	}
	for ri := range g.runs.n {
		if r := g.runAt(int32(ri)); r.last != none {
			last = append(last, field{r.id, quote(g.at(r.last).id)})
		}
	}
	return encode([]field{{"nodes", event.EncodeJSON(nodes)}, {"edges", encode(edges)}, {"lastNodeByRunId", encode(last)}}), nil
}
