package agentfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// asked returns what a node's agent would ask its model.
func asked(t *testing.T, a agent.Agent) *llm.Request {
	tree := must.Get(agent.NewTree(a))
	return request(t, &Tree{index: tree}, tree.Root())
}

func mapFS(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

var nodeAgents = map[string]string{
	"desk.md":         "---\nname: desk\nmodel: fast\ntools: [refund]\nsettings: {temperature: 0.5, max_tokens: 10, stop: [a, b], tool_choice: refund, leaked_calls: off}\n---\nYou route.",
	"desk/billing.md": "---\nmodel: fast\n---\nYou handle money.",
	"json.md":         "---\nsettings:\n  response_format: {type: object, required: [z, a], properties: {z: {type: string}, a: {type: number}}}\n---\nYou sort.",
	"agents.yaml": "apiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: doc, version: 1.0.0}\nspec: {role: You are., llm: {model: slow}, config: {depth: 1}}\n---\n" +
		"apiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: doc, version: 1.2.0}\nspec: {role: You are new.}\n",
	"README.md":       "No agent.",
	"other/hidden.md": "---\n---\n",
	"broken.md":       "---\nnmae: x\n---\n",
	"flow.md":         "---\ngraph: flow.yaml\n---\n",
	"flow.yaml":       "apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: flow, version: 1.0.0}\nspec:\n  agents:\n    - {id: x, agentRef: doc}\n  entrypoint: x\n",
}

func TestResolver(t *testing.T) {
	dir := write(t, nodeAgents)
	resolve, err := Resolver(dir, WithModel(resolve), testTools(t, "refund"))
	require.NoError(t, err)
	a, err := resolve("desk", nil)
	require.NoError(t, err)
	require.Equal(t, "desk", a.Name())
	require.Equal(t, "billing", a.SubAgents()[0].Name())
	require.Equal(t, 0.5, *asked(t, a).Temperature)

	// The configuration of a node changes its own agent, and none of its sub-agents.
	b, err := resolve("desk", map[string]any{"temperature": int64(1), "stop": []any{"c"}, "llm": map[string]any{"model": "slow"}, "threshold": 0.8,
		"tool_choice": "auto", "role": "You are the desk."})
	require.NoError(t, err)
	require.NotSame(t, a, b)
	require.NotSame(t, a.SubAgents()[0], b.SubAgents()[0])
	req := asked(t, b)
	require.Equal(t, "slow", b.(*llmagent.Agent).Model().Name())
	require.Equal(t, "fast", b.SubAgents()[0].(*llmagent.Agent).Model().Name())
	require.True(t, strings.HasPrefix(req.System, "You are the desk.\n\nConfiguration: {\"threshold\":0.8}\n\n"), req.System)
	require.Equal(t, 1.0, *req.Temperature)
	require.Equal(t, 10, req.MaxTokens)
	require.Equal(t, []string{"c"}, req.Stop)
	require.Equal(t, llm.ToolChoiceAuto, req.ToolChoice)
	require.Equal(t, llm.LeakedCallsOff, req.LeakedCalls)
	require.Equal(t, "You handle money.", asked(t, b.SubAgents()[0]).System)
	require.Equal(t, 0.5, *asked(t, a).Temperature, "the first agent is as it was")

	// A schema keeps the order of its keys, unless it is changed.
	schema := func(config map[string]any) string {
		a, err := resolve("json", config)
		require.NoError(t, err)
		format := asked(t, a).ResponseFormat
		require.Equal(t, "json", format.Name)
		return string(format.Schema)
	}
	plain := `{"type":"object","required":["z","a"],"properties":{"z":{"type":"string"},"a":{"type":"number"}}}`
	require.Equal(t, plain, schema(nil))
	require.Equal(t, plain, schema(map[string]any{"temperature": 1.0}))
	require.JSONEq(t, `{"type":"object","required":["z"],"properties":{"z":{"type":"string"},"a":{"type":"number","minimum":1}}}`,
		schema(map[string]any{"response_format": map[string]any{"required": []any{"z"}, "properties": map[string]any{"a": map[string]any{"minimum": int64(1)}}}}))

	doc, err := resolve("doc@1.0.0", map[string]any{"depth": int64(2)})
	require.NoError(t, err)
	require.Equal(t, "You are.\n\nConfiguration: {\"depth\":2}", asked(t, doc).System)
	require.Equal(t, "slow", doc.(*llmagent.Agent).Model().Name())
	doc, err = resolve("doc", nil)
	require.NoError(t, err)
	require.Equal(t, "You are new.", asked(t, doc).System)
	flow, err := resolve("flow", nil)
	require.NoError(t, err)
	require.IsType(t, &agentgraph.Agent{}, flow)

	_, err = resolve("broken", nil)
	var files *Error
	require.ErrorAs(t, err, &files)
	require.EqualError(t, err, filepath.Join(dir, "broken.md")+`:2: unknown key "nmae"; did you mean "name"?`)
	_, err = resolve("desk", map[string]any{"maxTokens": "many"})
	var config *agentgraph.ConfigError
	require.ErrorAs(t, err, &config)
	require.Equal(t, "maxTokens", config.Key)
}

// TestResolverKnowsFolderRefs holds the names that a resolver knows against those with
// which a graph is validated.
func TestResolverKnowsFolderRefs(t *testing.T) {
	resolver, err := Resolver(write(t, nodeAgents), WithModel(resolve), testTools(t, "refund"))
	require.NoError(t, err)
	folder := must.Get(ReadFolder(mapFS(nodeAgents)))
	known := folder.Refs()
	require.Equal(t, []string{"billing", "broken", "desk", "doc@1.0.0", "doc@1.2.0", "flow", "json"}, known)
	for _, ref := range append(known, "doc", "desk@2.0.0", "hidden", "README", "", "agents", "doc@3.0.0") {
		_, err := agentgraph.Load([]byte("apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec: {entrypoint: a, agents: [{id: a, agentRef: \""+ref+"\"}]}\n"),
			agentgraph.WithRefs(known...))
		exists := !slices.ContainsFunc(agentgraph.Problems(err), func(p agentgraph.Problem) bool {
			return p.Code == agentgraph.CodeUnknownAgentRef || p.Code == agentgraph.CodeMissingField
		})
		_, err = resolver(ref, nil)
		require.Equal(t, exists, !errors.Is(err, agentgraph.ErrUnknownRef), "%q: %v", ref, err)
	}
}

func TestResolverOptions(t *testing.T) {
	dir := write(t, nodeAgents)
	_, err := Resolver(dir)
	require.ErrorContains(t, err, "use WithModel")
	_, err = Resolver(filepath.Join(dir, "none"), WithModel(resolve))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Resolver(filepath.Join(dir, "flow.yaml"), WithModel(resolve))
	require.ErrorContains(t, err, "not a folder")
	_, err = Resolver("", WithModel(resolve))
	require.ErrorContains(t, err, "the path is empty")
	_, err = LoadFS(nil, ".", WithModel(resolve))
	require.ErrorContains(t, err, "the file system is nil")

	// A missing default model matters only to agents that need it.
	cause := errors.New("set OPENAI_MODEL")
	named, err := Resolver(dir, testTools(t, "refund"), WithModel(func(name string) (llm.Model, error) {
		if name == "" {
			return nil, cause
		}
		return namedModel(name), nil
	}))
	require.NoError(t, err)
	_, err = named("json", nil)
	require.ErrorContains(t, err, "the default model cannot be used: set OPENAI_MODEL")
	_, err = named("desk", nil)
	require.NoError(t, err)
	_, err = named("json", map[string]any{"model": "m"})
	require.NoError(t, err)
	_, err = named("doc", nil)
	require.ErrorContains(t, err, filepath.Join(dir, "agents.yaml")+`:6: the agent "doc@1.2.0": it names no model`)

	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := named("desk", nil)
			require.NoError(t, err)
		})
	}
	all.Wait()
}

// TestGraphFiles loads graphs by their paths and by those of their folders.
func TestGraphFiles(t *testing.T) {
	files := map[string]string{"flow.yaml": nodeAgents["flow.yaml"], "agents.yaml": nodeAgents["agents.yaml"]}
	dir := write(t, files)
	for _, path := range []string{dir, filepath.Join(dir, "flow.yaml")} {
		tree, err := Load(path, WithModel(resolve))
		require.NoError(t, err)
		require.IsType(t, &agentgraph.Agent{}, tree.Root())
		require.Equal(t, "flow", tree.Root().Name())
		source, ok := tree.Source("flow")
		require.True(t, ok)
		require.Equal(t, Source{filepath.Join(dir, "flow.yaml"), 1}, source)
		found, err := Check(path)
		require.NoError(t, err)
		require.Empty(t, found)
	}
	t.Chdir(dir)
	require.NoError(t, os.WriteFile("flow.yaml", []byte(strings.Replace(files["flow.yaml"], "entrypoint: x", "entrypoint: y", 1)), 0o644))
	found, err := Check("flow.yaml")
	require.NoError(t, err)
	require.Equal(t, []Problem{{File: "flow.yaml", Line: 7, Message: found[0].Message}}, found)
	require.Contains(t, found[0].Message, "spec.entrypoint: no agent has the id \"y\"")
	again, err := Check("./")
	require.NoError(t, err)
	require.Equal(t, found, again)

	for path, want := range map[string]string{
		"none.yaml":   "none.yaml: there is no such file",
		"agents.yaml": "agents.yaml:1: kind: the file holds agents only: a document of kind AgentGraph is missing [wrong_kind]; a router has kind: Router",
	} {
		_, err := Load(path, WithModel(resolve))
		require.EqualError(t, err, want)
	}
	cause := errors.New("set OPENAI_MODEL")
	_, err = Load(dir, WithModel(func(string) (llm.Model, error) { return nil, cause }))
	require.ErrorAs(t, err, new(*Error), "the file's problems come before the lack of a model")
	require.NoError(t, os.WriteFile("flow.yaml", []byte(files["flow.yaml"]), 0o644))
	_, err = Load(dir, WithModel(func(string) (llm.Model, error) { return nil, cause }))
	require.ErrorIs(t, err, cause)
}

// TestTransferToGraph hands the conversation to a graph, whose nodes are a document and
// a coordinator with a specialist, and finds it with the coordinator again.
func TestTransferToGraph(t *testing.T) {
	fsys := mapFS(map[string]string{
		"support.md":          "---\nname: support\nmodel: support\nsubagents: [research, flows/other.yaml]\n---\nYou are first.",
		"research.md":         "---\nname: research\ndescription: Finds things out\ngraph: flows/research.yaml\n---\n",
		"flows/finder.md":     "---\nmodel: finder\n---\nYou find.",
		"flows/finder/web.md": "---\nmodel: web\n---\nYou search the web.",
		"flows/research.yaml": `apiVersion: ossa.ai/v0.2.7
kind: AgentGraph
metadata: {name: research-flow, version: 1.0.0}
spec:
  agents:
    - {id: find, agentRef: finder, config: {depth: 3}}
    - {id: report, agentRef: reporter}
  edges: [{from: find, to: report, transform: '{"found": output}'}]
  entrypoint: find
---
apiVersion: ossa.ai/v0.2.7
kind: Agent
metadata: {name: reporter, version: 1.0.0}
spec: {role: You report., llm: {model: reporter}}
`,
		"flows/other.yaml": "apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: other, version: 1.0.0}\nspec:\n  agents:\n    - {id: x, agentRef: web}\n  entrypoint: x\n",
	})
	script := must.Get(scripted.Parse([]byte(`
support: expect tools transfer_to_agent call transfer_to_agent {"agent_name": "research", "reason": "facts"}
finder: expect system "Configuration: {\"depth\":3}" expect user "Why is the sky blue?" call transfer_to_agent {"agent_name": "web"}
web: expect user "Why is the sky blue?" "Rayleigh."
reporter: expect user "{\"found\":\"Rayleigh.\"}" "It is Rayleigh scattering."
support: expect user "Thanks" "You are welcome."
`), scripted.WithRecording()))
	tree, err := LoadFS(fsys, ".", WithModel(func(name string) (llm.Model, error) { return script.Model(name), nil }))
	require.NoError(t, err)
	var names []string
	for n := range tree.Index().Walk() {
		names = append(names, n.Path)
	}
	require.Equal(t, []string{"support", "support/research", "support/other"}, names)

	r := must.Get(runner.New(tree.Root(), sessiontest.Memory(t)))
	require.Equal(t, []string{"research: It is Rayleigh scattering."}, say(t, r, "Why is the sky blue?"))
	require.Equal(t, []string{"support: You are welcome."}, say(t, r, "Thanks"))
	require.NoError(t, script.Done())
	last := script.Requests("support")[1].Messages
	require.Equal(t, "[research] It is Rayleigh scattering.", last[len(last)-2].PlainText())
}

// TestToolNodes: tool nodes of a graph's file have the tools of the program, the built-in one,
// or those of an agent beside the file. What is wrong is reported in its place.
func TestToolNodes(t *testing.T) {
	graph := func(agents string) map[string]string {
		return map[string]string{
			"g.yaml":  "apiVersion: arbor/v1\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec:\n  entrypoint: a\n  edges: [{from: a, to: b}]\n  agents:\n" + agents,
			"desk.md": "---\ntools: [refund]\n---\nYou route.", "front.md": "---\nsubagents: [desk]\n---\n",
		}
	}
	tree, err := LoadFS(mapFS(graph("    - {id: a, tool: refund}\n    - {id: b, tool: summarize_text}\n")), "g.yaml", WithModel(resolve), testTools(t, "refund"))
	require.NoError(t, err)
	g, ok := tree.Root().(*agentgraph.Agent)
	require.True(t, ok)
	require.Equal(t, []string{"tool refund", "tool summarize_text"}, []string{g.Graph().Nodes[0].Runs(), g.Graph().Nodes[1].Runs()})
	for agents, want := range map[string]string{
		"    - {id: a, agentRef: desk}\n    - {id: b, toolsOf: a}\n":                 "",
		"    - {id: a, agentRef: desk, tool: refund}\n    - {id: b, tool: refund}\n": "",
		"    - {id: a, tool: refnud}\n    - {id: b, agentRef: desk}\n":               `g.yaml:8: spec.agents[0].tool: there is no tool "refnud"; did you mean "refund"? [unknown_tool]`,
		"    - {id: a, agentRef: desk}\n    - {id: b, agentRef: desk, tool: x}\n":    `g.yaml:9: the node "b": agent "desk" has no tool "x"`,
		"    - {id: a, agentRef: front}\n    - {id: b, toolsOf: a}\n":                `agent "front": its tools cannot run in a node of their own, because it has sub-agents`,
	} {
		_, err := LoadFS(mapFS(graph(agents)), "g.yaml", WithModel(resolve), testTools(t, "refund"))
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}
