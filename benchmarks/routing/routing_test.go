package main

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
)

// TestData holds the halves against each other: what is chosen by the one must be
// judged by a list of the same kind.
func TestData(t *testing.T) {
	d, err := load()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, r := range d.roles {
		names[r.Name] = true
		require.NotEmpty(t, r.Description, r.Name)
		require.NotEmpty(t, r.Instruction, r.Name)
	}
	require.Len(t, names, 7)

	ids, texts := map[string]bool{}, map[string]bool{}
	halves := map[string]map[half]int{}
	for _, m := range d.messages {
		require.False(t, ids[m.ID] || texts[m.Text], m.ID)
		ids[m.ID], texts[m.Text] = true, true
		require.True(t, names[m.Right], m.ID)
		require.NotEmpty(t, m.Lang, m.ID)
		require.NotEmpty(t, m.Style, m.ID)
		if halves[m.Right] == nil {
			halves[m.Right] = map[half]int{}
		}
		halves[m.Right][m.Half]++
	}
	require.GreaterOrEqual(t, len(d.messages), 100)
	require.Len(t, halves, len(names))
	for name, n := range halves {
		require.Len(t, n, 2, name)
		require.Equal(t, n[tune], n[held], name)
	}

	n := map[half]int{}
	for _, c := range d.conversations {
		n[c.Half]++
		require.False(t, ids[c.ID], c.ID)
		ids[c.ID] = true
		require.Len(t, c.Turns, 4, c.ID)
		for _, p := range c.Turns {
			require.True(t, names[p.Right], c.ID)
			require.True(t, p.Also == "" || names[p.Also] && p.Also != p.Right, c.ID)
		}
	}
	require.Equal(t, map[half]int{tune: 5, held: 5}, n)
}

func TestWilson(t *testing.T) {
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{{0, 10, 0, 0.2775}, {5, 10, 0.2366, 0.7634}, {10, 10, 0.7225, 1}, {81, 263, 0.2553, 0.3662}} {
		low, high := wilson(c.k, c.n)
		require.InDelta(t, c.low, low, 1e-4, "%d of %d", c.k, c.n)
		require.InDelta(t, c.high, high, 1e-4, "%d of %d", c.k, c.n)
	}
}

func TestLooksLikeCall(t *testing.T) {
	for _, text := range []string{
		`{"name": "transfer_to_agent", "arguments": {"agent_name": "billing"`,
		"<tool_call>\nbilling",
		"<tools></tools>",
		"I will use transfer_to_billing now.",
		`{"function": "billing"}`,
	} {
		require.True(t, looksLikeCall(text), text)
	}
	for _, text := range []string{"", "Billing will call you.", "I transfer you to an agent with the name Kim.", "{no call}"} {
		require.False(t, looksLikeCall(text), text)
	}
}

func TestRight(t *testing.T) {
	own := turn{prompt: prompt{Right: "support"}, First: "support", End: "support"}
	require.True(t, own.firstRight() && own.endRight())
	leaked := own
	leaked.Steps = []step{{Agent: "support", Text: `{"name": "transfer_to_agent"`}}
	require.False(t, leaked.firstRight() || leaked.endRight())
	silent := own
	silent.End = ""
	require.False(t, silent.endRight())
	either := turn{prompt: prompt{Right: "billing", Also: "support"}, First: "billing", End: "support"}
	require.True(t, either.firstRight() && either.endRight())
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
	d, err := load()
	require.NoError(t, err)
	model := &router{right: map[string]string{}}
	for _, m := range d.messages {
		model.right[m.Text] = m.Right
	}
	for _, c := range d.conversations {
		for _, p := range c.Turns {
			model.right[p.Text] = p.Right
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

	file := filepath.Join(t.TempDir(), "results.jsonl")
	got, err := call("-messages", "tune", "-n", "7", "-conversations", "1", "-variant", "today,leaked-off", "-out", file)
	require.NoError(t, err)
	require.Contains(t, got, "| | router, today, tune | router, leaked-off, tune |")
	for _, cell := range []string{
		"first hop right | 5 of 7, 71 % (36–92 %)",
		"by the right agent | account 0/1, billing 1/1, careers 1/1, sales 1/1, shipping 0/1, support 1/1, technical 1/1",
		"chosen | billing 1, careers 1, sales 1, support 3, technical 1",
		"right agent at the end | 5 of 7",
		"conversation turns right | 2 of 4", // a specialist of this model never hands back
		"where the subject changed | 0 of 1",
		"no words for the user | 1 of 11",
		"calls shown to the user | 1 of 11",
		"errors | 1 of 11 (bad_request 1)",
		"tokens computed anew, a turn | 82", // 15 questions in 11 turns
		"first answer after a transfer | 60",
	} {
		require.Contains(t, got, cell)
	}

	again, err := call("-read", file)
	require.NoError(t, err)
	require.Equal(t, got, again)
	_, err = call("-messages", "tune", "-out", file)
	require.ErrorContains(t, err, "-out must be a new file")

	records, err := readAll([]string{file})
	require.NoError(t, err)
	require.Len(t, records, 16)
	text, err := json.Marshal(records[1].Turns[0].Steps)
	require.NoError(t, err)
	require.JSONEq(t, `[{"agent": "support", "text": "I say {\"name\": \"transfer_to_agent\""}]`, string(text))

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
	d, err := load()
	require.NoError(t, err)
	chosen, err := choose("all")
	require.NoError(t, err)
	for _, v := range chosen {
		root, err := tree(d.roles, &router{}, 96, v)
		require.NoError(t, err, v.name)
		_, err = start(root)
		require.NoError(t, err, v.name)
	}
}
