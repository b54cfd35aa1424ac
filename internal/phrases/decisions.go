package phrases

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"

	"github.com/agentarbor/arbor/internal/words"
)

//go:embed decisions.txt
var decisions string

// sectionOf maps the phrases of decisions.txt to their sections.
var sectionOf = sync.OnceValue(func() map[string]string {
	of := make(map[string]string)
	all := read(decisions)
	for _, section := range []string{"courtesy", "yes", "no", "neither"} {
		for _, phrase := range all[section] {
			of[words.Normal(phrase)] = section
		}
	}
	return of
})

// longest is the maximal number of words of a phrase.
const longest = 4

// YesOrNo reads a text as the answer to a request for approval. A text that begins with a no is a no. A yes may only
// contain courtesies in addition, is not a question, and has no numbers, no other symbols and nothing that is struck
// through, which may change what is asked. Anything else is not understood.
func YesOrNo(text string) (yes, understood bool) {
	text = words.Normal(text)
	var spaced strings.Builder // every symbol is a word
	for _, r := range strings.ToLower(text) {
		switch {
		case unicode.IsLetter(r):
			spaced.WriteRune(r)
		case silent(r):
			spaced.WriteByte(' ')
		default:
			spaced.WriteString(" " + string(r) + " ")
		}
	}
	said := strings.Fields(spaced.String())
	if rest := withoutSymbols(said, ""); 0 < len(rest) && len(rest) < len(said) && sectionOf()[rest[0]] == "no" {
		return false, true
	}
	said = withoutSymbols(said, "courtesy")
	for first := true; len(said) > 0; first = false {
		section, n := "", 0
		for n = min(longest, len(said)); n > 0 && section == ""; n-- {
			section = sectionOf()[strings.Join(said[:n], " ")]
		}
		said = said[n+1:] // n is decremented again
		switch {
		case first && section == "no":
			return false, true
		case section == "yes", !first && section == "courtesy":
		default:
			return false, false
		}
		yes = true
	}
	from, to := max(strings.Index(text, "~"), 0), max(strings.LastIndex(text, "~"), 0)
	yes = yes && !strings.ContainsFunc(text[from:to], func(r rune) bool { return !silent(r) }) // what is between two ~ is struck through
	return yes, yes
}

// withoutSymbols returns words without those at the beginning that have no letter. If a section is given, it stops at the
// first symbol of another section.
func withoutSymbols(said []string, section string) []string {
	for len(said) > 0 && !strings.ContainsFunc(said[0], unicode.IsLetter) && (section == "" || sectionOf()[said[0]] == section) {
		said = said[1:]
	}
	return said
}

// silent reports whether a character changes nothing about a yes: space, punctuation except for question marks, accents
// and marks on their own as in ^^ and skin colors, the signs ~ and =, and characters that are invisible and neither
// override the direction of a text nor stand for anything. Numbers, currencies, the signs of sums and comparisons, and
// marks that change the character before them are not silent.
func silent(r rune) bool {
	switch {
	case strings.ContainsRune("?？؟⁇⁈⁉﹖‽", r):
		return false
	case unicode.IsSpace(r), unicode.IsPunct(r), strings.ContainsRune("~～=", r):
		return true
	case unicode.Is(unicode.Sk, r):
		return r < 0x2c2 || r > 0x2ff // these look like <, >, + and -
	}
	variant := r == 0xfe0e || r == 0xfe0f // an emoji is drawn as text, or as a picture
	return variant || r == 0xad || r >= 0x200b && r <= 0x200f || r == 0x2060 || r == 0xfeff
}
