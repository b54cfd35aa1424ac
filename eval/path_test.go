package eval_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/eval"
)

func path(t testing.TB, text string) eval.Path {
	p, err := eval.ParsePath(text)
	require.NoError(t, err)
	return p
}

// TestMatchesLikeAPattern holds paths against regular expressions that say the same.
func TestMatchesLikeAPattern(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "a|b", "b|c", "…"}), 1, 6).Draw(rt, "path")
		agents := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 8).Draw(rt, "agents")
		pattern := "^"
		for _, s := range steps {
			if s == "…" {
				pattern += "[abc]*"
			} else {
				pattern += "[" + strings.ReplaceAll(s, "|", "") + "]"
			}
		}
		want := regexp.MustCompile(pattern + "$").MatchString(strings.Join(agents, ""))
		p, err := eval.ParsePath(strings.Join(steps, " > "))
		require.NoError(rt, err)
		require.Equal(rt, want, p.Matches(agents), "%v", p)
		again, err := eval.ParsePath(p.String())
		require.NoError(rt, err)
		require.Equal(rt, p, again)
	})
}

func TestParsePath(t *testing.T) {
	for text, want := range map[string]string{"a>b": "a > b", " a -> … → ... > b | c ": "a > … > b|c", "…>…": "…"} {
		require.Equal(t, want, path(t, text).String())
	}
	for _, text := range []string{"", "a >", "a||b", "a b", "a > b, c", "a > …b"} {
		_, err := eval.ParsePath(text)
		require.Error(t, err, text)
	}
}

func TestDecisions(t *testing.T) {
	d := func(from, expected, chosen string) eval.Decision {
		return eval.Decision{From: from, Expected: expected, Chosen: chosen}
	}
	for _, tt := range []struct {
		path, agents string
		open         bool
		want         []eval.Decision
	}{
		{"a > b", "a b", false, []eval.Decision{d("a", "b", "b"), d("b", "b", "b")}},
		{"a > b", "a c d", false, []eval.Decision{d("a", "b", "c")}},
		{"a > b", "a", false, []eval.Decision{d("a", "b", "a")}},
		{"a", "a b", false, []eval.Decision{d("a", "a", "b")}},
		{"a > b", "a b", true, []eval.Decision{d("a", "b", "b")}},
		{"a > b", "a", true, nil},
		{"a > b", "c b", false, nil},
		{"a > b|c > d", "a c d", false, []eval.Decision{d("a", "c", "c"), d("c", "d", "d"), d("d", "d", "d")}},
		{"a > b|c", "a d", false, []eval.Decision{d("a", "b|c", "d")}},
		{"a > b > … > d", "a b c d", false, []eval.Decision{d("a", "b", "b")}},
		{"… > b", "a b", false, nil},
		{"a > b > a", "a b a", false, []eval.Decision{d("a", "b", "b"), d("b", "a", "a"), d("a", "a", "a")}},
	} {
		require.Equal(t, tt.want, eval.Decisions(path(t, tt.path), strings.Fields(tt.agents), tt.open), "%s: %s", tt.path, tt.agents)
	}
}
