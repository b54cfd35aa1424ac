package agentgraph

import (
	_ "embed"
	"slices"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON schema (draft 2020-12) of a graph's document, for editors.
// It describes the structure: keys, types and patterns. What it refuses, Load
// refuses; Load also checks what no schema can say.
func Schema() []byte { return slices.Clone(schema) }
