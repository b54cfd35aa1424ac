package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
	"github.com/agentarbor/arbor/llm/scripted"
)

var frontFiles = map[string]string{
	"front.yaml": `kind: Router
description: Finds who answers
default: support
sticky: true
specialists: [{agent: billing, onError: support}, {agent: support}, {agent: shop}]
rules:
  - {when: {wantsHuman: true}, to: human, reason: asks for a person}
  - {when: {all: [{keywords: [refund]}, {state: {key: tier, equals: gold}}]}, to: billing}
  - {when: {intent: {label: parcels, above: 0.6}}, to: shop}
signals: {deadline: 1m, intent: {model: small, labels: {parcels: where a parcel is, other: anything else}}}
`,
	"shop.yaml":  "kind: Router\ndefault: shoes\nrules:\n  - {when: {language: [de]}, to: shoes}\n  - {when: {language: [de]}, to: hats}\n  - {when: {regex: .*}, to: hats}\n  - {when: {wantsHuman: true}, to: hats}\n",
	"billing.md": "---\ntransfer: {human: false}\n---\nMoney.", "support.md": "---\n---\nHelp.", "shoes.md": "---\n---\nShoes.", "hats.md": "---\n---\nHats.",
}

func frontFolder(t *testing.T, change ...string) string {
	dir := filepath.Join(t.TempDir(), "desk")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "../plain"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "../plain/a.md"), []byte("---\n---\n"), 0o600))
	for name, text := range frontFiles {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.NewReplacer(change...).Replace(text)), 0o600))
	}
	t.Chdir(dir)
	return "front.yaml"
}

func TestRouterValidate(t *testing.T) {
	front := frontFolder(t)
	idle := `arbor: router shop: rule 1 never matches, because rule 0 is for the same: language("de")
arbor: router shop: rule 3 never matches, because rule 2 always does
`
	require.Equal(t, outcome{0, "ok: 2 routers with 7 rules, 6 agents\n", idle}, invocation{}.run(t, "router", "validate", front))
	require.Equal(t, outcome{0, "[]\n", idle}, invocation{}.run(t, "router", "validate", front, "--json"))
	require.Equal(t, outcome{0, "ok: 6 agents, 2 routers with 7 rules\n", idle}, invocation{}.run(t, "lint", "."))
	require.Equal(t, outcome{2, "", "arbor: there is no router: it is a file with kind: Router, or an agent in Markdown with rules\n"},
		invocation{}.run(t, "router", "validate", "../plain"))
	require.Equal(t, 2, invocation{}.run(t, "router", "validate", "none.yaml").status)

	front = frontFolder(t, "default: support", "default: suport", "regex: .*", "regex: '('")
	want := `front.yaml:3: there is no specialist "suport"; did you mean "support"?
shop.yaml:6: the regular expression cannot be read: error parsing regexp: missing closing ): ` + "`(`\n"
	require.Equal(t, outcome{2, want, "arbor: 2 problems\n"}, invocation{}.run(t, "router", "validate", front))
	got := invocation{}.run(t, "router", "validate", front, "--json")
	var problems []struct {
		File    string
		Line    int
		Message string
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &problems))
	require.Len(t, problems, 2)
	require.Equal(t, 6, problems[1].Line)
	require.Equal(t, "shop.yaml", problems[1].File)
}

func TestRouterExplain(t *testing.T) {
	front := frontFolder(t)
	explain := func(env []string, args ...string) outcome {
		o := invocation{env: env}.run(t, append([]string{"router", "explain"}, args...)...)
		o.out = regexp.MustCompile(`time       \S+`).ReplaceAllString(o.out, "time       T")
		return o
	}
	require.Equal(t, outcome{0, `front: rule 1 → billing
  rule       all(keyword("refund"), state("tier", "gold"))
  matched    keyword "refund" and state("tier", "gold")
  time       T
`, ""}, explain(nil, front, "A refund, please", "--state", "tier=gold"))
	require.Equal(t, outcome{0, `front: rule 0 → human
  rule       wantsHuman()
  matched    wantsHuman in the metadata
  reason     asks for a person
  time       T
`, ""}, explain(nil, front, "A refund, please", "--metadata", "wantsHuman=true"))

	// Without an endpoint no model is asked, and the message is routed all the same.
	got := explain(nil, front, "hello")
	require.Contains(t, got.err, "arbor: the model small is not asked, because there is no endpoint")
	require.Contains(t, got.out, "front: no rule matches → support\n")
	require.Contains(t, got.out, "  notice     the intent of the message is not known")

	script := must.Get(scripted.Parse([]byte("small: \"parcels\" always\n")))
	server := must.Get(endpoint.Start(script.Models()))
	defer server.Close()
	env := []string{"OPENAI_BASE_URL=" + server.URL(), "OPENAI_MODEL=big"}
	got = explain(env, front, "where is it", "--language", "de-AT")
	require.Equal(t, "arbor: the model small is asked\n", got.err)
	require.Equal(t, `front: rule 2 → shop
  rule       intent("parcels", 0.6)
  matched    intent parcels 1.00
  intent     parcels 1.00
  language   de-AT
  time       T
shop: rule 0 → shoes
  rule       language("de")
  matched    language de-AT
  language   de-AT
  time       T
`, got.out)
	got = explain(env, front, "where is it", "--json")
	decisions := strings.Split(strings.TrimSpace(got.out), "\n")
	require.Len(t, decisions, 2)
	var d map[string]any
	require.NoError(t, json.Unmarshal([]byte(decisions[0]), &d))
	require.Equal(t, 2.0, d["ruleIndex"])
	require.Equal(t, "shop", d["to"])

	require.Contains(t, explain(nil, ".", "hello", "--router", "shop").out, "shop: rule 2 → hats")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{front}, "MESSAGE is missing"},
		{[]string{front, "a", "b"}, "1 argument too many"},
		{[]string{front, "a", "--state", "x"}, "--state x: it must be KEY=VALUE"},
		{[]string{front, "a", "--router", "shp"}, `there is no such router; did you mean "shop"?`},
		{[]string{"../plain", "a"}, "there is no router"},
	} {
		got := explain(nil, c.args...)
		require.Equal(t, 2, got.status, c.args)
		require.Contains(t, got.err, c.want)
	}
}

// TestTreeDrawsRouters holds the drawings of a tree with rules.
func TestTreeDrawsRouters(t *testing.T) {
	front := frontFolder(t)
	require.Equal(t, outcome{0, `front  Finds who answers
│   0  wantsHuman() → human  asks for a person
│   1  all(keyword("refund"), state("tier", "gold")) → billing
│   2  intent("parcels", 0.6) → shop
│   else → the agent that was in charge before, or support
│   after an error of billing: support
├─ billing
├─ support
│      may also transfer to: human
└─ shop
   │   0  language("de") → shoes
   │   1  language("de") → hats
   │   2  regexp(".*") → hats
   │   3  wantsHuman() → hats
   │   else → shoes
   ├─ shoes
   │      may also transfer to: human
   └─ hats
          may also transfer to: human
`, ""}, invocation{}.run(t, "tree", front))
	got := invocation{}.run(t, "tree", front, "--format", "mermaid").out
	for _, line := range []string{`n0{{"front"}}`, `human(["human"])`, `n0 -->|"0 wantsHuman()"| human`, `n0 -->|"else"| n2`, `n2 -.-> human`, `n3 -->|"0 language(#quot;de#quot;)<br>else"| n4`} {
		require.Contains(t, got, "    "+line+"\n")
	}
	require.NotContains(t, got, "n1 -.->")
	got = invocation{}.run(t, "tree", front, "--format", "dot").out
	for _, line := range []string{`n0 [label="front", tooltip="Finds who answers", shape=hexagon];`, `n0 -> human [label="0 wantsHuman()"];`, `n3 -> n4 [label="0 language(\"de\")\nelse"];`} {
		require.Contains(t, got, "  "+line+"\n")
	}
	require.Regexp(t, `human \[label="human", tooltip="A person.*", shape=oval\];`, got)
	got = invocation{}.run(t, "tree", front, "--format", "json").out
	var tree struct {
		Router struct {
			Rules   []map[string]any
			Default string
			Sticky  bool
			OnError map[string]string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got), &tree))
	require.Len(t, tree.Router.Rules, 3)
	require.Equal(t, "human", tree.Router.Rules[0]["to"])
	require.True(t, tree.Router.Sticky)
	require.Equal(t, map[string]string{"billing": "support"}, tree.Router.OnError)
}

// TestRunRouter runs a turn of a router in a file: one that leads to a person waits at the desk.
func TestRunRouter(t *testing.T) {
	front := frontFolder(t, "{model: small, labels: {parcels: where a parcel is, other: anything else}}", "{examples: {parcels: [where is my parcel], other: [thanks]}}")
	home := t.TempDir()
	got := invocation{home: home}.run(t, "run", front, "I want to talk to a person", "--session", "s1")
	require.Contains(t, got.out, "front → human")
	require.Contains(t, invocation{home: home}.run(t, "desk", "ls").out, "s1")
	got = invocation{home: home}.run(t, "run", front, "where is my parcel", "--session", "s2")
	require.Contains(t, got.out, "front → shop")
	require.Contains(t, got.out, "shop → hats")
	require.Contains(t, got.out, "I am the offline model")
}
