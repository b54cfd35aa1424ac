package main

import (
	"context"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
)

// TestData holds the halves against each other: what is chosen by the one must be
// judged by a list of the same kind.
func TestData(t *testing.T) {
	all, err := roles()
	require.NoError(t, err)
	require.Len(t, all, 7)
	for _, r := range all {
		require.NotEmpty(t, r.Description, r.Name)
		require.NotEmpty(t, r.Instruction, r.Name)
	}
	chosen, err := choose("today")
	require.NoError(t, err)
	root, err := tree(&router{}, 96, chosen[0])
	require.NoError(t, err)
	messages, err := load("data/messages.yaml", "all", -1)
	require.NoError(t, err)
	talks, err := load("data/conversations.yaml", "all", -1)
	require.NoError(t, err)
	require.NoError(t, eval.Check(slices.Concat(messages, talks), root), "every name is an agent's")

	halfOf := func(c eval.Case) string {
		require.NotEqual(t, slices.Contains(c.Tags, "tune"), slices.Contains(c.Tags, "held"), c.Name)
		if slices.Contains(c.Tags, "tune") {
			return "tune"
		}
		return "held"
	}
	texts := map[string]bool{}
	halves := map[string]map[string]int{}
	for _, c := range messages {
		require.Len(t, c.Turns, 1, c.Name)
		require.Len(t, c.Tags, 3, "%s: a half, a language and a style", c.Name)
		require.False(t, texts[c.Turns[0].User], c.Name)
		texts[c.Turns[0].User] = true
		path := c.Turns[0].Expect.Path
		require.Equal(t, []string{"support"}, path[0], c.Name)
		right := path[len(path)-1]
		require.Len(t, right, 1, c.Name)
		require.True(t, strings.HasPrefix(c.Name, right[0]+"-"), c.Name)
		if halves[right[0]] == nil {
			halves[right[0]] = map[string]int{}
		}
		halves[right[0]][halfOf(c)]++
	}
	require.Len(t, messages, 126)
	require.Len(t, halves, 7)
	for name, n := range halves {
		require.Equal(t, map[string]int{"tune": 9, "held": 9}, n, name)
	}
	n := map[string]int{}
	for _, c := range talks {
		n[halfOf(c)]++
		require.Len(t, c.Turns, 4, c.Name)
		for _, turn := range c.Turns {
			require.Equal(t, eval.Path{nil, turn.Expect.Answers}, turn.Expect.Path, c.Name)
		}
	}
	require.Equal(t, map[string]int{"tune": 5, "held": 5}, n)
}

// router is a model that knows the answers, but for two: once it writes a call that it
// should make, and once it fails.
type router struct{ right map[string]string }

func (m *router) Name() string { return "router" }

func (m *router) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		said := ""
		for _, msg := range req.Messages {
			if msg.Role == llm.RoleUser {
				said = msg.PlainText()
			}
		}
		chunk := llm.Chunk{Text: "Certainly.", Finish: llm.FinishStop, Usage: &llm.Usage{InputTokens: 100, CachedTokens: 40, OutputTokens: 2}}
		right, known := m.right[said]
		desk := strings.HasPrefix(req.System, "You are the front desk")
		switch {
		case !known:
			yield(llm.Chunk{}, &llm.Error{Code: llm.CodeBadRequest, Message: "never heard"})
			return
		case right == "leak":
			chunk.Text = `I say {"name": "transfer_to_agent"`
		case desk && right != "support":
			call := llm.ToolCall{ID: "c1", Name: agent.TransferTool, Arguments: `{"agent_name":"` + right + `"}`}
			if !yield(llm.Chunk{Call: &call}, nil) {
				return
			}
			chunk.Text, chunk.Finish = "", llm.FinishToolCalls
		}
		yield(chunk, nil)
	}
}

// TestRun runs the whole command against an endpoint, and reads its results again.
func TestRun(t *testing.T) {
	model := &router{right: map[string]string{}}
	for _, file := range []string{"data/messages.yaml", "data/conversations.yaml"} {
		cases, err := load(file, "all", -1)
		require.NoError(t, err)
		for _, c := range cases {
			for _, turn := range c.Turns {
				path := turn.Expect.Path
				model.right[turn.User] = path[len(path)-1][0]
			}
		}
	}
	model.right["where is my parcel"] = "leak"
	delete(model.right, "forgot password")
	server, err := endpoint.Start(func(string) (llm.Model, bool) { return model, true })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	getenv := func(name string) string {
		return map[string]string{"OPENAI_BASE_URL": server.URL(), "OPENAI_MODEL": "router"}[name]
	}
	call := func(args ...string) (string, error) {
		var out strings.Builder
		err := run(t.Context(), args, getenv, &out, io.Discard)
		return out.String(), err
	}

	file := filepath.Join(t.TempDir(), "results.json")
	got, err := call("-messages", "tune", "-n", "7", "-conversations", "1", "-variant", "today,leaked-off", "-out", file)
	require.NoError(t, err)
	require.Contains(t, got, "| | router, today, tune | router, leaked-off, tune |")
	for _, cell := range []string{
		"first hop right | 5 of 7, 71 % (36–92 %)",
		"by the right agent | account 0/1, billing 1/1, careers 1/1, sales 1/1, shipping 0/1, support 1/1, technical 1/1",
		"chosen | billing 1, careers 1, sales 1, support 2, technical 1",
		"right agent at the end | 5 of 7",
		"conversation turns right | 2 of 4", // a specialist of this model never hands back
		"where the subject changed | 0 of 1",
		"no words for the user | 1 of 11",
		"calls shown to the user | 1 of 11",
		"errors | 1 of 11 (bad\\_request 1)",
		"tokens computed anew, a turn | 82", // 15 questions in 11 turns
		"first answer after a transfer | 60",
	} {
		require.Contains(t, got, cell)
	}

	again, err := call("-read", file)
	require.NoError(t, err)
	require.Equal(t, got, again)
	both, err := call("-read", file+","+file)
	require.NoError(t, err)
	require.Contains(t, both, "| | router, today, tune | router, leaked-off, tune | router, today, tune | router, leaked-off, tune |")
	_, err = call("-messages", "tune", "-n", "1", "-out", file)
	require.ErrorContains(t, err, "-out must be a new file")

	report, err := readAll([]string{file})
	require.NoError(t, err)
	require.Len(t, report.Subjects, 2)
	require.Len(t, report.Subjects[0].Outcomes, 8)
	require.Equal(t, `I say {"name": "transfer_to_agent"`, report.Subjects[0].Outcomes[1].Turns[0].Said)

	_, err = call("-read", file, "-check")
	require.ErrorContains(t, err, "shipping-01")
	require.ErrorContains(t, err, "account-01")
	_, err = call("-messages", "held", "-n", "2", "-check")
	require.NoError(t, err)
}

// TestGone ends a run whose endpoint is not there, instead of counting errors.
func TestGone(t *testing.T) {
	server, err := endpoint.Start(func(string) (llm.Model, bool) { return nil, false })
	require.NoError(t, err)
	require.NoError(t, server.Close())
	getenv := func(name string) string {
		return map[string]string{"OPENAI_BASE_URL": server.URL(), "OPENAI_MODEL": "router"}[name]
	}
	var out strings.Builder
	err = run(t.Context(), nil, getenv, &out, io.Discard)
	require.ErrorContains(t, err, "unreachable")
	require.Empty(t, out.String())
}

func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-messages some":   `-messages can be tune, held or all, not "some"`,
		"-variant best":    `there is no variant "best"; there are today, `,
		"-max-tokens 0":    "-max-tokens must be above zero",
		"today":            `"today" is no flag`,
		"-read none.jsonl": "none.jsonl",
		"-n 1":             "OPENAI_BASE_URL",
	} {
		err := run(t.Context(), strings.Fields(args), func(string) string { return "" }, io.Discard, io.Discard)
		require.ErrorContains(t, err, want, args)
	}
	// Every variant makes a tree that can run.
	chosen, err := choose("all")
	require.NoError(t, err)
	for _, v := range chosen {
		root, err := tree(&router{}, 96, v)
		require.NoError(t, err, v.name)
		_, err = agent.NewTree(root)
		require.NoError(t, err, v.name)
	}
}
