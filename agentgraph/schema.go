package agentgraph

import (
	"encoding/json"
	"maps"

	"github.com/agentarbor/arbor/internal/yamldoc"
)

// Schema returns the JSON schema (draft 2020-12) of a graph's document, for editors. It describes the structure: keys,
// types and patterns. Load refuses everything that the schema refuses, and checks more.
func Schema() []byte {
	r := newReader(nil, "", 0)
	r.top = &draft{graph: &Graph{}}
	s := documentTable.schema(r.documentKeys())
	maps.Copy(s, parsed(`{"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "AgentGraph (OSSA v0.2.7, arbor/v1)",
		"description": "A graph of agents: the document of kind AgentGraph in a file. Ids, references, circles and expressions are checked by arbor graph validate only.",
		"if": {"required": ["apiVersion"], "properties": {"apiVersion": {"const": "arbor/v1"}}},
		"then": {"properties": {"spec": {"$ref": "#/$defs/arborSpec"}}},
		"else": {"properties": {"spec": {"$ref": "#/$defs/spec"}}}}`))
	defs := parsed(`{"text": {"type": "string", "pattern": "\\S"}, "expression": {"type": "string", "pattern": "\\S", "maxLength": 4096},
		"duration": {"type": "string", "pattern": "^(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$"},
		"version": {"type": "string", "pattern": "^(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)(-(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(\\.(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*)?(\\+[0-9a-zA-Z-]+(\\.[0-9a-zA-Z-]+)*)?$"}}`)
	def := func(name string) func(*table, []yamldoc.Key) {
		return func(t *table, keys []yamldoc.Key) { defs[name] = t.schema(keys) }
	}
	c := &checker{draft: r.top}
	def("metadata")(&metadataTable, r.metadataKeys())
	def("spec")(r.specKeys(c))
	def("agent")(r.agentKeys(r.top, &Node{}))
	def("edge")(r.edgeKeys(r.top, &Edge{}))
	def("errorHandling")(&errorTable, r.errorKeys(c))
	r.arbor = true
	def("arborSpec")(r.specKeys(c))
	def("arborAgent")(r.agentKeys(r.top, &Node{}))
	def("arborEdge")(r.edgeKeys(r.top, &Edge{}))
	def("loop")(&loopTable, r.loop(r.top, &Loop{}))
	def("retry")(&retryTable, r.retry(&RetryPolicy{}))
	def("state")(&stateTable, r.stateKeys(&StateKey{}))
	s["$defs"] = defs
	text, _ := json.MarshalIndent(s, "", "  ") // marshals only maps, lists and strings, so it cannot fail
	return append(text, '\n')
}

func (t *table) schema(keys []yamldoc.Key) map[string]any {
	s := yamldoc.Schema(keys)
	if len(t.needs) > 0 {
		s["required"] = t.needs
	}
	maps.Copy(s, parsed(t.rest))
	if t.open {
		delete(s, "additionalProperties")
	}
	return s
}

// parsed returns a part of a schema that is written as JSON in the source; "" is an empty one.
func parsed(text string) map[string]any {
	v := map[string]any{}
	_ = json.Unmarshal([]byte(text), &v) // the tests parse every part
	return v
}
