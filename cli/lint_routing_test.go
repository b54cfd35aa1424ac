package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/eval/routing"
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
	alike := "billing and money, which support may hand over to, are hard to tell apart: both descriptions have invoices, payments, refunds (likeness 1.00); say what only one of them is for"
	require.Equal(t, outcome{1, "ok: 4 agents\nbilling.md:1: " + alike + "\n", "arbor: 1 finding\n"}, invocation{}.run(t, "lint", ".", "--routing"))
	require.Equal(t, outcome{0, "ok: 4 agents\n", ""}, invocation{}.run(t, "lint", "."))
	require.Equal(t, outcome{0, "[]\n", ""}, invocation{}.run(t, "lint", ".", "--json"))
	got := invocation{}.run(t, "lint", ".", "--json", "--routing")
	require.Equal(t, 1, got.status)
	var found []routing.Finding
	require.NoError(t, json.Unmarshal([]byte(got.out), &found))
	require.Equal(t, []routing.Finding{{Kind: routing.Alike, Agents: []string{"billing", "money"}, File: "billing.md", Line: 1, Message: alike}}, found)

	shopFolder(t, "money.md", "---\ndescription: Shares, funds and savings\n---\nMoney.", "tech.md", "---\ndescription: \"\\e[31m\"\ntransfer: {parent: true}\n---\nNets.")
	got = invocation{}.run(t, "lint", ".", "--routing")
	require.Equal(t, 1, got.status, got.err)
	require.Contains(t, got.out, "money.md:1: nobody gets the conversation back from money: it may hand over to nobody")
	require.Contains(t, got.out, "tech.md:1: tech has a description that ")
	require.NotContains(t, got.out, "\x1b")

	shopFolder(t, "money.md", "---\ncolour: blue\n---\n")
	got = invocation{}.run(t, "lint", ".", "--routing", "--json")
	require.Equal(t, 2, got.status)
	require.JSONEq(t, `[{"file":"money.md","line":2,"message":`+jsonOf(t, got.out)+`}]`, got.out)
}

// jsonOf returns the message of the first problem, as JSON.
func jsonOf(t *testing.T, out string) string {
	var problems []struct{ Message json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(out), &problems))
	require.Contains(t, string(problems[0].Message), "colour")
	return string(problems[0].Message)
}
