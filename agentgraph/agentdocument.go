package agentgraph

import (
	"cmp"

	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// ref returns the most specific reference to the agent.
func (a AgentDocument) ref() string {
	if a.Version == "" {
		return a.Name
	}
	return a.Name + "@" + a.Version
}

// agentDocument reads a document of kind Agent. It does not report unknown keys, because that format has many more keys
// than a graph needs.
func (r *reader) agentDocument(n yamldoc.Node) {
	a, role, foreign := AgentDocument{Line: n.Line()}, "", &table{foreign: true}
	below := func(name string, keys ...yamldoc.Key) yamldoc.Key {
		return yamldoc.Custom(name, "a mapping", "", func(k *yamldoc.Key, n yamldoc.Node) {
			if n.Kind() != yamldoc.Nothing && r.object(k, n, foreign, keys...) && name == "spec" {
				a.Spec, _ = r.Any(n).(map[string]any)
			}
		})
	}
	r.mapping(&table{foreign: true, needs: []string{"apiVersion", "metadata"}}, []yamldoc.Key{
		yamldoc.Custom("apiVersion", "a text", APIVersion, func(k *yamldoc.Key, n yamldoc.Node) {
			if v, ok := r.String(k, n); ok && v != APIVersionArbor && !apiVersion.MatchString(v) {
				r.Add(n, "apiVersion must be such as %s, not %q", APIVersion, visible.Cut(v, 60))
			}
		}),
		yamldoc.Custom("metadata", "a mapping", "", func(k *yamldoc.Key, n yamldoc.Node) {
			r.object(k, n, &table{foreign: true, needs: []string{"name"}},
				yamldoc.String("name", "", &a.Name), r.version(&a.Version, true), yamldoc.OptionalString("description", &a.Description))
		}),
		below("spec", yamldoc.OptionalString("role", &role), yamldoc.OptionalString("instructions", &a.Instructions), below("llm", yamldoc.OptionalString("model", &a.Model)))},
		"", n, a.Line)
	a.Instructions = cmp.Or(a.Instructions, role)
	r.agent(a)
}
