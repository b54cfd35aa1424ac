package eval_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/eval"
)

const format = `
always:
  saysNot: [transfer_to_]
  noTools: rm
  max: {modelCalls: 9}
cases:
  - say: I was charged   twice
    path: support > billing
  - name: comes back
    note: for people
    tags: [held, en]
    state: {plan: {tier: 2}}
    turns:
      - say: My invoice is wrong
        metadata: {lang: en}
        path: [support, billing]
        tools: find_invoice
        noTools: [delete]
        says: [invoice, /refund(ed)?/]
        approve: refund
        deny: [delete]
        reply: {ask: {street: Main}}
        asks: [refund, delete]
      - say: |
          And the router
          blinks
        path: billing > ... -> tech|network
        answers: tech | network
        saysNot: sorry
        judge: the answer names a time
        max: {transfers: 3}
    max: {transfers: 3, modelCalls: 8, cost: 0.05, tokens: 4000, time: 30s}
`

func TestLoad(t *testing.T) {
	cases, err := eval.Load([]byte(format), "dir/c.yaml")
	require.NoError(t, err)
	require.Equal(t, []eval.Case{
		{Name: "I was charged twice", File: "dir/c.yaml", Line: 7, Turns: []eval.Turn{{User: "I was charged   twice", Line: 7,
			Expect: eval.Expect{Path: eval.Path{{"support"}, {"billing"}}, NoTools: []string{"rm"}, SaysNot: []string{"transfer_to_"}, Max: eval.Max{ModelCalls: 9}}}}},
		{Name: "comes back", Note: "for people", Tags: []string{"held", "en"}, File: "dir/c.yaml", Line: 9,
			State: map[string]any{"plan": map[string]any{"tier": int64(2)}},
			Turns: []eval.Turn{
				{User: "My invoice is wrong", Line: 14, Metadata: map[string]any{"lang": "en"},
					Approve: []string{"refund"}, Deny: []string{"delete"}, Reply: map[string]any{"ask": map[string]any{"street": "Main"}},
					Expect: eval.Expect{Path: eval.Path{{"support"}, {"billing"}}, Tools: []string{"find_invoice"}, NoTools: []string{"delete", "rm"},
						Says: []string{"invoice", "/refund(ed)?/"}, SaysNot: []string{"transfer_to_"}, Asks: []string{"refund", "delete"}, Max: eval.Max{ModelCalls: 9}}},
				{User: "And the router\nblinks", Line: 24, Expect: eval.Expect{Path: eval.Path{{"billing"}, nil, {"tech", "network"}}, Answers: []string{"tech", "network"},
					NoTools: []string{"rm"}, SaysNot: []string{"sorry", "transfer_to_"}, Judge: "the answer names a time", Max: eval.Max{Transfers: 3, ModelCalls: 9}}},
			},
			Max: eval.Max{Transfers: 3, ModelCalls: 8, Cost: 0.05, Tokens: 4000, Time: 30 * time.Second}},
	}, cases)
	require.Equal(t, "billing > … > tech|network", cases[1].Turns[1].Expect.Path.String())
}

// TestAlways is what is expected in the turns of its document.
func TestAlways(t *testing.T) {
	cases, err := eval.Load([]byte("always: {noTools: [x, y]}\ncases: [{say: a}]\n---\nsay: b\npath: z\n"), "c")
	require.NoError(t, err)
	require.Equal(t, []string{"x", "y"}, cases[0].Turns[0].Expect.NoTools)
	require.Empty(t, cases[1].Turns[0].Expect.NoTools)
}

// TestLoadForms: a list without a head, single cases and a list of cases are read alike, also in
// several documents.
func TestLoadForms(t *testing.T) {
	for text, lines := range map[string][]int{
		"cases:\n  - {say: a, path: x}\n  - {say: b, path: x}\n":   {2, 3},
		"- {say: a, path: x}\n- {say: b, path: x}\n":               {1, 2},
		"say: a\npath: x\n---\nsay: b\npath: x\n":                  {1, 4},
		"# head\n---\n- say: a\n  path: x\n---\n\nsay: b\npath: x": {3, 7},
		"\ufeff- {say: a, path: x}\r\n- {say: b, path: x}\r\n":     {1, 2},
	} {
		cases, err := eval.Load([]byte(text), "c")
		require.NoError(t, err, text)
		require.Len(t, cases, 2, text)
		for i, c := range cases {
			require.Equal(t, []string{"a", "b"}[i], c.Name, text)
			require.Equal(t, lines[i], c.Line, text)
			require.Equal(t, lines[i], c.Turns[0].Line, text)
		}
	}
}

func problemsOf(t testing.TB, err error) (lines []string) {
	var bad *eval.Error
	require.ErrorAs(t, err, &bad)
	for _, p := range bad.Problems {
		lines = append(lines, p.String())
	}
	require.Equal(t, strings.Join(lines, "\n"), err.Error())
	return lines
}

func TestLoadProblems(t *testing.T) {
	for text, want := range map[string][]string{
		"":                             {"c:1: the file holds no case: a case is what a user says, with what is expected, such as - say: I was charged twice, and below it path: support > billing"},
		"cases:\n":                     {"c:1: cases has no value: it must be a list; remove the key if none is meant"},
		"cases: []\n":                  {"c:1: the file holds no case: a case is what a user says, with what is expected, such as - say: I was charged twice, and below it path: support > billing"},
		"cases: {say: a}":              {"c:1: cases must be a list, not a mapping"},
		"case: [{say: a}]":             {`c:1: unknown key "case"; did you mean "cases"?`},
		"- a\n":                        {`c:1: a case must be a mapping with say and what is expected, not the text "a"`},
		"- {say: a}\n":                 {"c:1: the case expects nothing: give one of path, answers, tools, noTools, asks, says, saysNot, judge, max"},
		"- {say: a, metadata: {a: 1}}": {"c:1: the case expects nothing: give one of path, answers, tools, noTools, asks, says, saysNot, judge, max"},
		"- {name: n, path: a}":         {"c:1: the case has neither say, what the user says, nor turns"},
		"- {say: a, turns: []}":        {"c:1: say and turns exclude each other: say is a case of one turn", "c:1: turns is empty"},
		"- {name: n, turns: []}":       {"c:1: turns is empty"},
		"- name: n\n  path: x\n  approve: y\n  turns: [{say: a, path: x}]":  {"c:2: path belongs to one of the turns", "c:3: approve belongs to one of the turns"},
		"- turns:\n  - {path: x}\n  - a\n":                                  {"c:2: the turn has no say: what does the user say?", `c:3: turns must be a list of turns, but one of them is "a"`},
		"- {say: a, path: x > > y}":                                         {`c:1: the path "x > > y" has an empty step: write names with > between them, as support > billing`},
		"- {say: a, path: x|}":                                              {`c:1: the path "x|" has an empty step: write names with > between them, as support > billing`},
		"- {say: a, path: x y}":                                             {`c:1: "x y" is not a step of a path: a step is a name, several with | between them, or … for any agents`},
		"- {say: a, path: 7}":                                               {`c:1: path must be a text or a list of texts, not the number 7: put it in quotes, "7"`},
		"- {say: a, answers: x > y}":                                        {`c:1: answers has a name, or several with | between them, not "x > y"`},
		"- {say: a, answers: …}":                                            {`c:1: answers has a name, or several with | between them, not "…"`},
		"- {say: a, tools: []}":                                             {"c:1: tools is empty"},
		"- say: a\n  says:\n  - ok\n  - /(/\n  saysNot: //\n":               {`c:4: says: "/(/" is not a regular expression of Go: missing closing ): ` + "`(?i)(`", `c:5: saysNot: "//" is an empty regular expression`},
		"- {say: a, max: {}}":                                               {"c:1: max bounds transfers, modelCalls, tokens, cost or time, as in max: {modelCalls: 3}"},
		"- {say: a, max: {modelcalls: 3}}":                                  {`c:1: unknown key "max.modelcalls"; did you mean "modelCalls"?`},
		"- {say: a, max: {transfers: 0, cost: free, time: 0s, tokens: -1}}": {`c:1: max.cost must be a number over 0, not "free"`, "c:1: max.time must be above 0", "c:1: max.tokens must be a whole number from 1, not -1", "c:1: max.transfers must be a whole number from 1, not 0"},
		"- {say: a, pth: x}":                                                {`c:1: unknown key "pth"; did you mean "path"?`},
		"- {say: a, says: b, user: c}":                                      {`c:1: unknown key "user"; the keys here are say, metadata, approve, deny, reply, path, answers, tools, noTools, asks, says, saysNot, judge, max, turns, name, note, tags, state`},
		"- {say: a, max: 3}":                                                {"c:1: max bounds transfers, modelCalls, tokens, cost or time, as in max: {modelCalls: 3}"},
		"- {say: '', path: x}":                                              {"c:1: say is empty: remove the key if none is meant"},
		"- {say: a, path: &x y}":                                            {"c:1: anchors, aliases, merge keys, tags and directives are not read in the file: write the value out"},
		"- {say: a b, path: x}\n- {say: a  b, path: y}\n":                   {`c:2: the case "a b" is already on line 1: give it a name of its own`},
		"- {say: a, name: n, path: x}\n---\n- {say: b, name: n, path: y}\n": {`c:3: the case "n" is already on line 1`},
		"always: {path: x}\ncases: [{say: a, path: x}]":                     {`c:1: unknown key "always.path"; the keys here are noTools, saysNot, max`},
		"always: {saysNot: /(/}\ncases: [{say: a}]":                         {"c:1: saysNot: \"/(/\" is not a regular expression of Go: missing closing ): `(?i)(`"},
		"- {say: a, path: [x, {y: z}]}\n- [":                                {"c:2: this is not valid YAML: sequence end token ']' not found"},
		"- say: a\n  path: x >\n- say: b\n  tools: 3\n- say: c\n  sys: d\n": {`c:2: the path "x >" has an empty step: write names with > between them, as support > billing`, `c:4: tools must be a text or a list of texts, not the number 3: put it in quotes, "3"`, `c:6: unknown key "sys"; did you mean "says"?`},
	} {
		_, err := eval.Load([]byte(text), "c")
		require.Error(t, err, text)
		require.ElementsMatch(t, want, problemsOf(t, err), text)
	}
}

func TestLoadFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "c.yaml")
	_, err := eval.LoadFile(name)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(name, []byte(format), 0o600))
	cases, err := eval.LoadFile(name)
	require.NoError(t, err)
	require.Equal(t, name, cases[1].File)
}

// FuzzLoad: whatever a file holds, it is cases with turns and expectations, or an error whose
// lines are those of the file.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(format))
	for _, text := range []string{"say: a\npath: x\n---\n- {say: b, path: … > x|y}\n", "- {say: a, says: [/a/, b]}", "cases: [{turns: [{say: x, max: {time: 5}}]}]", "- say: |\n   x\n  tools: [a]\n",
		"- {say: a, answers: a|b, state: {a: [1, 2.5, null, {b: c}]}}", "always: {max: {cost: 1e-3}}\ncases:\n- say: a"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 {
			return
		}
		cases, err := eval.Load(data, "f")
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 1 // either ends a line in YAML
		if err != nil {
			var bad *eval.Error
			require.True(t, errors.As(err, &bad), "%v", err)
			require.NotEmpty(t, bad.Problems)
			for _, p := range bad.Problems {
				require.Equal(t, "f", p.File)
				require.NotEmpty(t, p.Message)
				require.NotContains(t, p.Message, "\n")
				require.NotContains(t, p.Message, "cannot be read as YAML", "a panic")
				require.True(t, p.Line >= 1 && p.Line <= lines, "%v of %d", p, lines)
			}
			return
		}
		require.NotEmpty(t, cases)
		names := map[string]bool{}
		for _, c := range cases {
			require.NotEmpty(t, c.Name)
			require.False(t, names[c.Name])
			names[c.Name] = true
			require.NotEmpty(t, c.Turns)
			for _, turn := range c.Turns {
				require.True(t, turn.Line >= 1 && turn.Line <= lines)
				require.NotEmpty(t, turn.User)
				if path := turn.Expect.Path; path != nil {
					again, err := eval.ParsePath(path.String())
					require.NoError(t, err)
					require.Equal(t, path, again)
				}
			}
		}
	})
}
