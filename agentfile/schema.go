package agentfile

import (
	"encoding/json"

	"github.com/agentarbor/arbor/internal/yamldoc"
)

// Schema returns the JSON schema (draft 2020-12) of the front matter of an agent in Markdown, for editors. It is
// made of the keys that Load reads, and refuses nothing that Load accepts: it says which keys there are, and the
// types of their values. Load also checks what no schema can say.
func Schema() []byte { return schemaOf("An agent of a tree", "agent.md", keys) }

// RouterSchema is Schema for a router in YAML.
func RouterSchema() []byte { return schemaOf("A router", "router.yaml", routerFile) }

func schemaOf(title, file string, table func(*parser) []yamldoc.Key) []byte {
	s := yamldoc.Schema(table(newParser(&report{}, &definition{file: file, router: &routerKeys{}})))
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", title
	text, _ := json.MarshalIndent(s, "", "  ") // of maps, lists and texts, which is no error
	return append(text, '\n')
}
