// Package bm25 scores texts by the words that they share with a query. The offline model chooses by it, and the routing
// question adds it to the model's answer. It knows the most common English endings, so it is of little use for other
// languages.
package bm25

import (
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"
)

var (
	unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}
	// stopWords occur in every conversation and in every agent's description.
	stopWords = Stems(`a about agent all also am an and any are as at be been being but by can cannot could did do does don for from
		get got had handle has have he hello help her here hi his how if in into is issue it its just like ll matter me my need no not of on
		or our out please problem question re request she should so some than thanks that the their them then there these they thing this
		to too up us use used user ve very want was we were what when where which who why will with would yes you your`)
)

// Word is a word of a text in lower case. Stem is its stem, "" for a stop word. Field is the field whose first word it
// is.
type Word struct{ Text, Stem, Field string }

// In reports whether a text contains the word, in any form.
func (w Word) In(text []Word) bool {
	return w.Stem != "" && slices.ContainsFunc(text, func(other Word) bool { return other.Stem == w.Stem })
}

// Split returns the words of a text; for a script without spaces it returns the characters. listCharges and
// list_charges are two words, e-mail is one.
func Split(text string) (words []Word) {
	for _, field := range strings.Fields(text) {
		spaced, last, wasDense := []rune{' '}, ' ', false
		for _, r := range field {
			dense := r >= 0x0e00 && unicode.In(r, unspaced...)
			if dense || wasDense || unicode.IsUpper(r) && unicode.IsLower(last) {
				spaced = append(spaced, ' ')
			}
			if unicode.In(r, unicode.L, unicode.M, unicode.N) {
				spaced = append(spaced, r)
			} else if r != '-' || !unicode.IsLetter(last) || spaced[len(spaced)-2] != ' ' {
				spaced = append(spaced, ' ')
			}
			last, wasDense = r, dense
		}
		for _, w := range strings.Fields(strings.ToLower(string(spaced))) {
			s := Stem(w)
			if stopWords()[s] || len(w) == 1 && w > "9" {
				s = ""
			}
			words, field = append(words, Word{w, s, field}), ""
		}
	}
	return words
}

// Stems returns a function that returns the stems of a space-separated list of words. It computes them on first use.
func Stems(list string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		set := map[string]bool{}
		for _, w := range strings.Fields(list) {
			set[Stem(w)] = true
		}
		return set
	})
}

// Stem removes the most common English endings. It need not be exact, because it treats the words of users and of
// descriptions alike.
func Stem(w string) string {
	for _, end := range [...][2]string{{"ies", "y"}, {"sses", "ss"}, {"s", ""}, {"ied", "y"}, {"ing", ""}, {"ed", ""}} {
		base, ok := strings.CutSuffix(w, end[0])
		if ok && len(base) > 2 && strings.ContainsAny(base, "aeiouy") && (end[0] != "s" || !strings.ContainsAny(base[len(base)-1:], "sui")) {
			w = base + end[1]
		}
	}
	if n := len(w); n > 3 && (w[n-1] == 'e' || w[n-1] == w[n-2] && w[n-1] < 0x80) {
		w = w[:n-1]
	}
	return w
}

// Scores scores texts against the distinct stems of a query: 0 if they share none. It is BM25 as in Robertson and
// Zaragoza, "The Probabilistic Relevance Framework" (2009), with k1 = 1.2, with b = 0.5 because descriptions are short,
// and with an idf that is never negative.
func Scores(query []Word, texts [][]Word) []float64 {
	counts, df, average := make([]map[string]float64, len(texts)), map[string]float64{}, 0.0
	for i, text := range texts {
		counts[i] = map[string]float64{}
		for _, w := range text {
			if counts[i][w.Stem]++; counts[i][w.Stem] == 1 && w.Stem != "" {
				df[w.Stem]++
			}
		}
		average += float64(len(text)) / float64(len(texts))
	}
	scores := make([]float64, len(texts))
	for _, w := range query {
		n := df[w.Stem]
		delete(df, w.Stem) // it counts once
		for i := 0; n > 0 && i < len(texts); i++ {
			tf, length := counts[i][w.Stem], float64(len(texts[i]))/average
			scores[i] += math.Log(1+(float64(len(texts))-n+0.5)/(n+0.5)) * tf * 2.2 / (tf + 0.6 + 0.6*length)
		}
	}
	return scores
}
