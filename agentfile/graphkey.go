package agentfile

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/llm"
)

// graphPath reads the key graph.
func (p *parser) graphPath(k *yamldoc.Key, n yamldoc.Node) {
	p.d.isGraph = true
	v, ok := p.String(k, n)
	if !ok {
		return
	}
	file, problem := within(p.d.file, v)
	if problem != "" {
		p.Add(n, "graph %s", problem)
		return
	}
	p.d.graph = file
}

// within resolves a path in a file relative to the tree's folder, or returns what is wrong with it.
func within(file, name string) (rel, problem string) {
	switch rel = path.Join(path.Dir(file), name); {
	case strings.Contains(name, `\`):
		return "", strconv.Quote(name) + ": write a path with slashes"
	case path.IsAbs(name), !fs.ValidPath(rel), rel == ".":
		return "", strconv.Quote(name) + " leads out of the folder of the agents: the path begins in the folder of this file, and stays below that of the tree"
	}
	return rel, ""
}

// graphOnly reports keys that are not allowed with the key graph.
func graphOnly(p *parser) {
	if !p.d.isGraph {
		return
	}
	p.only("graph", "the agents of the graph have their own", "name", "description", "guards", "budgets", "ignore", "graph")
	p.noBody("graph", "the key graph on line %d says what the agent is, and a graph has no system prompt")
}

// only reports the keys that do not go with the key that sets the kind of agent.
func (p *parser) only(key, why string, with ...string) {
	for _, k := range p.Top {
		if at, present := p.keys[k.Name]; present && !slices.Contains(with, k.Name) {
			p.add(at, "the key %q does not go with %s: %s", k.Name, key, why)
		}
	}
}

// noBody reports a body next to a key that sets the kind of agent. why is the message, with a verb for the line of the
// key.
func (p *parser) noBody(key, why string) {
	if p.d.body != "" {
		p.add(p.d.bodyAt, "the body must be empty: "+why, p.keys[key].line)
	}
}

// responseFormat reads a JSON schema and keeps the order of its keys.
func (p *parser) responseFormat(k *yamldoc.Key, n yamldoc.Node) {
	if n.Kind() != yamldoc.Mapping {
		p.WrongType(k, n)
		return
	}
	before := p.Problems
	var b bytes.Buffer
	p.json(&b, n)
	if p.Problems > before {
		return
	}
	if err := schema.Check(b.Bytes()); err != nil {
		p.Add(n, "%s must be a JSON schema: %s", p.Name, err)
		return
	}
	p.d.settings.ResponseFormat = &llm.ResponseFormat{Schema: b.Bytes()}
}

// json writes a value as JSON.
func (p *parser) json(b *bytes.Buffer, n yamldoc.Node) {
	switch n.Kind() {
	case yamldoc.Mapping:
		before := byte('{')
		p.Each(n, func(name string, pair yamldoc.Pair) {
			b.WriteByte(before)
			before = ','
			data, _ := json.Marshal(name) // a string never fails
			b.Write(data)
			b.WriteByte(':')
			p.json(b, pair.Value)
		})
		if before == '{' {
			b.WriteByte(before)
		}
		b.WriteByte('}')
	case yamldoc.List:
		b.WriteByte('[')
		for i := range n.Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			p.json(b, n.Item(i))
		}
		b.WriteByte(']')
	default:
		v, wrong := n.Scalar()
		if wrong != "" { // an infinite number or NaN
			p.Add(n, "%s holds %s, which JSON does not have", p.Name, n.Quote())
			return
		}
		if _, isText := v.(string); isText {
			v, _ = n.Trimmed()
		}
		data, _ := json.Marshal(v) // a scalar never fails
		b.Write(data)
	}
}
