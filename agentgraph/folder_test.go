package agentgraph_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/testing/must"
)

// TestConfigNumbers: a number with an exponent is a number, as YAML 1.2 has it.
func TestConfigNumbers(t *testing.T) {
	g := must.Get(agentgraph.Load([]byte(`
apiVersion: ossa.ai/v0.2.7
kind: AgentGraph
metadata: {name: g, version: 1.0.0}
spec:
  agents:
    - {id: a, agentRef: x, config: {small: 1e-3, large: 18446744073709551616, whole: 7, text: "1e-3"}}
  entrypoint: a
`), agentgraph.WithAnyRef()))
	require.Equal(t, map[string]any{"small": 1e-3, "large": 18446744073709551616.0, "whole": int64(7), "text": "1e-3"}, g.Nodes[0].Config)
}

const head = "apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata:\n  name: g\n  version: 1.0.0\nspec:\n  agents:\n    - {id: a, agentRef: x}\n  entrypoint: a\n"

func TestFolderRefs(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	f := must.Get(agentfile.ReadFolder(fstest.MapFS{
		"support.md":         file("---\nname: desk # a name\n---\nHello."),
		"support/billing.md": file("---\r\ndescription: x\r\n---\r\nHello."),
		"support/other.yaml": file("kind: Agent\nmetadata: {name: hidden}\n"),
		"readme.md":          file("# no agent"),
		"open.md":            file("---\nname: open\n"),
		"quoted.md":          file("---\nname: \"q-1\"\n---\n"),
		"plain/deep.md":      file("---\nname: deep\n---\n"),
		"agents.yaml":        file("apiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: y, version: 1.0.0}\n---\napiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: z}\n"),
		"graph.yml":          file(head + "---\napiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: inner}\n"),
		"broken.yaml":        file("kind: Agent\n\tmetadata"),
		".hidden.md":         file("---\nname: hidden\n---\n"),
		"desk-tools.txt":     file("---\nname: text\n---\n"),
	}))
	require.Equal(t, []string{"billing", "desk", "inner", "open", "q-1", "y@1.0.0", "z"}, f.Refs())

	_, err := agentfile.ReadFolder(fstest.MapFS{})
	require.NoError(t, err)
}

// TestInvalidFilesOfAFolder: a reference that only an invalid file of the folder could
// satisfy is a problem that names the file and what is wrong with it.
func TestInvalidFilesOfAFolder(t *testing.T) {
	const agent = "apiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: "
	for name, c := range map[string]struct {
		ref, want string // "": there is no problem
		files     map[string]string
	}{
		"sound":                     {"x", "", map[string]string{"x.md": "---\nname: x\n---\n", "y.yaml": "kind: Agent\n\tmetadata: {name: x}"}},
		"no YAML":                   {"x", "there is no agent \"x\": y.yaml is not valid: line 2: ", map[string]string{"y.yaml": "kind: Agent\n\tmetadata: {name: x}"}},
		"no YAML, by the file":      {"x", "x.yml is not valid: line 1: ", map[string]string{"x.yml": "kind: Agent: {"}},
		"no YAML, with a version":   {"x@1.0.0", "y.yaml is not valid: line 2: ", map[string]string{"y.yaml": "kind: Agent\n\tmetadata: {name: x}"}},
		"document with problems":    {"x", `y.yaml is not valid: line 1: apiVersion is missing (and 1 more)`, map[string]string{"y.yaml": "kind: Agent\nmetadata: {name: x, version: 1.0}\n"}},
		"document without a name":   {"x", `x.yaml is not valid: line 1: metadata is missing`, map[string]string{"x.yaml": "apiVersion: ossa.ai/v0.2.7\nkind: Agent\n"}},
		"front matter without end":  {"x", "y.md is not valid: line 1: the front matter that begins here has no end", map[string]string{"y.md": "---\nname: x\nHello."}},
		"no front matter":           {"x", "x.md is not an agent: it does not begin with front matter", map[string]string{"x.md": "Hello."}},
		"two in Markdown":           {"x", `two agents are called "x", in a.md and in b.md`, map[string]string{"a.md": "---\nname: x\n---\n", "b.md": "---\nname: x\n---\n"}},
		"two of two kinds":          {"x", `two agents are called "x", in a.md and in b.yaml`, map[string]string{"a.md": "---\nname: x\n---\n", "b.yaml": agent + "x}\n"}},
		"two documents of a file":   {"x", `two agents are called "x", in a.yaml and in b.yaml`, map[string]string{"a.yaml": agent + "x}\n", "b.yaml": agent + "x}\n"}},
		"misspelt kind":             {"x", `y.yaml is not an agent: its kind is Agnet, and not Agent`, map[string]string{"y.yaml": "kind: Agnet\nmetadata: {name: x}\n"}},
		"another kind":              {"x", `y.yaml is not an agent: its kind is Workflow, and not Agent`, map[string]string{"y.yaml": "# An Agent.\nkind: Workflow\nmetadata:\n  version: 1.0.0\n  name: x\n"}},
		"a graph":                   {"x", `y.yaml is not an agent: its kind is AgentGraph, and not Agent`, map[string]string{"y.yaml": strings.Replace(head, "name: g", "name: x", 1)}},
		"no kind":                   {"x", `x.yaml is not an agent: it does not say kind: Agent`, map[string]string{"x.yaml": "role: You help.\n"}},
		"another version":           {"x@2.0.0", `there is no agent "x@2.0.0": y.yaml has x@1.0.0`, map[string]string{"y.yaml": agent + "x, version: 1.0.0}\n"}},
		"any version":               {"x", "", map[string]string{"y.yaml": agent + "x, version: 1.0.0}\n"}},
		"nothing near":              {"x", `there is no agent "x"; no agents were given, and the file holds none`, map[string]string{"y.txt": "name: x"}},
		"a name that is near":       {"exprt", `there is no agent "exprt"; did you mean "expert"?`, map[string]string{"expert.md": "---\n---\n"}},
		"an agent of the same file": {"own", "", map[string]string{"own.yaml": "kind: Agent: {"}},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for file, text := range c.files {
				fsys[file] = &fstest.MapFile{Data: []byte(text)}
			}
			folder := must.Get(agentfile.ReadFolder(fsys))
			text := "apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec:\n  agents:\n    - {id: a, agentRef: " + c.ref + "}\n  entrypoint: a\n---\n" + agent + "own}\n"
			if c.ref != "own" {
				text, _, _ = strings.Cut(text, "---\n")
			}
			_, err := agentgraph.Load([]byte(text), agentgraph.WithFolder(folder))
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.Len(t, agentgraph.Problems(err), 1)
			p := agentgraph.Problems(err)[0]
			require.Equal(t, []any{agentgraph.CodeUnknownAgentRef, "spec.agents[0].agentRef", 6}, []any{p.Code, p.Path, p.Line})
			require.Contains(t, p.Message, c.want)
			_, found := folder.Find(c.ref) // a resolver says the same
			if why, _, ok := strings.Cut(c.want, ": "); ok && strings.HasPrefix(why, "there is no agent") {
				require.ErrorIs(t, found, agentgraph.ErrUnknownRef)
			}
		})
	}
}
