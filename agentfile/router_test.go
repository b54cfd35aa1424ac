package agentfile

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sessiontest"
)

const frontRouter = `kind: Router
default: b
specialists: [{agent: a, onError: b}, {agent: b}]
rules:
  - {when: {state: {key: tier, equals: gold}}, to: a, reason: gold}
  - {when: {state: {key: list, equals: [1, {x: null}]}}, to: a, reason: list}
  - {when: {state: {key: gone, equals: null}}, to: a, reason: absent}
  - {when: {expr: "state.n == 3 and state[\"m\"] == 'state.k'"}, to: a, reason: expression}
  - {when: {language: [de]}, to: a, reason: German}
  - {when: {any: [{keywords: [refund]}, {regex: '^!'}]}, to: a, reason: words}
  - {when: {wantsHuman: true}, to: human}
  - {when: {intent: {label: money}}, to: a, reason: intent}
  - {when: {all: [{sentiment: {label: frustration, above: 0.6}}, {not: {keywords: [ok]}}]}, to: human, reason: angry}
signals:
  intent:
    examples:
      money: [I was charged twice, where is my invoice, "pay the bill"]
      parcels: [where is my parcel, the parcel is late, "track the delivery"]
`

// TestRouterDecides asks a router that was read from a file what it would do: each matcher
// of the file is the one of package router.
func TestRouterDecides(t *testing.T) {
	tree, err := LoadFS(mapFS(map[string]string{"front.yaml": frontRouter, "a.md": "---\n---\n", "b.md": "---\n---\n"}), "front.yaml", WithModel(resolve))
	require.NoError(t, err)
	require.NotNil(t, tree.Index().Root().Human(), "rules lead to a person")
	front := tree.Root().(*router.Router)
	absent := map[string]any{"gone": 1}
	for _, c := range []struct {
		message         string
		metadata, state map[string]any
		want            string
	}{
		{"x", nil, map[string]any{"tier": "gold"}, "gold"},
		{"x", nil, map[string]any{"list": []any{1, map[string]any{"x": nil}}}, "list"},
		{"x", nil, nil, "absent"},
		{"x", nil, map[string]any{"gone": 1, "n": 3, "m": "state.k"}, "expression"},
		{"x", map[string]any{"language": "de-AT"}, absent, "German"},
		{"a Refund, please", nil, absent, "words"},
		{"!now", nil, absent, "words"},
		{"where is the invoice I was charged for", nil, absent, "intent"},
		{"this is useless, I am so angry!!!", nil, absent, "angry"},
		{"can I talk to a human", nil, absent, "wantsHuman()"},
		{"hello", nil, absent, "no rule matches"},
	} {
		d, err := front.Explain(t.Context(), c.message, c.metadata, c.state)
		require.NoError(t, err)
		require.Equal(t, c.want, d.Reason, c.message)
		require.Empty(t, d.Notices, c.message)
	}
}

// TestRouterOfFilesRuns runs turns: after an error the agent of onError answers, and an
// agent that has transfer.human: false cannot hand over to the person.
func TestRouterOfFilesRuns(t *testing.T) {
	script := must.Get(scripted.Parse([]byte("a: fault=status:400\nb: expect tools transfer_to_agent \"It is done.\"\nc: expect tools none \"You are welcome.\"\n")))
	models := WithModel(func(name string) (llm.Model, error) { return script.Model(name), nil })
	rule := strings.Replace(frontRouter, "rules:", "sticky: true\nrules:\n  - {when: {keywords: [thanks]}, to: c}", 1)
	tree, err := LoadFS(mapFS(map[string]string{"front.yaml": strings.Replace(rule, "{agent: b}]", "{agent: b}, {agent: c}]", 1),
		"a.md": "---\nmodel: a\n---\n", "b.md": "---\nmodel: b\n---\n", "c.md": "---\nmodel: c\ntransfer: {human: false}\n---\n"}), ".", models)
	require.NoError(t, err)
	r := must.Get(runner.New(tree.Root(), sessiontest.Memory(t), runner.WithDesk(human.Log{})))
	require.Equal(t, []string{"b: It is done."}, say(t, r, "a refund"))
	require.Equal(t, []string{"c: You are welcome."}, say(t, r, "Thanks"))
	require.NoError(t, script.Done())
	_, err = runner.New(tree.Root(), sessiontest.Memory(t))
	require.ErrorContains(t, err, "the runner has no desk")
}

// TestRouterInGraph puts a router in Markdown into a node of a graph, where nobody sits at a desk.
func TestRouterInGraph(t *testing.T) {
	files := map[string]string{"a.md": "---\nmodel: a\n---\n", "front/x.txt": "", "front.md": "---\nrules: [{when: {keywords: [x]}, to: a}]\ndefault: a\nspecialists: [{agent: a}]\n---\n",
		"g.yaml": "apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec:\n  agents:\n    - {id: x, agentRef: front}\n  entrypoint: x\n"}
	tree, err := LoadFS(mapFS(files), "g.yaml", WithModel(resolve))
	require.NoError(t, err)
	require.Equal(t, "g", tree.Root().Name())
	files["g.yaml"] = strings.Replace(files["g.yaml"], "front}", "front, config: {model: x}}", 1)
	_, err = LoadFS(mapFS(files), "g.yaml", WithModel(resolve))
	require.ErrorContains(t, err, `g.yaml:6: the node "x": the agent "front" is a router, and a router has no configuration`)
}

// TestFormsOfKind reads routers and graphs whose key kind does not stand alone at the beginning of the file.
func TestFormsOfKind(t *testing.T) {
	const front = "kind: Router\ndefault: a\nrules: [{when: {keywords: [x]}, to: a}]\n"
	const graph = "kind: AgentGraph\napiVersion: arbor/v1\nmetadata: {name: front, version: 1.0.0}\nspec: {agents: [{id: x, agentRef: a}], entrypoint: x}\n"
	for _, text := range []string{front, graph} {
		asJSON, err := yaml.YAMLToJSON([]byte(text))
		require.NoError(t, err)
		for _, form := range []string{text, "\ufeff" + text, "\ufeff" + strings.ReplaceAll(text, "\n", "\r\n"), strings.Replace(text, "kind", "'kind'", 1), string(asJSON)} {
			tree, err := LoadFS(mapFS(map[string]string{"front.yaml": form, "a.md": "---\n---\n"}), "front.yaml", WithModel(resolve))
			require.NoError(t, err, form)
			require.Equal(t, "front", tree.Root().Name())
		}
	}
	_, err := LoadFS(mapFS(map[string]string{"g.yaml": "\ufeff" + graph}), ".", WithModel(resolve))
	require.ErrorContains(t, err, `there is no agent "a"`, "the folder holds the graph alone")
}

// TestEntriesAreNotInTheFolder: the agents that are only entries of a list do not belong to the agent of the folder too.
func TestEntriesAreNotInTheFolder(t *testing.T) {
	const front = "description: x\ndefault: far\nspecialists: [{a2a: 'https://far.example.com', description: y}]\n"
	const graph = "apiVersion: arbor/v1\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec:\n  agents: [{id: x, tool: summarize_text}]\n  entrypoint: x\n"
	for want, files := range map[string]map[string]string{
		"root front far":      {"root.md": "---\n---\n", "root/front.yaml": "kind: Router\n" + front},
		"root front far far2": {"root.md": "---\n---\n", "root/front.md": "---\n" + strings.Replace(front, "y}]", "y}, {a2a: 'https://far2.example.com'}]", 1) + "rules: []\n---\n"},
		"root desk g":         {"root.md": "---\nsubagents: [desk, desk/g.yaml]\n---\n", "desk.md": "---\n---\n", "desk/g.yaml": graph},
	} {
		alone := mapFS(files)
		tree, err := LoadFS(alone, ".", WithModel(resolve))
		require.NoError(t, err)
		var names []string
		for n := range tree.Index().Walk() {
			names = append(names, n.Agent.Name())
		}
		require.Equal(t, want, strings.Join(names, " "))
		files["node.yaml"] = strings.Replace(graph, "tool: summarize_text", "agentRef: root", 1)
		_, err = LoadFS(mapFS(files), "node.yaml", WithModel(resolve))
		require.NoError(t, err)
	}
}

func TestNamesOfRemoteSpecialists(t *testing.T) {
	for address, want := range map[string]string{
		"https://billing.example.com": "billing", "https://example.com/agents/billing/": "billing", "http://localhost:8080": "localhost-8080",
		"http://10.0.0.1/.well-known/agent-card.json": "10-0-0-1", "http://[::1]:80/a%20b": "a-b", "https://x.example.com/cards/stock.json": "stock",
	} {
		require.Equal(t, want, value{text: address}.name(), address)
	}
	require.Equal(t, "billing", value{variable: "BILLING_URL"}.name())
}
