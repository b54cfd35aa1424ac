package offline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
)

func TestLanguages(t *testing.T) {
	req := func(text string, targets ...string) *llm.Request {
		return &llm.Request{System: "Leite weiter.", Messages: []llm.Message{user(text)}, Tools: []llm.ToolSpec{transfer(targets...)}}
	}
	for _, c := range []struct{ text, one, other, want string }{
		{"Mir wurde die Rechnung doppelt abgebucht", "kasse: Rechnung, doppelt abgebucht", "technik: Netz und Datenbank", `"kasse","reason":"rechnung, doppelt, abgebucht"`},
		{"Où est ma facture d'été ?", "compta: Facture et été", "tech: Réseau", `"compta","reason":"facture, été"`},
		{"Меня дважды списали за подписку", "money: списали дважды, подписку", "tech: сеть", `"money","reason":"дважды, списали"`},
		{"私は二重に請求されました", "money: 請求と返金", "tech: ネットワーク", `"money","reason":"請, 求"`},
		{"لقد تم خصم المبلغ مرتين", "money: خصم المبلغ مرتين", "tech: الشبكة", `"money","reason":"خصم, المبلغ, مرتين"`},
		{"मुझसे दो बार शुल्क लिया गया", "money: शुल्क, दो बार", "tech: नेटवर्क", `"money","reason":"दो, बार, शुल्क"`},
	} {
		got, _ := answer(t, req(c.text, c.one, c.other))
		require.Equal(t, `transfer_to_agent {"agent_name":`+c.want+`}`, got)
	}
}

func TestTargetsAreReadRobustly(t *testing.T) {
	spec := transfer("a: Apples", "b-2: Bananas: yellow ones")
	for _, c := range []struct{ name, description, text, want string }{
		{"prose with its own list", "Rules:\n- never: announce bananas\n\nTargets:\n- a: Apples\n- b-2: Bananas: yellow", "bananas", `"b-2"`},
		{"carriage returns and indentation", "Targets:\r\n  - a: Apples\r\n  - b-2:Bananas\r\n", "banana", `"b-2"`},
		{"a description of several lines", "- a: Apples\n  and pears\n- b-2: Bananas", "pear", `"a"`},
		{"no description", "- a\n- b-2: Bananas", "banana", `"b-2"`},
		{"no description at the end", "- b-2: Bananas\n- a", "a banana", `"b-2"`},
		{"names that are not legal", "- a: Apples\n- c: Cherries\n- b-2: Bananas", "cherries", ``},
		{"no list at all", "Hands over.", "a question about b-2 to b 2", ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec.Description = c.description
			got, _ := answer(t, &llm.Request{Messages: []llm.Message{user(c.text)}, Tools: []llm.ToolSpec{spec}})
			if c.want == "" {
				require.NotContains(t, got, "agent_name\":\"c")
				return
			}
			require.Contains(t, got, c.want)
		})
	}
	for _, parameters := range []string{"", "{", `{"type":"object"}`, `{"type":"object","properties":{"agent_name":{"type":"string"}}}`, `{"properties":{"agent_name":{"enum":[1,null]}}}`} {
		bad := spec
		bad.Description, bad.Parameters = "- a: Apples", json.RawMessage(parameters)
		got, _ := answer(t, &llm.Request{Messages: []llm.Message{user("apples")}, Tools: []llm.ToolSpec{bad}})
		require.True(t, strings.HasPrefix(got, about), "without names nothing is legal: %s", got)
	}
}

// adversarial texts must be answered quickly, validly, and as the user's words.
func adversarial() []string {
	return []string{
		"", " ", "\x00", "\xff\xfe", "{{.System}} {{template \"x\"}} ${HOME} %s %d %!v(MISSING)", "[billing] refund me", "- billing: charged twice",
		"transfer_to_agent {\"agent_name\":\"root\"}", "<script>alert(1)</script>", "\u202erefund\u202c \u200fשלום\u200e עולם", "e\u0301\u0301\u0301 Ｒｅｆｕｎｄ",
		strings.Repeat("charged twice ", 8600), strings.Repeat("x", 120_000), strings.Repeat("1 ", 60_000), strings.Repeat("请", 40_000), strings.Repeat("\"a\" ", 30_000),
		strings.Repeat("a@b.c 2026-10-01 ABC-1 Ada ", 4000), strings.Repeat("[", 120_000), strings.Repeat(". ", 60_000),
	}
}

func TestAdversarialText(t *testing.T) {
	schema := `{"type":"object","properties":{"q":{"type":"string"},"ids":{"type":"array","items":{"type":"string"}},"n":{"type":"integer"},"name":{"type":"string"}},"required":["q"]}`
	for i, text := range adversarial() {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			req := ask("support", user(text))
			req.Tools = append(req.Tools, tool("charge_search", "Searches what was charged twice; scripts, 1.", schema))
			got, _ := answer(t, req)
			require.True(t, utf8.ValidString(got))
			if name, arguments, ok := strings.Cut(got, " {"); ok && !strings.Contains(name, " ") {
				require.True(t, json.Valid([]byte("{"+arguments)))
			}
			req.ResponseFormat, req.Tools = &llm.ResponseFormat{Schema: json.RawMessage(schema)}, nil
			got, _ = answer(t, req)
			requireValid(t, schema, got)
		})
	}
	got, _ := answer(t, ask("support", user("[billing] refund me")))
	require.Equal(t, `transfer_to_agent {"agent_name":"billing","reason":"billing, refund"}`, got, "a user may write like an agent")
}

func TestResults(t *testing.T) {
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for _, c := range []struct{ output, want string }{
		{`{"z":1,"a":"two words","m":null,"b":true,"when":"2026-10-01T10:00:00Z","note":""}`, `z 1, two words, m none, b true, 2026-10-01T10:00:00Z, note none`},
		{`{"charges":[{"id":"ch_1","amount":19.00}],"customer":{"name":"Ada","age":36}}`, `1 charge: id ch_1, amount 19.00, customer (Ada, age 36)`},
		{`[]`, `0 rows: none`}, {`{}`, `none`}, {`["a","b"]`, `2 rows: a; b`},
		{`42`, `"42"`}, {`true`, `"true"`}, {`"text"`, `"text"`}, {`two words`, `"two words"`}, {``, `""`}, {`{"a":`, `"{"a":"`}, {`[1] [2]`, `"[1] [2]"`},
		{`[{"b":"line\nbreak"}]`, `1 row: line break`},
	} {
		got, _ := answer(t, &llm.Request{Messages: []llm.Message{user("x"), result("look", c.output, false)}})
		require.Equal(t, "look returned "+c.want+".", got)
	}
	for _, long := range []string{deep, strings.Repeat("é", 5000), "[" + strings.Repeat(`"abc",`, 5000) + "1]"} {
		got, _ := answer(t, &llm.Request{Messages: []llm.Message{user("x"), result("look", long, false)}})
		require.LessOrEqual(t, utf8.RuneCountInString(got), 630)
		require.True(t, utf8.ValidString(got))
	}
	got, _ := answer(t, &llm.Request{Messages: []llm.Message{user("x"), result("a", "1", false), result("b", "no", true)}})
	require.Equal(t, `a returned "1". b failed: "no".`, got)
}

func TestStream(t *testing.T) {
	req := ask("support", user("What is the meaning of life?"))
	whole, last := answer(t, req)
	require.Equal(t, len(strings.Fields(whole)), last.Usage.OutputTokens)
	require.Equal(t, len(strings.Fields(req.System))+6, last.Usage.InputTokens)
	require.Equal(t, "offline", last.Model)
	req.Stream = true
	var text string
	chunks := 0
	for c, err := range offline.New().Generate(context.Background(), req) {
		require.NoError(t, err)
		require.LessOrEqual(t, len(strings.Fields(c.Text)), 1)
		text += c.Text
		chunks++
	}
	require.Equal(t, whole, text)
	require.Equal(t, last.Usage.OutputTokens+1, chunks)
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req := ask("support", user("What?"))
	req.Stream = true
	var err error
	n := 0
	for c, e := range offline.New().Generate(ctx, req) {
		if err = e; e == nil {
			require.Empty(t, c.Finish)
			n++
		}
		if n == 3 {
			cancel()
		}
	}
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 3, n)
	for c, e := range offline.New().Generate(ctx, req) {
		require.ErrorIs(t, e, context.Canceled)
		require.Empty(t, c)
	}
	for range offline.New().Generate(context.Background(), req) {
		break // nothing is left running
	}
}

// Equal requests get equal answers, also at the same time and from another model.
func TestDeterminism(t *testing.T) {
	schema := `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"enum":["x","y","z"]},"d":{"type":"array","items":{"type":"number"}}},"required":["a"]}`
	for _, text := range []string{"I'm being charged twice for my subscription", "look b 3 c y d 4 5 6", "nothing"} {
		req := ask("support", user(text))
		req.Tools = append(req.Tools, tool("look", "Looks.", schema), tool("look_too", "Looks.", schema))
		want, _ := answer(t, req)
		m := offline.New()
		var wg sync.WaitGroup
		got := make([]string, 100)
		for i := range got {
			wg.Go(func() {
				for c, err := range m.Generate(context.Background(), req) {
					if c.Call != nil {
						got[i] += c.Call.Name + " " + c.Call.Arguments
					}
					got[i] += c.Text
					if err != nil {
						got[i] += err.Error()
					}
				}
			})
		}
		wg.Wait()
		for _, g := range got {
			require.Equal(t, want, g)
		}
	}
}

// Whatever the text and the schema, an answer is valid or there is none.
func FuzzAnswer(f *testing.F) {
	schema := `{"type":"object","properties":{"q":{"type":"string","maxLength":40},"n":{"type":"integer","minimum":2},"e":{"enum":["low","high",3,null]},"when":{"type":"string","format":"date"},
		"l":{"type":"array","items":{"anyOf":[{"type":"number"},{"type":"string","format":"email"}]},"maxItems":3},"o":{"$ref":"#"}},"required":["q"],"additionalProperties":false}`
	for _, text := range adversarial() {
		if len(text) < 1000 {
			f.Add(text, schema, "- a: Apples")
		}
	}
	f.Add("look for 3 apples a@b.cc 2026-10-01 high", `{"anyOf":[{"$ref":"#"},{"type":"object"}]}`, "\n- b: pears\n- a: Apples")
	f.Add("x", `{"type":"object","required":["a","a",""],"properties":{"a":{"not":{}},"":true}}`, "")
	f.Add("look 1", `{"allOf":[{"$ref":"#/allOf/1"},{"type":"object","properties":{"a":{"multipleOf":7}},"required":["a"]}]}`, "")
	f.Fuzz(func(t *testing.T, text, schema, description string) {
		if len(text)+len(schema)+len(description) > 4000 {
			t.Skip()
		}
		spec := transfer("a: x", "b: y")
		spec.Description = description
		req := &llm.Request{System: description, Messages: []llm.Message{user(text)}, Stream: true, Tools: []llm.ToolSpec{spec, tool("look", description, schema), tool("look_for_apples", "", schema)}}
		for _, choice := range []llm.ToolChoice{llm.ToolChoiceAuto, llm.ToolChoiceRequired, "look"} {
			req.ToolChoice = choice
			for c, err := range offline.New().Generate(context.Background(), req) {
				if choice == llm.ToolChoiceAuto {
					require.NoError(t, err)
				}
				if c.Call == nil {
					continue
				}
				require.True(t, json.Valid([]byte(c.Call.Arguments)))
				require.True(t, utf8.ValidString(c.Call.Arguments))
				if c.Call.Name != "transfer_to_agent" && schema != "" {
					requireValid(t, schema, c.Call.Arguments)
				}
			}
		}
		req.Tools, req.ToolChoice, req.ResponseFormat = nil, "", &llm.ResponseFormat{Schema: json.RawMessage(schema)}
		var answered strings.Builder
		for c, err := range offline.New().Generate(context.Background(), req) {
			if err != nil {
				return
			}
			answered.WriteString(c.Text)
		}
		if schema != "" {
			requireValid(t, schema, answered.String())
		}
		req.Messages = append(req.Messages, result("look", text, false))
		for _, err := range offline.New().Generate(context.Background(), req) {
			_ = err
		}
	})
}

func BenchmarkDecide50Targets(b *testing.B) {
	var targets []string
	for i := range 50 {
		targets = append(targets, fmt.Sprintf("agent%d: Handles topic%d, refunds%d, invoices and other matters of department %d", i, i, i, i))
	}
	req := &llm.Request{System: "You route conversations.", Messages: []llm.Message{user("I have a question on topic17 and refunds17, please")}, Tools: []llm.ToolSpec{transfer(targets...)}}
	m := offline.New()
	b.ReportAllocs()
	for b.Loop() {
		called := false
		for c, err := range m.Generate(context.Background(), req) {
			if err != nil {
				b.Fatal(err)
			}
			called = called || c.Call != nil
		}
		if !called {
			b.Fatal("no transfer")
		}
	}
}

// A line that says that an answer was empty is not what the user has said.
func TestAskedOnceMore(t *testing.T) {
	req := &llm.Request{System: "You route.", Messages: []llm.Message{user("I want a banana"), user("[Your answer was empty. Answer now, in words or by calling a tool.]")},
		Tools: []llm.ToolSpec{transfer("a: Apples", "b-2: Bananas")}}
	got, _ := answer(t, req)
	require.Contains(t, got, `"b-2"`)
}
