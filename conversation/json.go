package conversation

import (
	"bytes"
	"encoding/json"
)

// writeFields writes a JSON object.
func writeFields(buf *bytes.Buffer, fields []field) {
	buf.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			buf.WriteByte(',')
		}
		buf.Write(quote(f.name))
		buf.WriteByte(':')
		buf.Write(f.value)
	}
	buf.WriteByte('}')
}

// MarshalJSON encodes the graph as one object: "nodes" in the order of their first events, "edges" with the ids of the
// children by the id of their parent, and "lastNodeByRunId". Everything is in the order of the events, so that equal
// streams have equal bytes.
func (g *Graph) MarshalJSON() ([]byte, error) {
	var nodes, edges, last bytes.Buffer
	for place := range g.places() {
		comma(&nodes)
		raw, err := g.view(place).MarshalJSON()
		if err != nil {
			return nil, err
		}
		nodes.Write(raw)
		children := g.children(place)
		if len(children) == 0 {
			continue
		}
		comma(&edges)
		edges.Write(quote(g.at(place).id))
		edges.WriteString(":[")
		for i, child := range children {
			if i > 0 {
				edges.WriteByte(',')
			}
			edges.Write(quote(g.at(child).id))
		}
		edges.WriteByte(']')
	}
	for ri := range g.runs.n {
		if r := g.runAt(int32(ri)); r.last != none {
			comma(&last)
			last.Write(quote(r.id))
			last.WriteByte(':')
			last.Write(quote(g.at(r.last).id))
		}
	}
	var out bytes.Buffer
	writeFields(&out, []field{{"nodes", wrap('[', &nodes, ']')}, {"edges", wrap('{', &edges, '}')}, {"lastNodeByRunId", wrap('{', &last, '}')}})
	return out.Bytes(), nil
}

func comma(buf *bytes.Buffer) {
	if buf.Len() > 0 {
		buf.WriteByte(',')
	}
}

func wrap(open byte, buf *bytes.Buffer, end byte) json.RawMessage {
	return append(append([]byte{open}, buf.Bytes()...), end)
}
