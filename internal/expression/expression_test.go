package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/expr-lang/expr/builtin"
	"github.com/stretchr/testify/require"
)

const sample = `{
	"intent": "billing", "sentiment": 0.25, "score": 7, "approved": true, "rejected": false, "nothing": null,
	"big": 9007199254740993, "huge": 18446744073709551615, "text": "Refund please, I was charged twice", "empty": "",
	"items": [{"name": "a", "price": 10, "tags": ["new"]}, {"name": "b", "price": 20.5, "tags": []}],
	"tags": ["urgent", "vip"], "user": {"plan": "pro", "age": 41}, "list": [], "length": 12, "größe": 3, "numbers": [3, 1, 2]
}`

func decode(t testing.TB, s string) any {
	t.Helper()
	require.True(t, json.Valid([]byte(s)))
	return Decode([]byte(s))
}

func TestConditions(t *testing.T) {
	env := Env{Output: decode(t, sample), Input: decode(t, `{"lang": "de", "attempt": 2}`)}
	for source, want := range map[string]bool{
		`output.intent == 'billing'`:                              true,
		`output.intent == "technical"`:                            false,
		`output.intent != 'billing'`:                              false,
		`output.sentiment < 0.3`:                                  true,
		`output.sentiment >= 0.3`:                                 false,
		`output.score > 5 and output.approved`:                    true,
		`output.score > 5 && !output.approved`:                    false,
		`output.rejected or output.score == 7`:                    true,
		`output.rejected || output.score == 7.0`:                  true,
		`not output.rejected`:                                     true,
		`output.approved`:                                         true,
		`output.approved == true`:                                 true,
		`output.missing`:                                          false,
		`output.missing == 'x'`:                                   false,
		`output.missing == nil`:                                   true,
		`output.missing != 'x'`:                                   true,
		`output.nothing == nil`:                                   true,
		`output["intent"] == 'billing'`:                           true,
		`output.user.plan in ['pro', 'team']`:                     true,
		`output.user.plan not in ['free']`:                        true,
		`'urgent' in output.tags`:                                 true,
		`'plan' in output.user`:                                   true,
		`output.missing in ['a']`:                                 false,
		`'a' in output.missing`:                                   false,
		`output.text contains 'charged'`:                          true,
		`output.text not contains 'charged'`:                      false,
		`lower(output.text) startsWith 'refund'`:                  true,
		`output.text endsWith 'twice'`:                            true,
		`output.text matches '(?i)REFUND.*twice$'`:                true,
		`output.missing contains 'x'`:                             false,
		`output.missing matches 'x'`:                              false,
		`len(output.items) == 2`:                                  true,
		`len(output.items) > 0 and output.items[0].name == 'a'`:   true,
		`output.items[-1].name == 'b'`:                            true,
		`output.items | any(.price > 20)`:                         true,
		`all(output.items, .price > 20)`:                          false,
		`any(output.items, {.name == 'b' and len(.tags) == 0})`:   true,
		`count(output.items, .price > 5) == 2`:                    true,
		`none(output.items, 'old' in .tags)`:                      true,
		`output.score > 5 ? output.approved : false`:              true,
		`if output.score > 5 { output.approved } else { false }`:  true,
		`(output.missing ?? 3) > 2`:                               true,
		`output.missing?.deep.er == nil`:                          true,
		`output?.user?.plan == 'pro'`:                             true,
		`get(output.missing, 'x') == nil`:                         true,
		`5 < output.score < 10`:                                   true,
		`5 < output.score <= 6`:                                   false,
		`output.score % 2 == 1`:                                   true,
		`output.score / 2 == 3.5`:                                 true,
		`output.score * 2 - 4 == 10`:                              true,
		`-output.score == -7`:                                     true,
		`2 ** 3 == 8`:                                             true,
		`output.big == 9007199254740993`:                          true,
		`output.big == 9007199254740992`:                          false,
		`output.big > 9007199254740992.0`:                         false, // as float64
		`output.huge > 9223372036854775807`:                       true,
		`output.huge == output.huge`:                              true,
		`output.items[0].tags == ['new']`:                         true,
		`output.user == {"plan": 'pro', "age": 41}`:               true,
		`output.intent == 'a' || input.lang == 'de'`:              true,
		`input.attempt < 3`:                                       true,
		`max(output.numbers) == 3 and min(1, 2) == 1`:             true,
		`sum(output.items, .price) == 30.5`:                       true,
		`mean(output.numbers) == 2`:                               true,
		`int('12') == 12 and float('1.5') == 1.5`:                 true,
		`round(output.sentiment) == 0`:                            true,
		`output["length"] == 12`:                                  true,
		`output.größe == 3`:                                       true,
		`output.text[0:6] == 'Refund'`:                            true,
		`output.numbers[1:] == [1, 2]`:                            true,
		"output.score > 1 // a remark":                            true,
		"output.score > 1\n  and output.score < 9\n":              true,
		`type(output.score) == 'int'`:                             true,
		`output.approved and true == true`:                        true,
		`trim(' x ') == 'x' and upper('a') == 'A'`:                true,
		`first(output.numbers) == 3 and last(output.list) == nil`: true,
		`true`: true,
	} {
		t.Run(source, func(t *testing.T) {
			p, err := Language{}.CompileCondition(source)
			require.NoError(t, err)
			for range 2 { // and again: nothing is left behind
				got, err := p.Test(env)
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		})
	}
}

// TestShortErrors: a message does not quote a whole output.
func TestShortErrors(t *testing.T) {
	for _, source := range []string{"int(output)", "float(output)"} {
		p, err := Language{}.Compile(source)
		require.NoError(t, err)
		_, err = p.Value(Env{Output: strings.Repeat("a", 1<<20)})
		require.ErrorContains(t, err, "aaa…")
		require.Less(t, len(err.Error()), 300)
	}
}

func TestConditionsThatFail(t *testing.T) {
	env := Env{Output: decode(t, sample)}
	for source, say := range map[string]string{
		`output.missing < 3`:                "nil < int (column 16)",
		`output.intent < 3`:                 "string < int",
		`output.sentiment > 'x'`:            "float64 > string",
		`output.missing.deep == 1`:          "cannot fetch deep from nil (column 16)",
		`output.intent.deep == 1`:           "a text and a list have no keys (column 15)",
		`output.intent`:                     "must be true or false",
		`output.score`:                      "must be true or false",
		`not output.missing`:                "this is nil, not bool",
		`output.missing and true`:           "this is nil, not bool",
		`output.items[7].name == 'a'`:       "index out of range: 7 (array length is 2)",
		`output.items.name == 'a'`:          "a text and a list have no keys",
		`output.score + output.intent`:      "int + string",
		`output.text in output.intent`:      `operator "in" not defined on string`,
		`output.tags contains 'vip'`:        "this is a list, not string",
		`output.tags matches 'vip'`:         "this is a list, not string",
		`output.score / 0 > 1`:              "infinite",
		`output.score % 0 > 1`:              "divide by zero",
		`output.big * output.big > 1`:       "64 bits",
		`10.0 ** 400 > 1`:                   "infinite",
		`any(output.intent, true)`:          "a list is needed, and this is the text",
		`any(output.items, .price)`:         "this is int, not bool",
		`len(output.missing) > 1`:           "invalid argument for len (type nil)",
		`9223372036854775807 + 1 > 1`:       "64 bits",
		`-9223372036854775807 - 2 > 1`:      "64 bits",
		`int('x') > 1`:                      "int(x)",
		`int(1e30) > 1`:                     "64 bits",
		`sum([9223372036854775807, 1]) > 1`: "64 bits",
		`fromJSON('{') == 1`:                "that is JSON",
		`output.score ? true : false`:       "this is int, not bool",
		`output.missing startsWith output`:  "",
	} {
		t.Run(source, func(t *testing.T) {
			p, err := Language{}.CompileCondition(source)
			if err != nil { // the type checker knew
				require.NotEmpty(t, say)
				return
			}
			yes, err := p.Test(env)
			require.False(t, yes, "an error is never true")
			if say == "" {
				require.NoError(t, err)
				return
			}
			var wrong *EvalError
			require.ErrorAs(t, err, &wrong)
			require.Contains(t, err.Error(), say)
			require.Equal(t, source, wrong.Source)
		})
	}
}

func TestRefused(t *testing.T) {
	for source, say := range map[string]string{
		``:                                     "empty",
		" \n":                                  "empty",
		`output.x === 'y'`:                     "write == for equal",
		`output.x !== 'y'`:                     "write != for not equal",
		`output.x = 'y'`:                       "write == for equal",
		`output.x <> 'y'`:                      "write !=",
		`output.x == “a”`:                      "straight quotes",
		`output.x == ‘a’`:                      "straight quotes",
		`output.a AND output.b`:                "small letters",
		`output.a OR output.b`:                 "small letters",
		`NOT output.a`:                         "small letters",
		`output.items.length > 3`:              "len(…)",
		`${{ output.x == 1 }}`:                 "without ${{ }}",
		`{{ output.x }}`:                       "without ${{ }}",
		`user has billing questions`:           "sentence",
		`output.x == null`:                     "write nil",
		`output.x == None`:                     "write nil",
		`output.x == True`:                     "write true",
		`intent == 'billing'`:                  "did you mean output.intent",
		`$env`:                                 "$env is not available",
		`$env.output == 1`:                     "$env is not available",
		`output.x == 1; true`:                  "semicolon",
		`output.x == 1;`:                       "semicolon",
		`let x = output.a; x == 1`:             "not available",
		`1..3 == [1, 2, 3]`:                    "ranges",
		`len(1..1000000000) > 1`:               "ranges",
		`any(output.a, any(.b, # == 1))`:       "inside of another one",
		`map(output.a, filter(output.b, #))`:   "inside of another one",
		`now() == 1`:                           "no clock",
		`date('2020-01-01') == 1`:              "no clock",
		`repeat('a', 1000000000) == ''`:        "cost",
		`reduce(output.a, #acc + #index) == 1`: "not available",
		`sortBy(output.a, #) == 1`:             "not available",
		`output.text.includes('x')`:            "a contains b",
		`output.text.foo()`:                    "no methods",
		`random() > 1`:                         `no function "random"`,
		`Len(output.a) > 1`:                    "did you mean len",
		`output.x + 1 > 'a'`:                   "",
		`'yes'`:                                "must be true or false, and this is a text",
		`1 + 2`:                                "must be true or false, and this is a number",
		`nil`:                                  "must be true or false, and this is nothing",
		`[true]`:                               "must be true or false, and this is a list",
		`{"a": true}`:                          "must be true or false, and this is a mapping",
		`1 and true`:                           "invalid operation",
		`'a' + 1 == 'a1'`:                      "invalid operation",
		`output.a matches output.b`:            "stands in the expression",
		`output.a matches '('`:                 "the pattern cannot be read",
		`output.a matches '((a{100}){100})'`:   "cannot be read",
		`output.a matches '` + strings.Repeat("a{900}", 80) + `'`: "too complex",
		`output.a matches '` + strings.Repeat("a", 600) + `'`:     "at most",
		`output.a ==`:                    "ends too early",
		`(output.a`:                      "",
		`'open`:                          "",
		"output.a == b'x'":               "not available",
		"\xff":                           "UTF-8",
		strings.Repeat("a", maxSource+1): "at most",
		strings.Repeat("1+", 2000) + "1": "more than",
		"::len(output.a) > 1":            "not available",
		`99999999999999999999 > 1`:       "integer literal",
		`output.a == 1 is true`:          "",
	} {
		t.Run(source[:min(len(source), 40)], func(t *testing.T) {
			if say == "" && source == `output.x + 1 > 'a'` {
				_, err := Language{}.CompileCondition(source)
				if err == nil {
					return // the type is known only when it is evaluated
				}
			}
			_, err := Language{}.CompileCondition(source)
			var wrong *CompileError
			require.ErrorAs(t, err, &wrong)
			require.Contains(t, err.Error(), say)
			require.Less(t, len(err.Error()), 400)
		})
	}
}

func TestColumns(t *testing.T) {
	_, err := Language{}.CompileCondition("output.a == 1 and\n  output.b === 2")
	var wrong *CompileError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, 2, wrong.Line)
	require.Equal(t, 14, wrong.Column)
}

// TestDoubledParts: a < b < c holds b twice, so that nested chains are exponential
// for whoever does not count.
func TestDoubledParts(t *testing.T) {
	source := "1"
	for range 40 {
		source = "0 < (" + source + ") < 2 ? 1 : 0"
	}
	began := time.Now()
	_, err := Language{}.Compile(source)
	require.ErrorContains(t, err, "more than 500 parts")
	require.Less(t, time.Since(began), time.Minute)
}

func TestTransform(t *testing.T) {
	env := Env{Output: decode(t, sample), Input: "the input"}
	for source, want := range map[string]string{
		`{"data": output.items, "format": "json"}`: `{"data":[{"name":"a","price":10,"tags":["new"]},{"name":"b","price":20.5,"tags":[]}],"format":"json"}`,
		"{\n  \"data\": output.user,\n}\n":         `{"data":{"plan":"pro","age":41}}`,
		`output.big`:                               `9007199254740993`,
		`output.huge`:                              `18446744073709552000`,
		`[output.intent, output.missing]`:          `["billing",null]`,
		`map(output.items, .name)`:                 `["a","b"]`,
		`filter(output.items, .price > 15)`:        `[{"name":"b","price":20.5,"tags":[]}]`,
		`find(output.items, .name == 'b').price`:   `20.5`,
		`findIndex(output.items, .name == 'b')`:    `1`,
		`findLast(output.items, true).name`:        `"b"`,
		`findLastIndex(output.items, false)`:       `null`,
		`"Answer: " + output.intent`:               `"Answer: billing"`,
		`"n = " + string(output.score)`:            `"n = 7"`,
		`join(output.tags, ', ')`:                  `"urgent, vip"`,
		`split('a,b', ',')`:                        `["a","b"]`,
		`replace('a-b-c', '-', '')`:                `"abc"`,
		`keys(output.user)`:                        `["age","plan"]`,
		`values(output.user)`:                      `[41,"pro"]`,
		`reverse(output.numbers)`:                  `[2,1,3]`,
		`concat(output.tags, ['x'])`:               `["urgent","vip","x"]`,
		`take(output.numbers, 2)`:                  `[3,1]`,
		`toJSON(output.user)`:                      `"{\"age\":41,\"plan\":\"pro\"}"`,
		`fromJSON('{"a": [1, 2.5]}').a`:            `[1,2.5]`,
		`trimPrefix('abc', 'a') + trimSuffix('abc', 'c') + trim('--x--', '-')`: `"bcabx"`,
		`{(output.intent): 1}`: `{"billing":1}`,
		`input`:                `"the input"`,
		`abs(-3)`:              `3`,
		`ceil(1.2)`:            `2`,
		`floor(-1.2)`:          `-2`,
		`2 * 3 + 4`:            `10`,
		`nil`:                  `null`,
		`sum(output.numbers)`:  `6`,
	} {
		t.Run(source, func(t *testing.T) {
			p, err := Language{}.Compile(source)
			require.NoError(t, err)
			got, err := p.Value(env)
			require.NoError(t, err)
			data, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, want, string(data))
			require.NotContains(t, string(data), "e+", "whole numbers stay whole")
			requireNoNumbers(t, got)
		})
	}
}

// requireNoNumbers: a result has numbers of two Go types and no others.
func requireNoNumbers(t *testing.T, v any) {
	switch v := v.(type) {
	case nil, bool, string, int, float64:
	case []any:
		for _, i := range v {
			requireNoNumbers(t, i)
		}
	case map[string]any:
		for _, i := range v {
			requireNoNumbers(t, i)
		}
	default:
		require.Failf(t, "type", "%T", v)
	}
}

func TestResultsShareNothing(t *testing.T) {
	inner := map[string]any{"a": []any{1, map[string]any{"b": "c"}}}
	p, err := Language{}.Compile(`[output, output.x, filter(output.x.a, true), output.x.a[0:1]]`)
	require.NoError(t, err)
	env := Env{Output: map[string]any{"x": inner}}
	got, err := p.Value(env)
	require.NoError(t, err)
	list := got.([]any)
	list[0].(map[string]any)["x"].(map[string]any)["a"].([]any)[0] = "changed"
	list[1].(map[string]any)["new"] = true
	list[2].([]any)[1].(map[string]any)["b"] = "changed"
	list[3].([]any)[0] = "changed"
	require.Equal(t, map[string]any{"a": []any{1, map[string]any{"b": "c"}}}, inner)
}

func TestCopy(t *testing.T) {
	type own struct{ A int }
	for in, want := range map[any]any{
		int(1): 1, int8(1): 1, int16(1): 1, int32(1): 1, int64(1): 1, uint(1): 1, uint8(1): 1, uint16(1): 1, uint32(1): 1,
		uint64(math.MaxInt64): math.MaxInt64, uint64(math.MaxUint64): float64(math.MaxUint64), float32(0.5): 0.5, json.Number("12"): 12,
		json.Number("1.5"): 1.5, json.Number("18446744073709551615"): float64(math.MaxUint64), json.Number("1e2"): float64(100), json.Number("1e999"): math.Inf(1),
	} {
		got, err := Copy(map[string]any{"a": []any{in}})
		require.NoError(t, err)
		require.Equal(t, map[string]any{"a": []any{want}}, got, "%T", in)
	}
	cycle := map[string]any{}
	cycle["x"] = cycle
	for _, bad := range []any{own{}, &own{}, []string{"a"}, json.Number("x"), func() {}, cycle} {
		_, err := Copy([]any{bad})
		require.Error(t, err, "%T", bad)
	}
	whole, err := Language{}.Compile(`output`)
	require.NoError(t, err)
	for _, bad := range []any{math.NaN(), math.Inf(1), map[string]any{"a": math.Inf(-1)}} {
		_, err := whole.Value(Env{Output: bad})
		require.ErrorContains(t, err, "infinite")
	}
}

// expensive are the worst expressions that we know, with what they work on.
func expensive() map[string]struct {
	source string
	output any
} {
	list := make([]any, 100_000)
	for i := range list {
		list[i] = map[string]any{"name": fmt.Sprint("name ", i), "n": int64(i)}
	}
	long := strings.Repeat("abcdefgh ", 200_000)
	output := map[string]any{"list": list, "text": long, "words": make([]any, 100_000)}
	deep := any("x")
	for range 900 {
		deep = []any{deep, deep} // shared: as a tree it is endless
	}
	type c = struct {
		source string
		output any
	}
	return map[string]c{
		"quadratic in":        {`any(output.list, # in output.list and false)`, output},
		"quadratic equal":     {`any(output.list, output.list == reverse(output.list))`, output},
		"quadratic contains":  {`any(output.list, output.text contains 'zzz')`, output},
		"pattern on long":     {`output.text matches '` + strings.Repeat("[a-z ]{9}", 50) + `'`, output},
		"all of it each time": {`map(output.list, output.list)`, output},
		"text each time":      {`map(output.list, output.text)`, output},
		"text doubled":        {strings.Repeat("output.text+", 200) + "output.text", output},
		"upper each time":     {`any(output.list, upper(output.text) == '')`, output},
		"split each time":     {`any(output.list, len(split(output.text, '')) == 0)`, output},
		"replace":             {`replace(output.text, '', output.text)`, output},
		"join":                {`join(split(output.text, ''), output.text)`, output},
		"deep result":         {`output`, deep},
		"deep equal":          {`output == [output[0], output[1]]`, deep},
		"parentheses":         {strings.Repeat("(", 2000) + "1" + strings.Repeat(")", 2000), nil},
		"signs":               {strings.Repeat("-", 490) + "1", nil},
		"brackets":            {strings.Repeat("[", 490) + "1" + strings.Repeat("]", 490), nil},
		"json brackets":       {`fromJSON(output)`, strings.Repeat("[", 900_000) + strings.Repeat("]", 900_000)},
		"sums":                {`any(output.list, sum([1, 2]) == 0)`, output},
	}
}

func TestBounded(t *testing.T) {
	for name, c := range expensive() {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			p, err := Language{}.Compile(c.source)
			if err == nil {
				var output any
				if output, err = Copy(c.output); err == nil {
					_, err = p.Value(Env{Output: output})
				}
			}
			if err != nil {
				var evaluation *EvalError
				var compilation *CompileError
				require.True(t, errors.As(err, &evaluation) || errors.As(err, &compilation) || errors.Is(err, errMemory), "%v", err)
				require.Less(t, len(err.Error()), 600)
			}
			took := time.Since(began)
			t.Logf("%v %v", took, err)
			require.Less(t, took, time.Minute, "generous, because the machine may be busy")
		})
	}
}

func TestFunctions(t *testing.T) {
	require.True(t, slices.IsSorted(functions))
	for _, name := range functions {
		require.Contains(t, builtin.Index, name)
	}
}
