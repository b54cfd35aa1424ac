package agentgraph

import (
	"encoding/json"
	"maps"
)

// Schema returns the JSON schema (draft 2020-12) of a graph's document, for editors.
// It describes the structure: keys, types and patterns. What it refuses, Load
// refuses; Load also checks what no schema can say.
func Schema() []byte {
	s := documentKeys.schema()
	maps.Copy(s, parsed(`{"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "AgentGraph (OSSA v0.2.7, arbor/v1)",
		"description": "A graph of agents: the document of kind AgentGraph in a file. Ids, references, circles and expressions are checked by arbor graph validate only.",
		"if": {"required": ["apiVersion"], "properties": {"apiVersion": {"const": "arbor/v1"}}},
		"then": {"properties": {"spec": {"$ref": "#/$defs/arborSpec"}}},
		"else": {"properties": {"spec": {"$ref": "#/$defs/spec"}}}}`))
	defs := parsed(`{"text": {"type": "string", "pattern": "\\S"}, "expression": {"type": "string", "pattern": "\\S", "maxLength": 4096},
		"duration": {"type": "string", "pattern": "^(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$"},
		"version": {"type": "string", "pattern": "^(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)(-(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(\\.(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*)?(\\+[0-9a-zA-Z-]+(\\.[0-9a-zA-Z-]+)*)?$"}}`)
	for name, t := range map[string]*table{"metadata": &metadataKeys, "spec": &specKeys, "agent": &agentKeys, "edge": &edgeKeys, "errorHandling": &errorKeys,
		"arborSpec": &arborSpecKeys, "arborAgent": &arborAgentKeys, "arborEdge": &arborEdgeKeys, "loop": &loopKeys, "retry": &retryKeys, "state": &stateKeys} {
		defs[name] = t.schema()
	}
	s["$defs"] = defs
	text, _ := json.MarshalIndent(s, "", "  ") // of maps, lists and texts, which is no error
	return append(text, '\n')
}

func (t *table) schema() map[string]any {
	s, properties := parsed(t.rest), make(map[string]any, len(t.keys))
	for _, k := range t.keys {
		value := parsed(k.schema)
		if k.about != "" {
			value["description"] = k.about
		}
		properties[k.name] = value
	}
	s["properties"] = properties
	if s["type"] == nil {
		s["type"] = "object"
	}
	if !t.open {
		s["additionalProperties"] = false
	}
	return s
}

// parsed reads a part of a schema that the source holds; "" is an empty one.
func parsed(text string) map[string]any {
	v := map[string]any{}
	_ = json.Unmarshal([]byte(text), &v) // which the tests have read
	return v
}
