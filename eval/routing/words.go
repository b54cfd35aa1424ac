package routing

import (
	"math"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/agentarbor/arbor/internal/bm25"
)

// maxText bounds how much of a text is compared, in bytes: a longer one says no more of what an agent is
// for, and a hostile one would make each comparison dear.
const maxText = 4000

// filler stands in the descriptions of all kinds of agents. To what bm25 leaves out it adds the words that
// describe agents as such, and in German also those that join others.
var filler = bm25.Stems(`agent answer anybody anything appropriate area assist assistant bot chatbot client concerning
	customer deal different else etc everything expert find first general good handle information inquiry look other people
	person query related regarding respond responsible right service several someone something specialist specialized such
	support task team thing topic type user various way where work
	ab aber alle allem allen aller alles als am an andere anderen anderer anderes auch auf aus bei beim bis da damit das dass dem
	den der des die dies diese dieser durch ein eine einem einen einer eines er es etwas für gegen hat hier ich ihr ihre im in ist
	kann kein keine man mit nach nicht noch nur ob oder ohne sein seine sich sie sind so sowie über um und uns unter vom von vor
	was wenn wer werden wie wird wo zu zum zur zwischen
	agentin allgemein allgemeine anfrage anfragen anliegen antwort antworten antwortet assistent aufgabe aufgaben benutzer
	benutzern beantwortet bearbeitet bereich expertin frage fragen hilfe helfen hilft kunde kunden kundin kümmert nutzer nutzern
	probleme spezialist thema themen zuständig`)

// endings are those of German words, which bm25 leaves. They are cut from words of all languages, which
// does no harm as long as it is done to all texts alike.
var endings = [...]string{"ungen", "ung", "ern", "en", "em", "er", "es", "e", "n", "t"}

// stem returns what a word is compared by, "" if it is filler.
func stem(w bm25.Word) string {
	if w.Stem == "" || filler()[w.Stem] {
		return ""
	}
	for _, end := range endings {
		if base, ok := strings.CutSuffix(w.Stem, end); ok && utf8.RuneCountInString(base) >= 4 {
			return base
		}
	}
	return w.Stem
}

// text is what the words of a description, or of a message, say.
type text struct {
	stems []string          // distinct, in their order
	words map[string]string // as they are written first, by their stems
}

// read reads a text; a script without spaces gives its characters.
func read(s string) text {
	t := text{words: make(map[string]string)}
	for _, w := range bm25.Split(norm.NFC.String(cut(s))) {
		if s := stem(w); s != "" && t.words[s] == "" {
			t.words[s] = w.Text
			t.stems = append(t.stems, s)
		}
	}
	return t
}

func cut(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	return s
}

// shared returns the words that both texts have, as the first has them.
func (t text) shared(other text) (words []string) {
	for _, s := range t.stems {
		if other.words[s] != "" {
			words = append(words, t.words[s])
		}
	}
	return words
}

// within reports whether the other text has all words of this one.
func (t text) within(other text) bool { return len(t.shared(other)) == len(t.stems) }

// likeness says how much two of some texts have in common, from 0 to 1: the weight of the words that both
// have in the weight of those that one of them has. A word weighs by how few of the remaining texts have
// it, after the idf of BM25, so that what all say of themselves counts for little.
func likeness(texts []text, counts map[string]int, a, b int) float64 {
	others := float64(len(texts) - 2)
	both, all := 0.0, 0.0
	add := func(t, other text, second bool) {
		for _, s := range t.stems {
			n, common := counts[s]-1, other.words[s] != ""
			if common && second {
				continue // it was counted
			}
			if common {
				n--
			}
			w := math.Log(1 + (others-float64(n)+0.5)/(float64(n)+0.5))
			if all += w; common {
				both += w
			}
		}
	}
	add(texts[a], texts[b], false)
	add(texts[b], texts[a], true)
	if all == 0 {
		return 0
	}
	return both / all
}

// countsOf says how many of the texts have each word.
func countsOf(texts []text) map[string]int {
	counts := make(map[string]int)
	for _, t := range texts {
		for _, s := range t.stems {
			counts[s]++
		}
	}
	return counts
}
