package words

import (
	"cmp"
	"math"
	"regexp/syntax"
	"slices"
)

const (
	maxSets   = 4
	maxChoice = 16
)

// Literals returns sets of texts: each match of a regular expression contains a text of every set. It returns none if a
// match may contain no such text.
func Literals(re string) [][]string {
	parsed, err := syntax.Parse(re, syntax.Perl)
	if err != nil {
		return nil
	}
	sets := required(parsed)
	slices.SortStableFunc(sets, func(a, b []string) int { return cmp.Compare(shortest(b), shortest(a)) })
	return sets[:min(len(sets), maxSets)]
}

func shortest(set []string) int {
	n := math.MaxInt
	for _, text := range set {
		n = min(n, len(text))
	}
	return n
}

func required(re *syntax.Regexp) (sets [][]string) {
	switch re.Op {
	case syntax.OpLiteral:
		if len(re.Rune) > 1 { // one letter occurs almost everywhere
			return [][]string{{string(re.Rune)}}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			sets = append(sets, required(sub)...)
		}
	case syntax.OpAlternate: // the best set of each alternative
		var choice []string
		for _, sub := range re.Sub {
			of := required(sub)
			if len(of) == 0 {
				return nil
			}
			choice = append(choice, slices.MaxFunc(of, func(a, b []string) int { return cmp.Compare(shortest(a), shortest(b)) })...)
		}
		if len(choice) <= maxChoice {
			return [][]string{choice}
		}
	}
	return sets
}
