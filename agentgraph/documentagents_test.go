package agentgraph

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
)

// namedModel is never asked.
type namedModel string

func (m namedModel) Name() string { return string(m) }
func (m namedModel) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	panic("a model was called")
}

// anyModel knows every model but no-such; the default one is called default.
func anyModel(name string) (llm.Model, error) {
	switch name {
	case "no-such":
		return nil, errors.New("the endpoint does not serve it")
	case "":
		name = "default"
	}
	return namedModel(name), nil
}

const agentsFile = head + `---
apiVersion: ossa.ai/v0.2.7
kind: Agent
metadata: {name: writer, version: 1.9.0, description: Writes}
spec:
  role: You write.
  llm: {provider: openai, model: fast, temperature: 0.2, maxTokens: 100}
  config: {threshold: 0.5, limits: {words: 100, lines: 5}}
  tools: [search, {name: fetch, type: mcp}]
---
apiVersion: ossa.ai/v0.2.7
kind: Agent
metadata: {name: writer, version: 1.10.0-rc.1}
spec: {role: You write newly.}
---
apiVersion: ossa.ai/v0.2.7
kind: Agent
metadata: {name: plain}
spec: {instructions: You are plain., role: Not this}
---
apiVersion: ossa.ai/v0.2.7
kind: Agent
metadata: {name: bad, version: 1.0.0}
spec: {llm: {temperature: hot}}
---
apiVersion: ossa.ai/v0.2.7
kind: Agent
metadata: {name: modelless, version: 1.0.0}
spec: {llm: {model: no-such}}
---
apiVersion: ossa.ai/v0.2.7
kind: Agent
metadata: {name: tooled, version: 1.0.0}
spec: {tools: [fly]}
---
apiVersion: ossa.ai/v0.2.7
kind: Agent
metadata: {name: no name, version: 1.0.0}
`

func agentsGraph(t *testing.T) *Graph {
	return must.Get(Load([]byte(agentsFile), WithAnyRef()))
}

func tool(t *testing.T, name string) tools.Tool {
	return must.Get(tools.Func(name, "A tool.", func(tools.Context, struct{}) (string, error) { return "", nil }))
}

// asked returns what an agent's model would be asked.
func asked(t *testing.T, a agent.Agent) *llm.Request {
	tree := must.Get(agent.NewTree(a))
	inv := agent.NewInvocation(agent.InvocationParams{Node: tree.Root(), Tree: tree, Session: noSession{}})
	_, req, err := a.(*llmagent.Agent).NextRequest(t.Context(), inv)
	require.NoError(t, err)
	return req
}

type noSession struct{}

func (noSession) Key() agent.SessionKey             { return agent.SessionKey{} }
func (noSession) Seq() int64                        { return 0 }
func (noSession) Turns() agent.Turns                { return agent.Turns{} }
func (noSession) State(string) (any, bool)          { return nil, false }
func (noSession) Memo(_ any, create func() any) any { return create() }
func (noSession) File(context.Context, string) (*event.File, []byte, error) {
	return nil, nil, agent.ErrNoFile
}
func (noSession) Events(context.Context, int64) iter.Seq2[*event.Event, error] {
	return func(func(*event.Event, error) bool) {}
}

func TestDocumentAgents(t *testing.T) {
	resolve := ResolveDocuments(agentsGraph(t).Agents, anyModel, tool(t, "fetch"), tool(t, "search"), tool(t, "other"))
	a := must.Get(resolve("writer@1.9.0", nil))
	require.Equal(t, "writer", a.Name())
	require.Equal(t, "Writes", a.Description())
	require.Equal(t, "fast", a.(*llmagent.Agent).Model().Name())
	req := asked(t, a)
	require.Equal(t, "You write.\n\nConfiguration: {\"limits\":{\"lines\":5,\"words\":100},\"threshold\":0.5}", req.System)
	require.Equal(t, 0.2, *req.Temperature)
	require.Equal(t, 100, req.MaxTokens)
	require.Len(t, req.Tools, 2)
	require.Equal(t, "search", req.Tools[0].Name)

	// A node's configuration changes its own agent only.
	config := map[string]any{"threshold": 0.8, "limits": map[string]any{"words": int64(7)}, "model": "slow", "temperature": int64(1), "response_format": map[string]any{"type": "object"}}
	b := must.Get(resolve("writer@1.9.0", config))
	require.Equal(t, "slow", b.(*llmagent.Agent).Model().Name())
	req = asked(t, b)
	require.Equal(t, "You write.\n\nConfiguration: {\"limits\":{\"lines\":5,\"words\":7},\"threshold\":0.8}", req.System)
	require.Equal(t, 1.0, *req.Temperature)
	require.Equal(t, "writer", req.ResponseFormat.Name)
	again := must.Get(resolve("writer@1.9.0", nil))
	require.NotSame(t, a, again)
	require.Equal(t, asked(t, a).System, asked(t, again).System)

	for ref, want := range map[string]string{"writer": "You write newly.", "plain": "You are plain.", "plain@3.0.0": "You are plain."} {
		a, err := resolve(ref, nil)
		require.NoError(t, err, ref)
		require.Equal(t, want, asked(t, a).System)
		require.Equal(t, "default", a.(*llmagent.Agent).Model().Name())
	}
	for _, ref := range []string{"", "writ", "writer@", "writer@2.0.0", "@1.9.0"} {
		_, err := resolve(ref, nil)
		require.ErrorIs(t, err, ErrUnknownRef, ref)
	}
}

func TestDocumentErrors(t *testing.T) {
	g := agentsGraph(t)
	resolve := ResolveDocuments(g.Agents, anyModel)
	for ref, want := range map[string]string{
		"bad":       `line 34: the agent "bad@1.0.0": spec: temperature must be a number from 0 to 2, not "hot"`,
		"modelless": `line 39: the agent "modelless@1.0.0": the model "no-such" cannot be used: the endpoint does not serve it`,
		"tooled":    `line 44: the agent "tooled@1.0.0": spec.tools names "fly", and the program has no such tool`,
		"no name":   `line 49: the agent "no name@1.0.0": agent name "no name" contains ' '`,
	} {
		_, err := resolve(ref, nil)
		var bad *DocumentError
		require.ErrorAs(t, err, &bad, ref)
		require.Contains(t, err.Error(), want)
		bad.File = "f.yaml"
		require.Contains(t, err.Error(), "f.yaml:"+want[len("line "):])
	}
	_, err := resolve("plain", map[string]any{"model": "no-such"})
	var config *ConfigError
	require.ErrorAs(t, err, &config)
	require.EqualError(t, err, `config.model "no-such" cannot be used: the endpoint does not serve it`)
	_, err = resolve("plain", map[string]any{"toolChoice": "search"})
	require.EqualError(t, err, `config.toolChoice "search" is neither auto, none nor required, nor a tool of this agent`)
	_, err = ResolveDocuments(g.Agents, nil)("plain", nil)
	require.ErrorContains(t, err, "nothing to ask for models")
	_, err = ResolveDocuments(g.Agents, func(string) (llm.Model, error) { return nil, nil })("plain", nil)
	require.ErrorContains(t, err, `the agent "plain": it names no model, and the default model cannot be used: there is no such model`)
}

// TestVersions: a name without a version means the latest version by semver.org. A text that is no version sorts below all versions.
func TestVersions(t *testing.T) {
	order := []string{"x", "0.1.0-alpha", "0.1.0-alpha.1", "0.1.0-beta.2", "0.1.0-beta.11", "0.1.0", "0.10.0", "1.0.0", "99999999999999999999.0.0", "100000000000000000000.0.0"}
	for i := range order[1:] {
		for _, all := range [][]refVersion{{{"a", order[i]}, {"a", order[i+1]}}, {{"a", order[i+1]}, {"a", order[i]}}} {
			require.Equal(t, order[i+1], all[pick(all, "a")].version)
		}
	}
}

// TestFolderFind holds Find against Refs: both know the same names.
func TestFolderFind(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	document := func(name, version string) string {
		return "---\napiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: " + name + ", version: " + version + "}\n"
	}
	fsys := fstest.MapFS{
		"a.md":       file("---\nname: alpha\n---\n"),
		"a/b.md":     file("---\n---\n"),
		"twin.md":    file("---\n---\n"),
		"twin2.md":   file("---\nname: twin\n---\n"),
		"docs.yaml":  file(document("doc", "1.0.0") + document("doc", "2.0.0") + document("alpha", "3.0.0") + document("odd", "one")),
		"flow.yaml":  file(head + document("inner", "1.0.0")),
		"other.yaml": file(document("doc", "1.5.0")),
	}
	markdown := map[string]string{"a.md": "alpha", "a/b.md": "b", "twin.md": "twin", "twin2.md": "twin"}
	f := must.Get(ReadFolder(fsys, func(file string) (string, bool) { return markdown[file], true }))
	names := f.Refs()
	require.Equal(t, []string{"alpha", "alpha@3.0.0", "b", "doc@1.0.0", "doc@1.5.0", "doc@2.0.0", "inner@1.0.0", "odd@one", "twin"}, names)

	known := newRefs(names)
	for _, ref := range append(names, "doc", "doc@9.0.0", "alpha@9.0.0", "b@1.0.0", "inner", "x", "", "@", "b@", "odd", "beta@3.0.0") {
		_, err := f.Find(ref)
		require.Equal(t, known.has(ref), !errors.Is(err, ErrUnknownRef), ref)
	}
	for ref, want := range map[string]string{"doc": "docs.yaml 2.0.0", "doc@1.5.0": "other.yaml 1.5.0", "alpha": "a.md ", "alpha@3.0.0": "docs.yaml 3.0.0",
		"alpha@4.0.0": "a.md ", "b": "a/b.md "} {
		a := must.Get(f.Find(ref))
		require.Equal(t, want, a.File+" "+a.Version, ref)
		require.Equal(t, a.Version == "", a.Document == nil)
	}
	_, err := f.Find("twin")
	require.EqualError(t, err, `two agents are called "twin", in twin.md and in twin2.md`)
	odd := must.Get(f.Find("odd"))
	require.Len(t, odd.Problems, 1)
	require.Equal(t, CodeBadVersion, odd.Problems[0].Code)
	doc := must.Get(f.Find("doc"))
	require.Empty(t, doc.Problems)
}
