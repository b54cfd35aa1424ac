package offline

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/agentarbor/arbor/llm"
)

var (
	unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}
	// stopWords stand in every conversation and in every agent's description.
	stopWords = stemSet(`a about agent all also am an and any are as at be been being but by can cannot could did do does don for from
		get got had handle has have he hello help her here hi his how if in into is issue it its just like ll matter me my need no not of on
		or our out please problem question re request she should so some than thanks that the their them then there these they thing this
		to too up us use used user ve very want was we were what when where which who why will with would yes you your`)
)

// word is a word of a text in lower case, with its stem unless it says nothing,
// and with the field of which it is the first word.
type word struct{ text, stem, field string }

// in reports whether a text has the word, in any form.
func (w word) in(text []word) bool {
	return w.stem != "" && slices.ContainsFunc(text, func(other word) bool { return other.stem == w.stem })
}

// split finds the words of a text; where a script has no spaces, its characters.
// listCharges and list_charges are two words, e-mail is one.
func split(text string) (words []word) {
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
			s := stem(w)
			if stopWords[s] || len(w) == 1 && w > "9" {
				s = ""
			}
			words, field = append(words, word{w, s, field}), ""
		}
	}
	return words
}

func stemSet(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[stem(w)] = true
	}
	return set
}

// stem cuts the commonest English endings; all that counts is that it treats a
// user's words and a description's alike.
func stem(w string) string {
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

// option is something to choose by its words: an agent, a tool, a value.
type option struct {
	name  string
	spec  llm.ToolSpec
	agent bool // to hand over to
	value any
	doc   []word
	score float64
}

// rank scores the options against the distinct stems of a query and sorts them,
// equal ones as declared. It is BM25 as in Robertson and Zaragoza, "The
// Probabilistic Relevance Framework" (2009), with k1 = 1.2, with b = 0.5 since
// descriptions are short, and with an idf that is never negative.
func rank(query []word, options []option) []option {
	counts, df, average := make([]map[string]float64, len(options)), map[string]float64{}, 0.0
	for i, o := range options {
		counts[i] = map[string]float64{}
		for _, w := range o.doc {
			if counts[i][w.stem]++; counts[i][w.stem] == 1 && w.stem != "" {
				df[w.stem]++
			}
		}
		average += float64(len(o.doc)) / float64(len(options))
	}
	for _, w := range query {
		n := df[w.stem]
		delete(df, w.stem) // it counts once
		for i := 0; n > 0 && i < len(options); i++ {
			tf, length := counts[i][w.stem], float64(len(options[i].doc))/average
			options[i].score += math.Log(1+(float64(len(options))-n+0.5)/(n+0.5)) * tf * 2.2 / (tf + 0.6 + 0.6*length)
		}
	}
	slices.SortStableFunc(options, func(a, b option) int { return cmp.Compare(b.score, a.score) })
	return options
}
