package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/eval/routing"
	"github.com/agentarbor/arbor/internal/testing/must"
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
	d := must.JSON[map[string]any](decisions[0])
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

// shopFolder is a tree with faults in its routing.
func shopFolder(t *testing.T, more ...string) {
	dir := t.TempDir()
	files := []string{
		"support.md", "---\nsubagents: [billing, money, tech]\n---\nYou help.",
		"billing.md", "---\ndescription: Invoices, payments and refunds\ntransfer: {parent: true}\n---\nMoney.",
		"money.md", "---\ndescription: Refunds, payments and invoices\ntransfer: {parent: true}\n---\nMoney.",
		"tech.md", "---\nname: tech\ndescription: Networks, \"\\e[31mrouters\"\ntransfer: {parent: true}\n---\nNets.",
	}
	files = append(files, more...)
	for i := 0; i < len(files); i += 2 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o600))
	}
	t.Chdir(dir)
}

func TestLintRouting(t *testing.T) {
	shopFolder(t)
	alike := "billing and money, to which support may transfer, are hard to tell apart: both descriptions have invoices, payments, refunds (likeness 1.00); say what only one of them is for"
	require.Equal(t, outcome{1, "ok: 4 agents\nbilling.md:1: " + alike + "\n", "arbor: 1 finding\n"}, invocation{}.run(t, "lint", ".", "--routing"))
	require.Equal(t, outcome{0, "ok: 4 agents\n", ""}, invocation{}.run(t, "lint", "."))
	require.Equal(t, outcome{0, "[]\n", ""}, invocation{}.run(t, "lint", ".", "--json"))
	got := invocation{}.run(t, "lint", ".", "--json", "--routing").exits(t, 1)
	found := must.JSON[[]routing.Finding](got.out)
	require.Equal(t, []routing.Finding{{Kind: routing.Kind("alike"), Agents: []string{"billing", "money"}, File: "billing.md", Line: 1, Message: alike}}, found)

	shopFolder(t, "money.md", "---\ndescription: Shares, funds and savings\n---\nMoney.", "tech.md", "---\ndescription: \"\\e[31m\"\ntransfer: {parent: true}\n---\nNets.")
	got = invocation{}.run(t, "lint", ".", "--routing").exits(t, 1)
	require.Contains(t, got.out, "money.md:1: money keeps the conversation: it may transfer to no agent")
	require.Contains(t, got.out, "tech.md:1: tech has a description that ")
	require.NotContains(t, got.out, "\x1b")

	shopFolder(t, "money.md", "---\ncolour: blue\n---\n")
	got = invocation{}.run(t, "lint", ".", "--routing", "--json").exits(t, 2)
	require.JSONEq(t, `[{"file":"money.md","line":2,"message":`+jsonOf(t, got.out)+`}]`, got.out)
}

// TestLintRoutingAsks asks a model.
func TestLintRoutingAsks(t *testing.T) {
	shopFolder(t, "money.md", "---\ndescription: Shares, funds and savings\ntransfer: {parent: true}\n---\nMoney.")
	script := answers(scripted.Reply(scripted.Text("hello"), scripted.Usage(10, 5, 0)))
	for range 2 {
		script.Add("model", scripted.Reply(scripted.Text("hello")))
	}
	// The three messages in each form: one tool, with which the model confuses two agents and answers the last message
	// itself, a tool for each target, and the question who answers.
	for range 2 { // of billing, money, tech
		script.Add("model", scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name": "money"}`)), scripted.Reply(scripted.Text("Done.")))
	}
	script.Add("model", scripted.Reply(scripted.Text("I can help.")))
	for _, name := range []string{"billing", "money", "tech"} {
		script.Add("model", scripted.Reply(scripted.Call("transfer_to_"+name, "{}")), scripted.Reply(scripted.Text("Done.")))
	}
	for _, name := range []string{"billing", "money", "support"} {
		script.Add("model", scripted.Reply(scripted.Text(name)), scripted.Reply(scripted.Text("Done.")))
	}
	env := serve(t, script)
	got := invocation{env: env}.run(t, "lint", ".", "--routing", "--model", "model", "--messages", "1").exits(t, 1)
	require.Equal(t, "ok: 4 agents\n"+
		"billing.md:1: 1 of 1 messages that the model model wrote for billing it gives to money, such as “hello”\n"+
		"\n"+
		"FORM                          RIGHT AT THE END  BETWEEN         TRANSFERS  CALLS SHOWN\n"+
		"transfer: {tools: one} (now)  1 of 3            6 % and 79 %    0.7        0\n"+
		"transfer: {tools: each}       3 of 3            44 % and 100 %  1.0        0\n"+
		"transfer: {profile: small}    2 of 3            21 % and 94 %   0.7        0\n"+
		"keep transfer: {tools: one}: with transfer: {tools: each} 3 of 3 messages end at the right agent, with transfer: {tools: one} 1, "+
		"which may be chance (p = 0.50); write more messages to know\n", got.out)
	require.Regexp(t, `^arbor: the model model is asked about 21 questions, of about \d+ tokens\narbor: it has used 10 tokens and answered with 5\narbor: 1 finding\n$`, got.err)
	require.NoError(t, script.Done())

	got = invocation{env: env}.run(t, "lint", ".", "--routing", "--model", "model").exits(t, 3, "the script is over")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--model", "model"}, "--model needs --routing"},
		{[]string{"--routing", "--messages", "2"}, "--messages needs --model"},
		{[]string{"--routing", "--messages", "21", "--model", "m"}, "--messages 21: give a whole number from 1 to 20"},
		{[]string{"--routing", "--model", "m"}, "there is no endpoint"},
	} {
		got := invocation{}.run(t, append([]string{"lint", "."}, c.args...)...).exits(t, 2, c.args)
		require.Contains(t, got.err, c.want)
	}
}

// TestLintRoutingForms: the tree is told to take another form, in text and as JSON.
func TestLintRoutingForms(t *testing.T) {
	shopFolder(t, "money.md", "---\ndescription: Shares, funds and savings\ntransfer: {parent: true}\n---\nMoney.")
	script := scripted.New()
	targets := []string{"billing", "money", "tech"}
	for range 2 { // runs of the command
		for range targets {
			script.Add("model", scripted.Reply(scripted.Text("first\nsecond")))
		}
		for range 12 { // in both forms with tools
			script.Add("model", scripted.Reply(scripted.Text("I can help.")))
		}
		for _, name := range targets {
			for range 2 {
				script.Add("model", scripted.Reply(scripted.Text(name)), scripted.Reply(scripted.Text("Done.")))
			}
		}
	}
	env := serve(t, script)
	why := "take transfer: {profile: small}: with transfer: {profile: small} 6 of 6 messages end at the right agent, with transfer: {tools: one} 0, which is hardly chance"
	got := invocation{env: env}.run(t, "lint", ".", "--routing", "--model", "model", "--messages", "2").exits(t, 1)
	require.Equal(t, "ok: 4 agents\nsupport.md:1: "+why+"\n\n"+
		"FORM                          RIGHT AT THE END  BETWEEN         TRANSFERS  CALLS SHOWN\n"+
		"transfer: {tools: one} (now)  0 of 6            0 % and 39 %    0.0        0\n"+
		"transfer: {tools: each}       0 of 6            0 % and 39 %    0.0        0\n"+
		"transfer: {profile: small}    6 of 6            61 % and 100 %  1.0        0\n", got.out)
	require.Contains(t, got.err, "arbor: 1 finding\n")

	got = invocation{env: env}.run(t, "lint", ".", "--routing", "--model", "model", "--messages", "2", "--json")
	require.Equal(t, 1, got.status, got.err)
	asked := must.JSON[routing.SurveyResult](got.out)
	require.Equal(t, []routing.Finding{{Kind: routing.Transfers, Agents: []string{"support"}, File: "support.md", Line: 1, Message: why}}, asked.Findings)
	require.Equal(t, routing.Form("transfer: {profile: small}"), asked.Take)
	require.Len(t, asked.Forms, 3)
	require.Equal(t, routing.Measured{Form: routing.Form("transfer: {profile: small}"), Right: eval.Wilson(6, 6), Transfers: 1}, asked.Forms[2])
	require.NoError(t, script.Done())
}

// jsonOf returns the message of the first problem, as JSON.
func jsonOf(t *testing.T, out string) string {
	problems := must.JSON[[]struct{ Message json.RawMessage }](out)
	require.Contains(t, string(problems[0].Message), "colour")
	return string(problems[0].Message)
}
