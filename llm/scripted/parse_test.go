package scripted_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
)

const sample = `
# The coordinator hands over.
support: expect user "charged twice" expect tools transfer_to_agent call transfer_to_agent {"agent_name": "billing"}
billing: call lookup#c1 {"id": 1} call lookup#c2 {
  "id": 2
} call now
  # a comment inside
  call broken raw "{oops" finish=stop usage=40/12/7

billing:
    think "Both are there."
    "I see " ` + "`two\n# charges`" + `

    model=m-1 finish=length
billing: "part" fault=cut
billing: fault=status:429/2s
billing: fault=timeout
support: always "yes"`

func TestParse(t *testing.T) {
	s, err := scripted.Parse([]byte(sample), scripted.WithRecording())
	require.NoError(t, err)
	require.Equal(t, []string{"billing", "support"}, s.Agents())
	req := &llm.Request{
		Messages: []llm.Message{llm.UserText("I was charged twice")},
		Tools:    []llm.ToolSpec{{Name: "transfer_to_agent"}},
	}
	support, billing := s.Model("support"), s.Model("billing")

	got, err := ask(support, req)
	require.NoError(t, err)
	require.Equal(t, []llm.Chunk{
		{Call: &llm.ToolCall{ID: "call_support_1", Name: "transfer_to_agent", Arguments: `{"agent_name": "billing"}`}},
		{Finish: llm.FinishToolCalls},
	}, got)

	got, err = ask(billing, req)
	require.NoError(t, err)
	require.Equal(t, []llm.Chunk{
		{Call: &llm.ToolCall{ID: "c1", Name: "lookup", Arguments: `{"id": 1}`}},
		{Call: &llm.ToolCall{ID: "c2", Name: "lookup", Arguments: "{\n  \"id\": 2\n}"}},
		{Call: &llm.ToolCall{ID: "call_billing_3", Name: "now"}},
		{Call: &llm.ToolCall{ID: "call_billing_4", Name: "broken", Arguments: "{oops"}},
		{Usage: &llm.Usage{InputTokens: 40, OutputTokens: 12, CachedTokens: 7}, Finish: llm.FinishStop},
	}, got)

	got, err = ask(billing, req)
	require.NoError(t, err)
	require.Equal(t, []llm.Chunk{
		{Reasoning: "Both are there."}, {Text: "I see "}, {Text: "two\n# charges"}, {Model: "m-1"}, {Finish: llm.FinishLength},
	}, got)

	got, err = ask(billing, req)
	require.NoError(t, err)
	require.Equal(t, []llm.Chunk{{Text: "part"}}, got)

	_, err = ask(billing, req)
	var e *llm.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 429, e.Status)
	require.Equal(t, 2*time.Second, e.RetryAfter)

	_, err = ask(billing, req)
	require.ErrorAs(t, err, &e)
	require.Equal(t, llm.CodeTimeout, e.Code)
	require.True(t, e.Retryable)

	for range 3 {
		got, err = ask(support, req)
		require.NoError(t, err)
		require.Equal(t, "yes", got[0].Text)
	}
	require.NoError(t, s.Done())
	require.Len(t, s.Requests("billing"), 5)
}

func TestParseTakesCRLF(t *testing.T) {
	s, err := scripted.Parse([]byte("a: \"x\"\r\n  \"y\"\r\n\r\nb: call f\r\n"))
	require.NoError(t, err)
	got, err := ask(s.Model("a"), &llm.Request{})
	require.NoError(t, err)
	require.Len(t, got, 3)
}

func TestParseErrorsNameTheLine(t *testing.T) {
	cases := map[string]string{
		"a: \"x\"\nb \"y\"":              "script line 2: an answer starts with the agent's name and a colon",
		"  \"x\"":                        "script line 1: an indented line",
		"a: hello":                       `script line 1: "hello" is not an item; text must be quoted`,
		"a:\n \"x":                       "script line 2: this string has no end",
		"a: \"x\"\"y\"":                  "script line 1: a space must follow",
		"a: think\nb: \"x\"":             "a quoted string must follow think",
		"a: call":                        "script line 1: a tool's name must follow call",
		"a: call f{}":                    "script line 1: a tool's name must follow call",
		"a: call f#":                     "script line 1: a tool's name must follow call",
		"\n\na: call f {oops}":           "script line 3: the arguments of f are not JSON",
		"a: usage=1":                     "usage is input/output",
		"a: usage=1/x":                   `"x" in usage`,
		"a: fault=odd":                   `"odd" is not a fault`,
		"a: fault=status:200":            "needs an HTTP status from 400 to 599",
		"a: fault=status:503/soon":       `"soon" is not a time to wait`,
		"a: fault=cut \"x\"":             "script line 1: no item of the stream can follow a fault",
		"a: fault=cut fault=cut":         "no item of the stream can follow a fault",
		"a: color=red":                   `"color=red" is not an item`,
		"a: expect moon":                 `expect takes user, system, result or tools, not "moon"`,
		"a: expect tools":                "names must follow expect tools",
		"a: expect user x":               "a quoted string must follow expect user",
		"a: always \"x\"\n\na: \"y\"":    `script line 3: agent "a" can have no answer after`,
		"a: call f raw {}":               "a quoted string must follow raw",
		"a: \"ok\"\nb: \"ok\"\n c:\"d\"": `script line 3: "c:\"d\"" is not an item`,
	}
	for text, want := range cases {
		t.Run(text, func(t *testing.T) {
			_, err := scripted.Parse([]byte(text))
			require.ErrorContains(t, err, want)
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("a: call f raw"))
	f.Add([]byte("a: call f raw\r\n \"x\""))
	f.Add([]byte("a:\n\t`x\n`\n#\n\"y\""))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := scripted.Parse(data)
		if err != nil {
			require.ErrorContains(t, err, "script line ")
			return
		}
		for _, agent := range s.Agents() {
			_, _ = ask(s.Model(agent), &llm.Request{})
		}
	})
}

func TestLikely(t *testing.T) {
	s, err := scripted.Parse([]byte("a: always likely \"bill\" 0.5 {\"tech\": 0.25, \"b\": 0}\n  likely \"ing\" 1\n  \"!\""))
	require.NoError(t, err)
	got, err := ask(s.Model("a"), &llm.Request{Settings: llm.Settings{TopLogProbs: 2}})
	require.NoError(t, err)
	require.Equal(t, []llm.Chunk{
		{Text: "bill", LogProbs: []llm.LogProb{{Token: "bill", LogProb: math.Log(0.5), Top: []llm.LogProb{
			{Token: "bill", LogProb: math.Log(0.5)}, {Token: "b", LogProb: math.Inf(-1)}, {Token: "tech", LogProb: math.Log(0.25)}}}}},
		{Text: "ing", LogProbs: []llm.LogProb{{Token: "ing", Top: []llm.LogProb{{Token: "ing"}}}}},
		{Text: "!"}, {Finish: llm.FinishStop},
	}, got)
	got, err = ask(s.Model("a"), &llm.Request{})
	require.NoError(t, err)
	require.Equal(t, []llm.Chunk{{Text: "bill"}, {Text: "ing"}, {Text: "!"}, {Finish: llm.FinishStop}}, got, "nobody asked for them")
	for _, bad := range []string{`likely 0.5`, `likely "x"`, `likely "x" y`, `likely "x" 0`, `likely "x" 0.6 {"y": 0.6}`, `likely "x" 0.6 {"y": -1}`, `likely "x" 0.6 {"y"}`} {
		_, err := scripted.Parse([]byte("a: " + bad))
		require.ErrorContains(t, err, "script line 1: ", bad)
	}
}
