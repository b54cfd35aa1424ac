// Package choice reads which of several names a model has chosen, and its confidence by the log probabilities of the
// answer.
package choice

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
)

// Read reads the answer to the routing question: one of the names, and its form in the answer; "" if the answer
// contains none. If the endpoint did not enforce the form, JSON may be inside of other text, or the answer may be only
// the name.
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
			return "", "" // the answer contains two names
		default:
			name = n
		}
	}
	return name, written
}

// Likeliest returns the name with which the answer would most probably have started, and its probability among all
// names. It is for models that answer the user instead of the question. A token with which several names start does not
// count. If all names together have a probability below one in a hundred, Likeliest returns "". plus, if it is not nil,
// is added to the names' log probabilities.
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

// BeginsOne reports whether the answer starts with a token with which exactly one name starts, so that the other names
// can be compared at this token.
func BeginsOne(tokens []llm.LogProb, names []string) bool {
	return len(tokens) > 0 && len(beginning(tokens[0], names)) == 1
}

// beginning returns the indices of the names that start with a token.
func beginning(t llm.LogProb, names []string) (at []int) {
	begin := strings.TrimLeft(t.Token, " \t\r\n\"'`*")
	for i, n := range names {
		if begin != "" && strings.HasPrefix(n, begin) {
			at = append(at, i)
		}
	}
	return at
}

// Confidence returns the probability of the chosen name among all names, and false if the log probabilities do not
// contain it. At each token of the name it counts only tokens that continue one of the names: the others could not have
// been chosen.
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
	// The character after the name excludes names that continue it.
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
			others = 1 - mine // the endpoint does not return these tokens
		}
		if mine > 0 {
			sure *= mine / (mine + others)
		}
	}
	return sure, true
}

// alternatives returns the possible tokens at a position, including the chosen one.
func alternatives(t llm.LogProb) []llm.LogProb {
	if slices.ContainsFunc(t.Top, func(o llm.LogProb) bool { return o.Token == t.Token }) {
		return t.Top
	}
	return append(slices.Clip(t.Top), llm.LogProb{Token: t.Token, LogProb: t.LogProb})
}

// leads reports whether a name may start with the text so far, or whether the text ends in it.
func leads(said, name string) bool {
	return strings.HasPrefix(name, said) || strings.HasPrefix(said, name)
}

// Shorten keeps the beginning and the end of a text that is too long for the routing question: users write their
// request before or after a pasted text.
func Shorten(text string) string { return visible.CutMiddle(text, 2000) }
