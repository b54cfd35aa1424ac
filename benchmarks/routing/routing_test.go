package main

import (
	"cmp"
	"context"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
)

// TestData compares the halves: what one half chooses must be judged by a list of the same kind.
func TestData(t *testing.T) {
	for _, c := range []struct {
		tree        string
		messages    int
		uneven      map[string]int // messages of a half, of agents that have another number than most
		most, talks int            // of a half
	}{
		{tree: "star", messages: 126, most: 9, talks: 5},
		{tree: "nested", messages: 60, most: 4, uneven: map[string]int{"tech": 5, "network": 5}, talks: 4},
	} {
		t.Run(c.tree, func(t *testing.T) {
			all, err := roles(c.tree)
			require.NoError(t, err)
			require.Len(t, all, 7)
			for _, r := range all {
				require.NotEmpty(t, r.Description, r.Name)
				require.NotEmpty(t, r.Instruction, r.Name)
			}
			root, err := grow(all, &router{}, 96, variant{})
			require.NoError(t, err)
			tree, err := agent.NewTree(root)
			require.NoError(t, err)
			require.Equal(t, len(all), tree.Len(), "every parent is an agent")
			messages, err := load("data/"+c.tree+"/messages.yaml", "all", -1)
			require.NoError(t, err)
			talks, err := load("data/"+c.tree+"/conversations.yaml", "all", -1)
			require.NoError(t, err)
			require.NoError(t, eval.Check(slices.Concat(messages, talks), root), "every name is an agent's")

			texts := map[string]bool{}
			halves := map[string]map[string]int{}
			foreign := map[string]int{}
			for _, m := range messages {
				require.Len(t, m.Turns, 1, m.Name)
				require.Len(t, m.Tags, 3, "%s: a half, a language and a style", m.Name)
				require.False(t, texts[m.Turns[0].User], m.Name)
				texts[m.Turns[0].User] = true
				path := m.Turns[0].Expect.Path
				right := path[len(path)-1]
				require.Len(t, right, 1, m.Name)
				require.True(t, strings.HasPrefix(m.Name, right[0]+"-"), m.Name)
				require.Equal(t, pathTo(tree, right[0]), path, "%s: the path goes down from the coordinator", m.Name)
				if halves[right[0]] == nil {
					halves[right[0]] = map[string]int{}
				}
				// The rule of the halves.
				number, err := strconv.Atoi(m.Name[len(m.Name)-2:])
				require.NoError(t, err, m.Name)
				at := slices.IndexFunc(all, func(r role) bool { return r.Name == right[0] })
				require.Equal(t, []string{"tune", "held"}[(number-1+at)%2], halfOf(t, m), m.Name)
				halves[right[0]][halfOf(t, m)]++
				if m.Tags[1] != "en" {
					foreign[halfOf(t, m)]++
				}
			}
			require.Len(t, messages, c.messages)
			require.Len(t, halves, len(all))
			for name, n := range halves {
				want := cmp.Or(c.uneven[name], c.most)
				require.Equal(t, map[string]int{"tune": want, "held": want}, n, name)
			}
			require.InDelta(t, foreign["tune"], foreign["held"], 2)
			require.InDelta(t, 2.0/9, float64(foreign["tune"]+foreign["held"])/float64(c.messages), 0.015, "two in nine are not in English")
			n := map[string]int{}
			for _, talk := range talks {
				n[halfOf(t, talk)]++
				require.Len(t, talk.Turns, 4, talk.Name)
				for _, turn := range talk.Turns {
					require.Equal(t, eval.Path{nil, turn.Expect.Answers}, turn.Expect.Path, talk.Name)
				}
			}
			require.Equal(t, map[string]int{"tune": c.talks, "held": c.talks}, n)
		})
	}
}

func halfOf(t *testing.T, c eval.Case) string {
	require.NotEqual(t, slices.Contains(c.Tags, "tune"), slices.Contains(c.Tags, "held"), c.Name)
	if slices.Contains(c.Tags, "tune") {
		return "tune"
	}
	return "held"
}

// pathTo returns the way from the coordinator down to an agent.
func pathTo(tree *agent.Tree, name string) (path eval.Path) {
	for n := tree.Node(name); n != nil; n = n.Parent {
		path = append(path, []string{n.Agent.Name()})
	}
	slices.Reverse(path)
	return path
}

// TestHelpdesk fails when examples/helpdesk is no longer the tree that is measured.
func TestHelpdesk(t *testing.T) {
	all, err := roles("nested")
	require.NoError(t, err)
	for _, r := range all {
		name := "../../examples/helpdesk/" + r.Name + ".md"
		if r.Parent == "tech" {
			name = "../../examples/helpdesk/tech/" + r.Name + ".md"
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		parts := strings.SplitN(string(text), "---\n", 3)
		require.Len(t, parts, 3, name)
		require.Contains(t, parts[1], "\ndescription: "+r.Description+"\n", name)
		require.Equal(t, r.Instruction, strings.TrimSpace(parts[2]), name)
	}
}

// router is a model that knows the answers, except for two texts: it writes one call as text, and it fails
// once.
type router struct {
	right      map[string][]string // paths, by the trees and the texts
	leak, fail string
}

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
		switch said {
		case m.fail:
			yield(llm.Chunk{}, &llm.Error{Code: llm.CodeBadRequest, Message: "never heard"})
			return
		case m.leak:
			chunk.Text = `I say {"name": "transfer_to_agent"`
		default:
			if next := m.next(req.System, said); next != "" {
				call := llm.ToolCall{ID: "c1", Name: agent.TransferTool, Arguments: `{"agent_name":"` + next + `"}`}
				if !yield(llm.Chunk{Call: &call}, nil) {
					return
				}
				chunk.Text, chunk.Finish = "", llm.FinishToolCalls
			}
		}
		yield(chunk, nil)
	}
}

// next returns the agent after the one that is asked, "" if that one is to answer or is not on the way.
func (m *router) next(system, said string) string {
	for _, tree := range treeNames() {
		all, _ := roles(tree)
		for _, r := range all {
			if !strings.Contains(system, r.Instruction) {
				continue
			}
			path := m.right[tree+said]
			if at := slices.Index(path, r.Name); at >= 0 && at+1 < len(path) {
				return path[at+1]
			}
		}
	}
	return ""
}

// TestRun runs the whole command against an endpoint, and reads its results again.
func TestRun(t *testing.T) {
	model := &router{right: map[string][]string{}, leak: "where is my parcel", fail: "forgot password"}
	for _, name := range treeNames() {
		all, err := roles(name)
		require.NoError(t, err)
		root, err := grow(all, model, 96, variant{})
		require.NoError(t, err)
		tree, err := agent.NewTree(root)
		require.NoError(t, err)
		for _, file := range []string{"messages", "conversations"} {
			cases, err := load("data/"+name+"/"+file+".yaml", "all", -1)
			require.NoError(t, err)
			for _, c := range cases {
				for _, turn := range c.Turns {
					path := turn.Expect.Path
					for _, step := range pathTo(tree, path[len(path)-1][0]) {
						model.right[name+turn.User] = append(model.right[name+turn.User], step[0])
					}
				}
			}
		}
	}
	server, err := endpoint.Start(func(string) (llm.Model, bool) { return model, true })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	getenv := func(name string) string {
		return map[string]string{"OPENAI_BASE_URL": server.URL(), "OPENAI_MODEL": "router"}[name]
	}
	var asked strings.Builder
	call := func(args ...string) (string, error) {
		var out strings.Builder
		asked.Reset()
		err := run(t.Context(), args, getenv, &out, &asked)
		return out.String(), err
	}

	file := filepath.Join(t.TempDir(), "results.json")
	got, err := call("-tree", "star", "-messages", "tune", "-n", "7", "-conversations", "1", "-variant", "today,leaked-off", "-out", file)
	require.NoError(t, err)
	require.Contains(t, got, "| | router, today, star, tune | router, leaked-off, star, tune |\n|---|---|---|\n| right agent at the end | 5 of 7")
	for _, cell := range []string{
		"by the right agent | account 0/1, billing 1/1, careers 1/1, sales 1/1, shipping 0/1, support 1/1, technical 1/1",
		"hops a turn | 0.45", // 5 in 11 turns
		"calls shown to the user | 1 of 11, 9 % (2–38 %)",
		"first hop right | 5 of 7, 71 % (36–92 %)",
		"chosen | billing 1, careers 1, sales 1, support 2, technical 1",
		"conversation turns right | 2 of 4", // a specialist of this model never hands back
		"where the subject changed | 0 of 1",
		"no words for the user | 1 of 11",
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
	require.Contains(t, both, "| | router, today, star, tune | router, leaked-off, star, tune | router, today, star, tune | router, leaked-off, star, tune |")

	report, err := readAll([]string{file})
	require.NoError(t, err)
	require.Len(t, report.Subjects, 2)
	require.Len(t, report.Subjects[0].Outcomes, 8)
	require.Equal(t, `I say {"name": "transfer_to_agent"`, report.Subjects[0].Outcomes[1].Turns[0].Said)

	_, err = call("-read", file, "-check")
	require.ErrorContains(t, err, "shipping-01")
	require.ErrorContains(t, err, "account-01")
	_, err = call("-messages", "held", "-n", "2", "-check")
	require.ErrorContains(t, err, "auth-01")
	require.NotContains(t, err.Error(), "star")
}

// TestPieces asks in pieces: what the file of results holds is not asked again.
func TestPieces(t *testing.T) {
	model := &router{fail: "app crashes"}
	server, err := endpoint.Start(func(string) (llm.Model, bool) { return model, true })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	file := filepath.Join(t.TempDir(), "results.json")
	piece := func(args string) (asked []string, report *eval.Report) {
		var lines strings.Builder
		require.NoError(t, run(t.Context(), append(strings.Fields(args), "-out", file), func(name string) string {
			return map[string]string{"OPENAI_BASE_URL": server.URL(), "OPENAI_MODEL": "router"}[name]
		}, io.Discard, &lines))
		for line := range strings.Lines(lines.String()) {
			asked = append(asked, strings.Join(strings.Fields(strings.TrimLeft(line, "✗ "))[2:5], " "))
		}
		report, err := readAll([]string{file})
		require.NoError(t, err)
		return asked, report
	}
	asked, _ := piece("-tree nested -n 2")
	require.Equal(t, []string{"nested, tune support-01", "nested, tune tech-01"}, asked)
	asked, report := piece("-n 3")
	require.Equal(t, []string{"star, tune support-01", "star, tune shipping-01", "star, tune account-01", "nested, tune database-01"}, asked)
	require.Len(t, report.Subjects, 2)
	require.Equal(t, 3, report.Cases)
	require.Len(t, report.Subjects[0].Outcomes, 3)
	require.Equal(t, "bad_request", report.Subjects[0].Outcomes[1].Turns[0].Error)
	asked, again := piece("-n 3")
	require.Empty(t, asked)
	require.Equal(t, report, again)

	require.NoError(t, os.WriteFile(file, []byte("no report"), 0o666))
	err = run(t.Context(), []string{"-out", file}, func(name string) string {
		return map[string]string{"OPENAI_BASE_URL": server.URL(), "OPENAI_MODEL": "router"}[name]
	}, io.Discard, io.Discard)
	require.ErrorContains(t, err, "-out must be a new file, or one that -out has written")
}

// counter reports as many tokens as a request has tools.
type counter struct{}

func (counter) Name() string { return "counter" }

func (counter) Generate(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Text: "Hi", Finish: llm.FinishLength, Usage: &llm.Usage{InputTokens: len(req.Tools), OutputTokens: 1}}, nil)
	}
}

// TestTokens measures requests to coordinators with some numbers of targets.
func TestTokens(t *testing.T) {
	server, err := endpoint.Start(func(string) (llm.Model, bool) { return counter{}, true })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	var out strings.Builder
	err = run(t.Context(), []string{"-targets", "7,60", "-variant", "one-tool,tool-each"}, func(name string) string {
		return map[string]string{"OPENAI_BASE_URL": server.URL(), "OPENAI_MODEL": "counter"}[name]
	}, &out, io.Discard)
	require.NoError(t, err)
	require.Equal(t, `| variant | targets | tokens of a request |
|---|---|---|
| one-tool | 7 | 1 |
| one-tool | 60 | 1 |
| tool-each | 7 | 7 |
| tool-each | 60 | 60 |
`, out.String())
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
		"-tree oak":        `-tree can be star, nested or all, not "oak"`,
		"-targets 7,many":  `-targets needs numbers from 1 with commas between them, as 7,60, not "7,many"`,
		"-max-tokens 0":    "-max-tokens must be above zero",
		"today":            `"today" is no flag`,
		"-read none.jsonl": "none.jsonl",
		"-n 1":             "OPENAI_BASE_URL",
	} {
		err := run(t.Context(), strings.Fields(args), func(string) string { return "" }, io.Discard, io.Discard)
		require.ErrorContains(t, err, want, args)
	}
	// Every variant makes trees that can run.
	chosen, err := choose("all")
	require.NoError(t, err)
	for _, name := range treeNames() {
		all, err := roles(name)
		require.NoError(t, err)
		for _, v := range chosen {
			root, err := grow(all, &router{}, 96, v)
			require.NoError(t, err, v.name)
			tree, err := agent.NewTree(root)
			require.NoError(t, err, v.name)
			require.Equal(t, name == "nested" && v.name != "no-peers", tree.Node("billing").Properties.Policy.AllowTransferToPeers, v.name)
		}
	}
}

// TestPredict prints the table of docs/cost-of-a-transfer.md.
func TestPredict(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"-predict", "-tree", "nested"}, os.Getenv, &out, io.Discard))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 2+5)
	require.Contains(t, lines[2], "| nested | 0.3 | 11 of 26 |")
	require.Regexp(t, `\| [1-9]\d* \|$`, lines[2], "the wasted tokens")
}
