// Package phrases recognizes users who ask for a person, and users who are frustrated. The phrases are in text files
// next to it.
package phrases

import (
	_ "embed"
	"math"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/agentarbor/arbor/internal/words"
)

//go:embed people.txt
var people string

//go:embed frustration.txt
var frustration string

// read reads a text of sections: a line that ends in a colon is the name of a section, and commas separate its phrases.
func read(text string) map[string][]string {
	sections, name := make(map[string][]string), ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutSuffix(line, ":"); ok {
			name = title
			continue
		}
		for phrase := range strings.SplitSeq(line, ",") {
			if phrase = strings.TrimSpace(phrase); phrase != "" && line[0] != '#' {
				sections[name] = append(sections[name], phrase)
			}
		}
	}
	return sections
}

// AskForPerson returns the phrases that ask for a person, and those that decline one.
func AskForPerson() (asked, declined []string) {
	of := read(people)
	asked = of["asked"]
	for _, verb := range of["verbs"] {
		for _, whom := range of["whom"] {
			asked = append(asked, verb+" "+whom)
		}
	}
	return asked, of["declined"]
}

// lexicon is the content of frustration.txt.
type lexicon struct {
	words *words.Set
	adds  []float64 // the score of each slot
}

var theLexicon = sync.OnceValue(func() *lexicon {
	var b words.Builder
	l := new(lexicon)
	for weight, all := range read(frustration) {
		adds, _ := strconv.ParseFloat(weight, 64)
		for _, phrase := range all {
			b.Word(phrase, int32(len(l.adds)), 1)
			l.adds = append(l.adds, adds)
		}
	}
	l.words = b.Build()
	return l
})

// Frustration returns how frustrated the author of an English text is, from 0 to 1. It adds up the phrases, repeated
// exclamation marks, and sentences in capital letters.
func Frustration(text string) float64 {
	text = words.Normal(text)
	l, sum := theLexicon(), 0.0
	hits := make([]int32, len(l.adds))
	l.words.Scan(text, hits)
	for i, hit := range hits {
		sum += float64(hit) * l.adds[i]
	}
	if strings.Contains(text, "!!") || strings.Contains(text, "?!") || strings.Contains(text, "!?") {
		sum += 0.4
	}
	shouted, all := 0, 0
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
		if len(w) < 2 {
			continue
		}
		if all++; w == strings.ToUpper(w) && w != strings.ToLower(w) {
			shouted++
		}
	}
	if shouted >= 3 && shouted*3 >= all*2 {
		sum += 0.6
	}
	return 1 - math.Exp(-max(0, sum))
}
