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
// contain courtesies in addition, is not a question, and has no numbers and symbols, which may change what is asked.
// Anything else is not understood.
func YesOrNo(text string) (yes, understood bool) {
	text = words.Normal(text)
	said := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) })
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
	yes = yes && !strings.ContainsFunc(text, func(r rune) bool {
		plain := unicode.IsLetter(r) || unicode.IsSpace(r) || unicode.IsPunct(r) || strings.ContainsRune(friendly, r)
		return !plain || strings.ContainsRune("?？؟⁇⁈⁉﹖‽", r)
	})
	return yes, yes
}

// friendly are the symbols that a yes may contain, with the marks of their skin colors and variants.
const friendly = "👍👌🙏🙂😊😀✅✔\U0001F3FB\U0001F3FC\U0001F3FD\U0001F3FE\U0001F3FF\uFE0F"
