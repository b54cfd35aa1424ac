package tools_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
)

// payments is a tool with arguments of all kinds.
var payments = tools.Info{ToolSpec: llm.ToolSpec{Name: "pay", Parameters: json.RawMessage(`{"type":"object","properties":{
	"amount":{"type":"number"},"note":{"type":"string"},"to":{"type":"array","items":{"type":"string"}},"a.b":{"type":"integer"},
	"card":{"$ref":"#/$defs/card"},"items":{"type":"array","items":{"anyOf":[{"type":"object","properties":{"price":{}}},{"type":"null"}]}},
	"more":{"type":"object"}},"additionalProperties":false,"$defs":{"card":{"type":"object","properties":{"owner":{"type":"string"},"next":{"$ref":"#/$defs/card"}}}}}`)}}

func decide(t require.TestingT, arg string, a tools.Arg, input string) tools.Decision {
	p, err := tools.NewPolicy(tools.Rule{Tool: "pay", Args: map[string]tools.Arg{arg: a}, Decision: tools.Deny})
	require.NoError(t, err)
	return p.Decide(payments, json.RawMessage(input))
}

// TestArguments: what is written in one line, the argument first, matches the inputs that follow,
// and does not match those after the null.
func TestArguments(t *testing.T) {
	for name, c := range map[string]struct {
		arg         string
		is          tools.Arg
		holds, free []string
	}{
		"above": {"amount", tools.Arg{Above: 100},
			[]string{`{"amount":100.01}`, `{"amount":1e3}`, `{"amount":"5000"}`, `{"amount":" 5e3 "}`, `{"amount":100.00000000000000000000000000001}`,
				`{"amount":1e999999999999}`, `{"amount":1e-999999}`, `{"amount":` + strings.Repeat("9", 5000) + `}`,
				`{}`, `{"amount":null}`, `{"amount":"much"}`, `{"amount":"5,000"}`, `{"amount":"+5"}`, `{"amount":"0x1"}`, `{"amount":"1/2"}`, `{"amount":"NaN"}`,
				`{"amount":true}`, `{"amount":{}}`, `{"amount":[]}`, `{"amount":[5,500]}`, `{"amount":[[5],[null]]}`, `{"Amount":5}`, `{"amount":5,"Amount":500}`,
				`{"amount":5,"amount":500}`, `{"amount":5,"note":{"x":1,"x":1}}`, `[5]`, `null`, `5`, `{`, ``},
			[]string{`{"amount":100}`, `{"amount":1e2}`, `{"amount":100.000}`, `{"amount":"1e2"}`, `{"amount":-5000}`, `{"amount":-0}`, `{"amount":[5,6]}`, `{"amount":5,"Amount":6}`}},
		"decimal": {"amount", tools.Arg{Above: 0.1}, []string{`{"amount":0.10000000000000000001}`}, []string{`{"amount":0.1}`, `{"amount":1e-1}`}},
		"huge":    {"amount", tools.Arg{Above: "9007199254740992"}, []string{`{"amount":9007199254740993}`}, []string{`{"amount":9007199254740992}`}},
		"between": {"amount", tools.Arg{Above: json.Number("1e1"), Below: int64(20)}, []string{`{"amount":10.5}`, `{"amount":"x"}`}, []string{`{"amount":10}`, `{"amount":20}`}},
		"below and optional": {"amount", tools.Arg{Below: 0, Optional: true},
			[]string{`{"amount":-1}`, `{"amount":"x"}`}, []string{`{}`, `{"amount":null}`, `{"amount":[]}`, `{"amount":0}`}},
		"given": {"amount", tools.Arg{Optional: true}, []string{`{"amount":1}`, `{"AMOUNT":1}`}, []string{`{}`, `{"note":1}`}},
		"pattern of a number": {"amount", tools.Arg{Matches: `^[0-9]{4,}$`},
			[]string{`{"amount":5000}`, `{"amount":5e3}`, `{"amount":5000.0}`, `{"amount":"5e3"}`, `{"amount":1000.00000000000000000001}`, `{"amount":1e2000}`, `{}`},
			[]string{`{"amount":999}`, `{"amount":5000.5}`, `{"amount":-5000}`}},
		"pattern": {"note", tools.Arg{Matches: "^caf\u00e9$"}, []string{`{"note":"café"}`, `{"note":"cafe\u0301"}`, `{"note":["x","café"]}`, `{}`},
			[]string{`{"note":"cafe"}`, `{"note":"café "}`, `{"note":"x","amount":5}`}},
		"pattern in another form": {"note", tools.Arg{Matches: "^cafe\u0301$", Trim: true}, []string{`{"note":"\u00a0café\n"}`}, []string{`{"note":"cafe"}`}},
		"text of a number":        {"note", tools.Arg{Matches: "^1e5$"}, []string{`{"note":"1e5"}`}, []string{`{"note":"100000"}`, `{"note":1e5}`}},
		"true":                    {"note", tools.Arg{In: []any{true}}, []string{`{"note":true}`, `{"note":"true"}`}, []string{`{"note":false}`}},
		"object":                  {"card", tools.Arg{Matches: `^{"a":1000,"b":\["é"\]}$`}, []string{`{"card":{"b":["e\u0301"],"a":1e3}}`, `{"card":{"a":1e99999}}`}, []string{`{"card":{"a":1}}`}},
		"in": {"amount", tools.Arg{In: []any{5000, "EUR", "9007199254740993"}},
			[]string{`{"amount":5e3}`, `{"amount":"5000.0"}`, `{"amount":"EUR"}`, `{"amount":["x","EUR"]}`, `{"amount":9007199254740992}`, `{}`},
			[]string{`{"amount":5001}`, `{"amount":"eur"}`, `{"amount":"EUR "}`}},
		"not in": {"note", tools.Arg{NotIn: []any{5000, "ann", "e\u0301"}},
			[]string{`{"note":"bob"}`, `{"note":"ann "}`, `{"note":["ann","bob"]}`, `{"note":"5e3"}`, `{"note":5000.00000000000000000001}`, `{}`, `{"note":[]}`, `{"note":{}}`},
			[]string{`{"note":"ann"}`, `{"note":["ann","ann"]}`, `{"note":"5000"}`, `{"note":5e3}`, `{"note":"é"}`}},
		"nested": {"card.owner", tools.Arg{NotIn: []any{"ann"}},
			[]string{`{"card":{"owner":"bob"}}`, `{"card":{}}`, `{"card":"ann"}`, `{}`, `{"card":{"owner":"ann","OWNER":"bob"}}`, `{"Card":{"owner":"bob"},"card":{"owner":"ann"}}`,
				`{"card.owner":"bob"}`}, []string{`{"card":{"owner":"ann"}}`, `{"card.owner":"ann"}`}},
		"items": {"items.price", tools.Arg{Above: 10}, []string{`{"items":[{"price":1},{"price":11}]}`, `{"items":[{"price":1},{}]}`, `{"items":[]}`, `{"items":[{"price":1},null]}`},
			[]string{`{"items":[{"price":1},{"price":10}]}`, `{"items":{"price":1}}`}},
		"a dot in the name": {"a.b", tools.Arg{Above: 10}, []string{`{"a.b":11}`, `{"a":{"b":11}}`, `{}`}, []string{`{"a.b":1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, input := range c.holds {
				require.Equal(t, tools.Deny, decide(t, c.arg, c.is, input), input)
			}
			for _, input := range c.free {
				require.Equal(t, tools.Allow, decide(t, c.arg, c.is, input), input)
			}
		})
	}
}

// A pattern of names is about the tools that have the argument.
func TestArgumentsOfPatterns(t *testing.T) {
	p, err := tools.NewPolicy(tools.Rule{Tool: "*", Args: map[string]tools.Arg{"amount": {Above: 100}}, Decision: tools.Ask})
	require.NoError(t, err)
	other := tools.Info{ToolSpec: llm.ToolSpec{Name: "look", Parameters: json.RawMessage(`{"type":"object","properties":{"id":{}}}`)}}
	require.Equal(t, tools.Allow, p.Decide(other, json.RawMessage(`{"id":1}`)))
	require.Equal(t, tools.Ask, p.Decide(other, json.RawMessage(`{"id":1,"amount":500}`)))
	require.Equal(t, tools.Ask, p.Decide(payments, json.RawMessage(`{}`)))
	open := tools.Info{ToolSpec: llm.ToolSpec{Name: "any", Parameters: json.RawMessage(`{"type":"object"}`)}}
	require.Equal(t, tools.Ask, p.Decide(open, json.RawMessage(`{}`)))
}

func TestBadArguments(t *testing.T) {
	for message, a := range map[string]tools.Arg{
		"the condition is empty":                 {},
		"missing closing )":                      {Matches: "("},
		"much is not a decimal number":           {Above: "much"},
		"1e9999 is not a decimal number":         {Below: "1e9999"},
		"no number is above 5 and below 5":       {Above: 5, Below: 5.0},
		"<nil> cannot be compared":               {In: []any{nil}},
		"[1] cannot be compared":                 {NotIn: []any{[]int{1}}},
		"NaN is not a decimal number of at most": {Above: math.NaN()},
	} {
		_, err := tools.NewPolicy(tools.Rule{Tool: "pay", Args: map[string]tools.Arg{"amount": a}})
		require.ErrorContains(t, err, `rule 0 for "pay", argument "amount": `)
		require.ErrorContains(t, err, message)
	}
}

func TestMistakes(t *testing.T) {
	own := tools.Info{ToolSpec: llm.ToolSpec{Name: "bank_send", Parameters: payments.Parameters}, Own: "send"}
	slashed := tools.Info{ToolSpec: llm.ToolSpec{Name: "files_del"}, Own: "files/dél"}
	for rule, want := range map[string]string{
		"pay": "", "bank_send": "", "send": "", "*": "", "p*": "", "files/dél": "", "files/de\u0301l": "", "files/*": "",
		"pya": `there is no tool "pya"; did you mean "pay"?`, "Pay": `there is no tool "Pay"; did you mean "pay"?`,
		"p\u0430y": `there is no tool "p\u0430y"; did you mean "pay"?`, "sned": `there is no tool "sned"; did you mean "send"?`, "x*": `there is no tool "x*"`,
		"pay amount": "", "pay more.x": "", "pay card.next.next.owner": "", "pay items.price": "", "pay a.b": "", "* amount": "", "send card.owner": "",
		"pay ammount":    `the tool pay has no argument "ammount"; did you mean "amount"?`,
		"pay Amount":     `the tool pay has no argument "Amount"; did you mean "amount"?`,
		"pay amount.sum": `the tool pay has no argument "amount.sum"`,
		"p* card.x.y":    `the tool pay has no argument "card.x.y"; there are next, owner`,
	} {
		tool, arg, _ := strings.Cut(rule, " ")
		r := tools.Rule{Tool: tool, Decision: tools.Ask}
		if arg != "" {
			r.Args = map[string]tools.Arg{arg: {Above: 1}}
		}
		p, err := tools.NewPolicy(r)
		require.NoError(t, err)
		require.Equal(t, want, strings.Trim(fmt.Sprint(p.Mistakes([]tools.Info{own, payments, slashed, payments})), "[]"), rule)
	}
	p, err := tools.NewPolicy(tools.Rule{Tool: "send", Decision: tools.Ask})
	require.NoError(t, err)
	require.Equal(t, tools.Ask, p.Decide(own, nil))
	for _, other := range []tools.Info{{ToolSpec: llm.ToolSpec{Name: "send"}}, {ToolSpec: llm.ToolSpec{Name: "x_send"}, Own: "send"}} {
		m := p.Mistakes([]tools.Info{own, other})
		require.Len(t, m, 1)
		require.Contains(t, m[0].String(), `"send" means 2 tools, bank_send and `)
	}
}

// TestSpellings: whatever value a rule holds for, it holds for all of the value's spellings; and numbers
// are compared as exactly as math/big does it.
func TestSpellings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.Int64Range(-1_000_000, 1_000_000).Draw(t, "whole")
		places := rapid.IntRange(0, 4).Draw(t, "places")
		n := new(big.Rat).SetFrac(big.NewInt(whole), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil))
		shift := rapid.IntRange(-30, 30).Draw(t, "shift")
		moved := fmt.Sprintf("%de%d", whole, -places)
		if shift > 0 && whole != 0 {
			moved = fmt.Sprintf("%d%se%d", whole, strings.Repeat("0", shift), -places-shift)
		}
		spellings := []string{n.FloatString(places), n.FloatString(places + 3), moved, strings.Replace(moved, "e", "E", 1), strings.Replace(moved, "e-", "e-00", 1)}
		for _, s := range spellings {
			spellings = append(spellings, `"`+s+`"`, `" `+s+`"`, "["+s+"]", `["`+s+`"]`)
		}
		limit := rapid.Float64Range(-1e6, 1e6).Draw(t, "limit")
		listed := rapid.SampledFrom([]any{whole, n.FloatString(places), json.Number(moved), 0}).Draw(t, "listed")
		rules := map[string]tools.Arg{"above": {Above: limit}, "below": {Below: limit}, "equal": {In: []any{listed}},
			"pattern": {Matches: rapid.SampledFrom([]string{`^[0-9]{4,}$`, `^-`, `\.`, `5$`, `^` + n.FloatString(places) + `$`}).Draw(t, "pattern")}}
		for name, a := range rules {
			want := decide(t, "amount", a, `{"amount":`+spellings[0]+`}`)
			if name == "above" {
				exact, _ := new(big.Rat).SetString(strconv.FormatFloat(limit, 'f', -1, 64))
				require.Equal(t, n.Cmp(exact) > 0, want == tools.Deny)
			}
			for _, s := range spellings {
				got := decide(t, "amount", a, `{"\u0061mount" : `+s+`}`)
				if text := strings.ContainsRune(s, '"'); want == tools.Deny || !text {
					require.Equal(t, want, got, "%s %s", name, s)
				}
			}
		}
	})
}

// FuzzArguments: a call that the tool may get is one that the rule has judged: what a program in Go reads of
// the arguments, also by another case of the key, is never more than what passes the rule.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{`{"amount":5}`, `{"amount":5,"AMOUNT":5000}`, `{"amount":1e3}`, `{"amount":5,"amount":5000}`, `{"Amount":5000}`, `{"\u0061mount":1E+0003}`,
		`{"amount":null}`, "{\"a\u017fmount\":5000}", `{"amount":100.00000000000000001}`, `{"amount":5}{"amount":5000}`, `{"amount":-0.0}`} {
		f.Add(seed)
	}
	pay, err := tools.New(tools.Info{ToolSpec: llm.ToolSpec{Name: "pay", Parameters: json.RawMessage(`{"type":"object"}`)}},
		func(tools.Context, json.RawMessage) (any, error) { return nil, nil })
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, input string) {
		if tools.Check(pay, json.RawMessage(input)) != nil || decide(t, "amount", tools.Arg{Above: 100}, input) != tools.Allow {
			return
		}
		var in struct {
			Amount float64 `json:"amount"`
		}
		if json.Unmarshal([]byte(input), &in) == nil {
			require.LessOrEqual(t, in.Amount, 100.0, "%q", input)
		}
		var object map[string]float64
		if json.Unmarshal([]byte(input), &object) == nil {
			require.LessOrEqual(t, object["amount"], 100.0, "%q", input)
		}
	})
}
