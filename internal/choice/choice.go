// Package choice reads which of some names a model has chosen, and how sure it was by the
// log probabilities of its answer. Of this module it imports llm.
package choice

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/llm"
)

// Read reads the answer to the question who answers: one of the names, and how it is
// written in the answer; "" if it is none. If the endpoint did not enforce the form,
// JSON may be between other words, or the answer may be only the name.
func Read(text string, names []string) (name, written string) {
	from, to := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	var answer struct {
		Agent string `json:"agent"`
	}
	if from >= 0 && to > from && json.Unmarshal([]byte(text[from:to+1]), &answer) == nil {
		written = answer.Agent
	} else {
		written = strings.Trim(text, " \t\r\n\"'`*.")
	}
	if slices.Contains(names, written) {
		return written, written
	}
	for _, n := range names {
		switch {
		case !strings.EqualFold(n, strings.TrimSpace(written)):
		case name != "":
			return "", "" // either
		default:
			name = n
		}
	}
	return name, written
}

// Likeliest is the name with which the answer would have begun with the greatest
// probability, and how probable it was against the other ones: for models that answer the
// user in place of the question. A token with which several names begin does not count, and
// if all names together have less than one in a hundred, none is meant. plus, unless it is
// nil, is added to the names' log probabilities.
func Likeliest(tokens []llm.LogProb, names []string, plus []float64) (name string, sure float64) {
	if len(tokens) == 0 {
		return "", 0
	}
	each, said, sum := make([]float64, len(names)), 0.0, 0.0
	for _, o := range alternatives(tokens[0]) {
		begun := beginning(o, names)
		if len(begun) != 1 {
			continue
		}
		i, p := begun[0], math.Exp(min(o.LogProb, 0))
		said += p
		if plus != nil {
			p *= math.Exp(plus[i])
		}
		each[i] += p
		sum += p
	}
	if said < 0.01 {
		return "", 0
	}
	best := slices.Max(each)
	return names[slices.Index(each, best)], best / sum
}

// BeginsOne reports whether the answer has begun with a token with which one name begins,
// so that the other names can be weighed against it at that token.
func BeginsOne(tokens []llm.LogProb, names []string) bool {
	return len(tokens) > 0 && len(beginning(tokens[0], names)) == 1
}

// beginning are the places of the names that begin with a token.
func beginning(t llm.LogProb, names []string) (at []int) {
	begin := strings.TrimLeft(t.Token, " \t\r\n\"'`*")
	for i, n := range names {
		if begin != "" && strings.HasPrefix(n, begin) {
			at = append(at, i)
		}
	}
	return at
}

// Confidence is how probable the chosen name was against the other ones, and false if the
// log probabilities do not say. At each token of the name, only those tokens count that
// continue one of the names: the others could not have been chosen.
func Confidence(tokens []llm.LogProb, name, written string, names []string) (float64, bool) {
	var all strings.Builder
	for _, t := range tokens {
		all.WriteString(t.Token)
	}
	text := all.String()
	begin := strings.LastIndex(text, written)
	if begin < 0 || written == "" {
		return 0, false
	}
	// The sign behind the name says that it does not go on as another one does.
	end := begin + len(written)
	behind := text[end:min(end+1, len(text))]
	sure, at := 1.0, 0
	for _, t := range tokens {
		from := at
		if at += len(t.Token); at <= begin || from >= end+len(behind) {
			continue
		}
		before, head := text[min(from, begin):begin], text[begin:max(from, begin)]
		mine, others := 0.0, 0.0
		for _, o := range alternatives(t) {
			rest, ok := strings.CutPrefix(o.Token, before)
			switch {
			case !ok, head+rest == "":
			case leads(head+rest, written+behind):
				mine += math.Exp(min(o.LogProb, 0))
			case slices.ContainsFunc(names, func(n string) bool { return n != name && leads(head+rest, n+behind) }):
				others += math.Exp(min(o.LogProb, 0))
			}
		}
		if len(t.Top) == 0 {
			others = 1 - mine // nobody says which tokens they are
		}
		if mine > 0 {
			sure *= mine / (mine + others)
		}
	}
	return sure, true
}

// alternatives are the possible tokens at a place, including the one that was chosen.
func alternatives(t llm.LogProb) []llm.LogProb {
	if slices.ContainsFunc(t.Top, func(o llm.LogProb) bool { return o.Token == t.Token }) {
		return t.Top
	}
	return append(slices.Clip(t.Top), llm.LogProb{Token: t.Token, LogProb: t.LogProb})
}

// leads reports whether a name may begin with what was said so far, or does end in it.
func leads(said, name string) bool {
	return strings.HasPrefix(name, said) || strings.HasPrefix(said, name)
}

// Shorten keeps the beginning and the end of a text that is too long for a question
// about it: what a user wants is before or after what they have pasted.
func Shorten(text string) string {
	const most = 2000
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most/2], "") + " … " + strings.ToValidUTF8(text[len(text)-most/2:], "")
}
