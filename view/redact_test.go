package view_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/view"
)

// hush hides the word secret, and is seen to do so.
func hush(s string) string { return strings.ReplaceAll(s, "secret", "###") }

// secrets is a conversation with the word secret in every place.
func secrets() *story {
	parts := llm.Content{Parts: []llm.Part{llm.TextPart{Text: "secret 1"}, llm.Media{Kind: llm.MediaFile, URL: "https://example.com/secret", Name: "secret.txt"}}}
	l := new(story).add("user", "", &event.User{Content: parts}).user("secret 2").
		start("support").think("support", "secret 3").text("support", "secret 4").
		call("support", "secret", "secret_tool", `{ "secret": "secret 5", "list": ["a \"secret\"", {"deep": "\u0073ecret 6"}], "n": 1e2 }`).usage("support").
		result("support", "secret", "secret_tool", `{"out": "secret 7"}`).
		call("support", "c2", "look", `{"n":1}`).usage("support").failed("support", "c2", "look", `"no secret 8"`)
	l.add("support", "", &event.Transfer{From: "support", To: "billing", Reason: "secret 9", Payload: json.RawMessage(`{"secret": "secret 10"}`), Outcome: event.TransferCommitted})
	return l.end("support", event.FinishReasonTransfer).start("billing").text("billing", "secret 11").usage("billing").end("billing", event.FinishReasonStop).user("Thanks")
}

func TestRedact(t *testing.T) {
	before := must.Get(json.Marshal(secrets().events))
	l := secrets()
	require.Equal(t, []string{"user +### 1 +file  https://example.com/secret", "user ### 2",
		`assistant ### 4 (### 3) #secret secret_tool{ "secret": "### 5", "list": ["a \"###\"", {"deep": "### 6"}], "n": 1e2 }`, `tool #secret {"out": "### 7"}`,
		`assistant #c2 look{"n":1}`, "tool #c2 no ### 8 (error)",
		"user [billing] ### 11", "user Thanks"}, see(t, l, "support", view.Full().Redact(hush)))
	require.Equal(t, []string{"user +### 1 +file  https://example.com/secret", "user ### 2",
		"user [support] ### 4", `user [support] called secret_tool({ "secret": "### 5", "list": ["a \"###\"", {"deep": "### 6"}], "n": 1e2 }): {"out": "### 7"}`,
		`user [support] called look({"n":1}) failed: no ### 8`,
		`user [support] transferred the conversation to you, billing: ### 9. Input: {"secret": "### 10"}`,
		"assistant ### 11", "user Thanks"}, see(t, l, "billing", view.Full(), view.Full().Redact(hush)))
	l.compact("billing", int64(len(l.events)), "a secret summary")
	require.Equal(t, []string{"user " + view.SummaryHead + "a ### summary", "user Thanks"}, see(t, l, "billing", view.Full().Redact(hush)))
	l = secrets()
	after := must.Get(json.Marshal(l.events))
	require.Equal(t, string(before), string(after), "the log keeps the original")
}

func TestRedactInAScope(t *testing.T) {
	v := view.New(tree(t).Node("billing"), view.Own().Redact(hush), "s2")
	v.Apply(&event.Event{Seq: 1, Scope: "s2", Agent: "support", Data: &event.HarnessStart{Input: json.RawMessage(`"a secret task"`)}})
	require.Equal(t, []string{"user a ### task"}, render(v.Messages()))
}

// TestNoInput: a node of a graph may come behind one that had nothing to say.
func TestNoInput(t *testing.T) {
	for _, input := range []string{`""`, `" \n"`} {
		v := view.New(tree(t).Node("billing"), view.Full(), "s2")
		v.Apply(&event.Event{Seq: 1, Scope: "s2", Agent: "support", Data: &event.HarnessStart{Input: json.RawMessage(input)}})
		require.Equal(t, []string{"user " + view.NoInput}, render(v.Messages()))
	}
}

func TestToolsGetTheOriginal(t *testing.T) {
	v := view.New(tree(t).Node("support"), view.Full().Redact(hush), "")
	for _, e := range new(story).user("x").start("support").call("support", "c1", "look", `{"a":"secret"}`).usage("support").events {
		v.Apply(e)
	}
	require.JSONEq(t, `{"a":"secret"}`, string(v.Pending()[0].Input))
}

func TestTheEdgeCannotLiftARedaction(t *testing.T) {
	loud := func(s string) string { return strings.ReplaceAll(strings.ToUpper(s), "SECRET", "lost") }
	l := new(story).user("a secret")
	require.Equal(t, []string{"user a ###"}, see(t, l, "billing", view.Full().Redact(hush), view.Own()))
	require.Equal(t, []string{"user A ###"}, see(t, l, "billing", view.Full().Redact(hush), view.Own().Redact(loud)), "the agent's own comes first")
	require.Equal(t, []string{"user A lost"}, see(t, l, "billing", view.Full(), view.Own().Redact(loud)))
	require.Equal(t, []string{"user A ###"}, see(t, l, "tech", view.Full().Redact(hush).Redact(loud)), "in the order of the calls")
	require.Equal(t, []string{"user a secret"}, see(t, l, "tech", view.Full().Redact(nil)))
}

func TestRedactionComesBeforeTheCut(t *testing.T) {
	const limit = 400
	long := strings.Repeat("x", limit-3) + "secret"
	l := new(story).user("Hi").start("support").call("support", "c1", "t", `{"a":"`+long+`"}`).usage("support").result("support", "c1", "t", `"`+long+`"`)
	got := strings.Join(see(t, l, "billing", view.Full().WithFacts(limit).Redact(hush)), "\n")
	require.NotContains(t, got, "sec")
	require.Contains(t, got, "x###")
}

func TestARedactionThatLeavesNothing(t *testing.T) {
	empty := func(string) string { return "" }
	l := secrets()
	l.compact("tech", 1, "S")
	for _, name := range []string{"support", "billing", "tech"} {
		v := view.New(tree(t).Node(name), view.Full().Redact(empty), "")
		for _, e := range l.events {
			v.Apply(e)
		}
		require.NoError(t, view.Check(&llm.Request{Messages: v.Messages()}), name)
		require.Equal(t, "user "+"[redacted]", render(v.Messages())[len(v.Messages())-1])
	}
}

func FuzzRedactArguments(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":"secret"}`, `{"secret":"secret"}`, `{"a" : [ "secret\\" , "\"secret" , "\u0073ecret" ]}`, `{"a":{"b":null,"c":"\ud83d\ude42 secret"}}`, `{"a":"\ud83d"}`, `44444E444`, `[1`, `"`, ``} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		l := new(story).user("Hi").start("support").call("support", "c1", "t", in).usage("support").result("support", "c1", "t", "1")
		v := view.New(tree(t).Node("support"), view.Full().Redact(hush), "")
		for _, e := range l.events {
			v.Apply(e)
		}
		got := v.Messages()[1].Parts[0].(llm.ToolCall).Arguments
		if len(in) == 0 {
			return
		}
		require.True(t, json.Valid([]byte(got)), "%s", got)
		if !json.Valid([]byte(in)) {
			return
		}
		require.Equal(t, hushAll(decoded(t, in)), decoded(t, got))
		if !strings.Contains(in, "ecret") {
			require.Equal(t, in, got, "what is not touched stays byte for byte")
		}
	})
}

// decoded reads JSON whose numbers may be too large for Go.
func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&v))
	return v
}

func hushAll(v any) any {
	switch v := v.(type) {
	case string:
		return hush(v)
	case []any:
		for i := range v {
			v[i] = hushAll(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = hushAll(v[k])
		}
	}
	return v
}
