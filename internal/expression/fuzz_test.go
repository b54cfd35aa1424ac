package expression

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/expr-lang/expr"
	"github.com/stretchr/testify/require"
)

// seeds are conditions as people write them.
var seeds = []string{
	`output.intent == 'billing'`, `output.sentiment < 0.3`, `output.score > 5 and output.approved`, `not (output.a or output.b)`,
	`output.user.plan in ['pro', 'team']`, `'urgent' in output.tags`, `output.text contains 'x' || output.text matches '^a.*b$'`,
	`len(output.items) > 0 && output.items[0].name == 'a'`, `any(output.items, .price > 20)`, `filter(output.items, {.a == # and true})`,
	`{"data": output.extracted, "format": "json", (output.a): [1, 2.5, nil]}`, `output.a?.b?.c ?? input.d`, `1 < output.x <= 3`,
	`output.a % 2 == 0 ? output.b : -output.c ** 2`, `if output.a { 1 } else { 'b' }`, `output.items | map(.name) | join(', ')`,
	`fromJSON(toJSON(output)) == output`, `split(replace(lower(output.text), 'a', 'bb'), ' ')[1:-1]`, `max(output.n, [1, 2]) + min(3) * mean([1]) / sum([1, 2])`,
	`keys(output)[0] + string(values(output)[0])`, `output.x === 'y'`, `user has billing questions`, `let x = 1; x`, `${{ output }}`, "`raw` == 'a'", `state.a + state["n"]`,
}

// FuzzExpression compiles and evaluates: no panic comes out, errors are of the two
// types, what was given is not changed, and the same comes out twice.
func FuzzExpression(f *testing.F) {
	for _, s := range seeds {
		f.Add(s, sample)
	}
	f.Fuzz(func(t *testing.T, source, data string) {
		var output any
		if len(data) > 10_000 || json.Unmarshal([]byte(data), &output) != nil {
			output = data
		}
		before, err := json.Marshal(output)
		require.NoError(t, err)
		for _, compile := range []func(string) (*Program, error){Language{}.Compile, Language{}.CompileCondition, WithState("a", "n").Compile, WithState().CompileTexts} {
			p, err := compile(source)
			if err != nil {
				var wrong *CompileError
				if !errors.As(err, &wrong) || wrong.Message == "" || strings.HasPrefix(wrong.Message, "the expression cannot be read") {
					t.Fatalf("%T: %v", err, err)
				}
				continue
			}
			env := Env{Output: output, Input: output, State: output}
			v, err := p.Value(env)
			again, errAgain := p.Value(env)
			require.Equal(t, err, errAgain)
			require.Equal(t, v, again)
			if err != nil {
				var wrong *EvalError
				if !errors.As(err, &wrong) || strings.Contains(wrong.Message, "cannot be evaluated") {
					t.Fatalf("%T: %v", err, err)
				}
			} else if _, err := json.Marshal(v); err != nil {
				t.Fatalf("%#v is not JSON: %v", v, err)
			}
			_, _ = p.Test(env)
			_, _ = p.Texts(env)
			_ = p.Constants()
		}
		after, err := json.Marshal(output)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after))
	})
}

// FuzzLikeExpr compares evaluation with that of the library whose language this
// is: where both give true or false, they give the same. Its optimizer is left out,
// with which nil in [”] is true.
func FuzzLikeExpr(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	var output any
	require.NoError(f, json.Unmarshal([]byte(strings.NewReplacer(`"big": 9007199254740993, "huge": 18446744073709551615,`, "").Replace(sample)), &output))
	f.Fuzz(func(t *testing.T, source string) {
		p, err := Language{}.CompileCondition(source)
		if err != nil {
			return
		}
		for _, other := range []string{"string", "JSON", "type", "int", "float", "round", "ceil", "floor", "abs", "len", "keys", "values", "trim", "split", "[", "e"} {
			// bytes where we have characters, Go's forms where we have JSON's
			if strings.Contains(blankTexts(source), other+"(") || other == "e" && len(source) > 200 {
				return
			}
		}
		got, err := p.Test(Env{Output: output, Input: output})
		if err != nil {
			return
		}
		program, err := expr.Compile(source, expr.Env(names{}), expr.AsBool(), expr.Optimize(false))
		if err != nil {
			return
		}
		want, err := expr.Run(program, names{Output: output, Input: output})
		if err != nil {
			return
		}
		require.Equal(t, want, got, source)
	})
}
