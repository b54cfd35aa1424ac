package routing

import (
	"math"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/agentarbor/arbor/internal/bm25"
)

// maxText is the maximal number of bytes of a compared text. A longer one says no more about an agent, and a hostile
// one would make each comparison expensive.
const maxText = 4000

// filler contains words of the descriptions of all kinds of agents. In addition to the words that bm25 ignores, it
// contains words that describe any agent and, in German, conjunctions.
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

// endings are those of German words, which bm25 keeps. They are removed from words of all languages, which is harmless
// because all texts are treated alike.
var endings = [...]string{"ungen", "ung", "ern", "en", "em", "er", "es", "e", "n", "t"}

// stem returns the form in which a word is compared, "" if it is filler.
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

// text contains the words of a description, or of a message.
type text struct {
	stems []string          // distinct, in order
	words map[string]string // in their first written form, by stem
}

// read returns the words of a text; for a script without spaces it returns the characters.
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

// shared returns the words that both texts contain, in the form of the first.
func (t text) shared(other text) (words []string) {
	for _, s := range t.stems {
		if other.words[s] != "" {
			words = append(words, t.words[s])
		}
	}
	return words
}

// within reports whether the other text contains all words of this one.
func (t text) within(other text) bool { return len(t.shared(other)) == len(t.stems) }

// likeness returns how similar two of several texts are, from 0 to 1: the weight of the common words divided by the
// weight of the words in either text. A word weighs more if fewer of the other texts contain it (the idf of BM25), so
// that words of all descriptions count little.
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

// countsOf returns the number of texts that contain each word.
func countsOf(texts []text) map[string]int {
	counts := make(map[string]int)
	for _, t := range texts {
		for _, s := range t.stems {
			counts[s]++
		}
	}
	return counts
}
