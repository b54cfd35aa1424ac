package words

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// naive finds what a set finds by looking for each pattern.
func naive(text string, patterns [][]rune) []int32 {
	var all []rune
	read(text, true, func(r rune) { all = append(all, r) })
	hits := make([]int32, len(patterns))
	for i, p := range patterns {
		for from := range all {
			if len(p) > 0 && from+len(p) <= len(all) && slices.Equal(all[from:from+len(p)], p) {
				hits[i] = 1
			}
		}
	}
	return hits
}

func FuzzScan(f *testing.F) {
	f.Add("refund,re*,un,a b", "Refunds: a  B un-refund re")
	f.Add("退款,款,ab退*", "我要退款ab退x")
	f.Add("he,she,his,hers,*", "ushers SHE'S his")
	f.Add("\x80", "y\U000e27c0") // a byte of another character
	f.Add("ſ,K,é*,\x00,a\xff", "ſtreet \u212a E\u0301te K \x00 a\xff")
	f.Fuzz(func(t *testing.T, words, text string) {
		if len(words) > 500 || len(text) > 2000 {
			return
		}
		text = Normal(text)
		var b Builder
		var patterns [][]rune
		for i, w := range strings.Split(words, ",") {
			slot := int32(2 * i)
			if stem, begins := strings.CutSuffix(strings.TrimSpace(w), "*"); b.Word(w, slot, 1) {
				var p []rune
				read(strings.TrimSpace(Normal(stem)), true, func(r rune) { p = append(p, r) })
				if begins && p[len(p)-1] == edge {
					p = p[:len(p)-1]
				}
				patterns = append(patterns, p)
			} else {
				patterns = append(patterns, nil)
			}
			var p []rune
			read(w, false, func(r rune) { p = append(p, r) })
			patterns = append(patterns, p)
			require.Equal(t, len(p) > 0, b.Text(w, slot+1, 1))
			if w != "" && utf8.ValidString(w) && strings.Contains(text, w) { // what regular expressions rely on
				require.NotZero(t, naive(text, patterns)[slot+1], "%q in %q", w, text)
			}
		}
		hits := make([]int32, len(patterns))
		b.Build().Scan(text, hits)
		require.Equal(t, naive(text, patterns), hits, "%q in %q", words, text)
	})
}

func TestLiterals(t *testing.T) {
	for re, want := range map[string][][]string{
		`refund`: {{"refund"}}, `(?i)refund`: {{"REFUND"}}, `no\.\s+number`: {{"number"}, {"no."}}, `(cat|dog)s?`: {{"cat", "dog"}}, `(ab)+`: {{"ab"}}, `(?:abc){2}`: {{"abc"}},
		`(card|bill|on account)\d+ (ab|cde)`: {{"card", "bill", "on account"}, {"ab", "cde"}}, `aa.bb.cc.dd.eee`: {{"eee"}, {"aa"}, {"bb"}, {"cc"}},
		`a|b`: nil, `.*`: nil, `(abc)?`: nil, `(abc)*x`: nil, `abc|\d`: nil, `(`: nil, `[0-9]{3}`: nil, ``: nil,
	} {
		require.Equal(t, want, Literals(re), re)
	}
}

func TestEmpty(t *testing.T) {
	var b Builder
	require.False(t, b.Word(" * ", 0, 1))
	require.Nil(t, b.Build())
	b.Build().Scan("text", nil)
}
