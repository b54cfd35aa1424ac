package agentfile

import (
	"encoding/json"

	"github.com/agentarbor/arbor/internal/yamldoc"
)

// Schema returns the JSON schema (draft 2020-12) of the front matter of a Markdown agent, for editors. It is made from
// the keys that Load reads, and accepts everything that Load accepts. It lists the keys and the types of their values;
// Load checks more.
func Schema() []byte { return schemaOf("An agent of a tree", "agent.md", keys) }

// RouterSchema is like [Schema] for a router in YAML.
func RouterSchema() []byte { return schemaOf("A router", "router.yaml", routerFile) }

func schemaOf(title, file string, table func(*parser) []yamldoc.Key) []byte {
	s := yamldoc.Schema(table(newParser(&report{}, &definition{file: file, router: &routerKeys{}})))
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", title
	text, _ := json.MarshalIndent(s, "", "  ") // marshals only maps, lists and strings, so it cannot fail
	return append(text, '\n')
}
