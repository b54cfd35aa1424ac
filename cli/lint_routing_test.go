package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/eval/routing"
	"github.com/agentarbor/arbor/llm/scripted"
)

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
	got := invocation{}.run(t, "lint", ".", "--json", "--routing")
	require.Equal(t, 1, got.status)
	var found []routing.Finding
	require.NoError(t, json.Unmarshal([]byte(got.out), &found))
	require.Equal(t, []routing.Finding{{Kind: routing.Kind("alike"), Agents: []string{"billing", "money"}, File: "billing.md", Line: 1, Message: alike}}, found)

	shopFolder(t, "money.md", "---\ndescription: Shares, funds and savings\n---\nMoney.", "tech.md", "---\ndescription: \"\\e[31m\"\ntransfer: {parent: true}\n---\nNets.")
	got = invocation{}.run(t, "lint", ".", "--routing")
	require.Equal(t, 1, got.status, got.err)
	require.Contains(t, got.out, "money.md:1: money keeps the conversation: it may transfer to no agent")
	require.Contains(t, got.out, "tech.md:1: tech has a description that ")
	require.NotContains(t, got.out, "\x1b")

	shopFolder(t, "money.md", "---\ncolour: blue\n---\n")
	got = invocation{}.run(t, "lint", ".", "--routing", "--json")
	require.Equal(t, 2, got.status)
	require.JSONEq(t, `[{"file":"money.md","line":2,"message":`+jsonOf(t, got.out)+`}]`, got.out)
}

// TestLintRoutingAsks asks a model.
func TestLintRoutingAsks(t *testing.T) {
	shopFolder(t, "money.md", "---\ndescription: Shares, funds and savings\ntransfer: {parent: true}\n---\nMoney.")
	script := answers(scripted.Reply(scripted.Text("SAME Where is my money?"), scripted.Usage(10, 5, 0)))
	for range 2 {
		script.Add("model", scripted.Reply(scripted.Text("CLEAR")))
	}
	for _, name := range []string{"money", "money", "tech"} { // of billing, money, tech
		script.Add("model", scripted.Reply(scripted.Text("hello")), scripted.Reply(scripted.Text(name)))
	}
	// The three messages in each form: one tool, with which the model answers itself, a tool for each target, and
	// the question who answers.
	for range 3 {
		script.Add("model", scripted.Reply(scripted.Text("I can help.")))
	}
	for _, name := range []string{"billing", "money", "tech"} {
		script.Add("model", scripted.Reply(scripted.Call("transfer_to_"+name, "{}")), scripted.Reply(scripted.Text("Done.")))
	}
	for _, name := range []string{"billing", "money", "support"} {
		script.Add("model", scripted.Reply(scripted.Text(name)), scripted.Reply(scripted.Text("Done.")))
	}
	env := serve(t, script)
	got := invocation{env: env}.run(t, "lint", ".", "--routing", "--model", "model", "--messages", "1")
	require.Equal(t, 1, got.status, got.err)
	require.Equal(t, "ok: 4 agents\n"+
		"billing.md:1: billing and money are the same to the model model: it cannot say which of them answers “Where is my money?”\n"+
		"billing.md:1: 1 of 1 messages that the model model wrote for billing it gives to money, such as “hello”\n"+
		"\n"+
		"FORM                          RIGHT AT THE END  BETWEEN         TRANSFERS  CALLS SHOWN\n"+
		"transfer: {tools: one} (now)  0 of 3            0 % and 56 %    0.0        0\n"+
		"transfer: {tools: each}       3 of 3            44 % and 100 %  1.0        0\n"+
		"transfer: {profile: small}    2 of 3            21 % and 94 %   0.7        0\n"+
		"keep transfer: {tools: one}: with transfer: {tools: each} 3 of 3 messages end at the right agent, with transfer: {tools: one} 0, "+
		"which may be chance (p = 0.25); write more messages to know\n", got.out)
	require.Regexp(t, `^arbor: the model model is asked about 27 questions, of about \d+ tokens\narbor: it has used 10 tokens and answered with 5\narbor: 2 findings\n$`, got.err)
	require.NoError(t, script.Done())

	got = invocation{env: env}.run(t, "lint", ".", "--routing", "--model", "model")
	require.Equal(t, 3, got.status, "the script is over: %s", got.err)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--model", "model"}, "--model needs --routing"},
		{[]string{"--routing", "--messages", "2"}, "--messages needs --model"},
		{[]string{"--routing", "--messages", "21", "--model", "m"}, "--messages 21: give a whole number from 0 to 20"},
		{[]string{"--routing", "--model", "m"}, "there is no endpoint"},
	} {
		got := invocation{}.run(t, append([]string{"lint", "."}, c.args...)...)
		require.Equal(t, 2, got.status, c.args)
		require.Contains(t, got.err, c.want)
	}
}

// TestLintRoutingForms: the tree is told to take another form, in text and as JSON.
func TestLintRoutingForms(t *testing.T) {
	shopFolder(t, "money.md", "---\ndescription: Shares, funds and savings\ntransfer: {parent: true}\n---\nMoney.")
	script := scripted.New()
	targets := []string{"billing", "money", "tech"}
	for range 2 { // runs of the command
		for range 3 {
			script.Add("model", scripted.Reply(scripted.Text("CLEAR")))
		}
		for _, name := range targets {
			script.Add("model", scripted.Reply(scripted.Text("first\nsecond")), scripted.Reply(scripted.Text(name)), scripted.Reply(scripted.Text(name)))
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
	got := invocation{env: env}.run(t, "lint", ".", "--routing", "--model", "model", "--messages", "2")
	require.Equal(t, 1, got.status, got.err)
	require.Equal(t, "ok: 4 agents\nsupport.md:1: "+why+"\n\n"+
		"FORM                          RIGHT AT THE END  BETWEEN         TRANSFERS  CALLS SHOWN\n"+
		"transfer: {tools: one} (now)  0 of 6            0 % and 39 %    0.0        0\n"+
		"transfer: {tools: each}       0 of 6            0 % and 39 %    0.0        0\n"+
		"transfer: {profile: small}    6 of 6            61 % and 100 %  1.0        0\n", got.out)
	require.Contains(t, got.err, "arbor: 1 finding\n")

	got = invocation{env: env}.run(t, "lint", ".", "--routing", "--model", "model", "--messages", "2", "--json")
	require.Equal(t, 1, got.status, got.err)
	var asked routing.SurveyResult
	require.NoError(t, json.Unmarshal([]byte(got.out), &asked))
	require.Equal(t, []routing.Finding{{Kind: routing.Transfers, Agents: []string{"support"}, File: "support.md", Line: 1, Message: why}}, asked.Findings)
	require.Equal(t, routing.Form("transfer: {profile: small}"), asked.Take)
	require.Len(t, asked.Forms, 3)
	require.Equal(t, routing.Measured{Form: routing.Form("transfer: {profile: small}"), Right: eval.Wilson(6, 6), Transfers: 1}, asked.Forms[2])
	require.NoError(t, script.Done())
}

// jsonOf returns the message of the first problem, as JSON.
func jsonOf(t *testing.T, out string) string {
	var problems []struct{ Message json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(out), &problems))
	require.Contains(t, string(problems[0].Message), "colour")
	return string(problems[0].Message)
}
