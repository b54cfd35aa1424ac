package expression

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestState(t *testing.T) {
	l := WithState("count", "notes")
	env := Env{Output: decode(t, `{"key": "count", "n": 2}`), State: map[string]any{"count": 3, "notes": []any{"a"}}}
	for source, want := range map[string]any{
		`state.count + output.n`: 5, `state["notes"][0]`: "a", `state[output.key]`: 3, `state["no" + "ne"]`: nil,
		`keys(state)`: []any{"count", "notes"}, `state?.count`: 3, `'count' in state`: true, `output.state`: nil,
	} {
		p, err := l.Compile(source)
		require.NoError(t, err, source)
		got, err := p.Value(env)
		require.NoError(t, err, source)
		require.Equal(t, want, got, source)
	}
	p, err := l.CompileCondition(`state.count > 2`)
	require.NoError(t, err)
	yes, err := p.Test(env)
	require.NoError(t, err)
	require.True(t, yes)
	for source, say := range map[string]string{
		`state.cuont`: `the state has no key "cuont"; did you mean "count"? (column 7)`, `state.other`: `it has count, notes`, `state["x"]`: `no key "x"`,
		`state?.x`: `no key "x"`, `stat.count`: "sees output, input and state only", `output.n + state.x`: `no key "x"`,
	} {
		_, err := l.Compile(source)
		var wrong *CompileError
		require.True(t, errors.As(err, &wrong), source)
		require.Contains(t, err.Error(), say)
	}
	l = WithInput([]string{"message", "metadata"}, "vip")
	for source, say := range map[string]string{
		`input.message == 'a' and state.vip == true`: "", `input.metadata.a.b == 1`: "",
		`output.a == 1`: "there is no output here, because no agent has answered: an expression sees input and state only",
		`input.mesage`:  `the input has no key "mesage"; did you mean "message"?`, `message == 'a'`: "did you mean input.message",
		`inptu.message`: "did you mean input,", `gold`: "did you mean state.gold,", `input["x"]`: "it has message, metadata",
	} {
		if _, err := l.Compile(source); say == "" {
			require.NoError(t, err, source)
		} else {
			require.ErrorContains(t, err, say, source)
		}
	}
	_, err = WithState().Compile(`state.a`)
	require.ErrorContains(t, err, "no keys at all")
	for _, source := range []string{`state`, `state.count`, `output.a + state.b`} {
		_, err := Language{}.Compile(source)
		require.ErrorContains(t, err, "there is no state here: graphs of apiVersion arbor/v1 have one", source)
	}
}

func TestTexts(t *testing.T) {
	for source, want := range map[string][]string{
		`'a'`: {"a"}, `['a', "b"]`: {"a", "b"}, `nil`: nil, `[]`: {}, `output.to`: {"x"}, `output.list`: {"x", "y"},
		`output.n > 1 ? 'a' : output.list`: {"a"}, `output.none ?? 'a'`: {"a"}, `filter(output.list, # == 'y')`: {"y"},
	} {
		p, err := Language{}.CompileTexts(source)
		require.NoError(t, err, source)
		got, err := p.Texts(Env{Output: decode(t, `{"to": "x", "list": ["x", "y"], "n": 2}`)})
		require.NoError(t, err, source)
		require.Equal(t, want, got, source)
	}
	for _, source := range []string{`1`, `output.a == 1`, `{"a": 1}`, `1.5`, `len(output)`} {
		_, err := Language{}.CompileTexts(source)
		require.ErrorContains(t, err, "a text or a list of texts is needed, and this is", source)
	}
	for _, source := range []string{`output.n`, `[1]`, `output`, `[['a']]`} {
		p, err := Language{}.CompileTexts(source)
		require.NoError(t, err, source)
		_, err = p.Texts(Env{Output: decode(t, `{"n": 2}`)})
		var wrong *EvalError
		require.True(t, errors.As(err, &wrong), source)
	}
	for source, want := range map[string][]string{
		`'a'`: {"a"}, `['a', output.b, 'c']`: {"a", "c"}, `output.x == 'z' ? 'a' : ['b']`: {"a", "b"}, `output.x ?? 'd'`: {"d"},
		`output.a?.b ?? ['e']`: {"e"}, `'a' + 'b'`: nil, `output['a']`: nil, `(output.x ? nil : 'q')`: {"q"},
	} {
		p, err := Language{}.Compile(source)
		require.NoError(t, err)
		require.Equal(t, want, p.Constants(), source)
	}
}
