// Package words finds many words and phrases in a text in one pass, regardless of case: whole words in scripts with
// spaces, and at any position in scripts without.
package words

import (
	"slices"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Set is the automaton of Aho and Corasick, "Efficient string matching" (1975). It reads symbols instead of characters:
// folded runes, and an edge at the beginning and the end of each word of a script with spaces. A whole word is a
// pattern with edges around it, so nothing is read twice. It is immutable; nil is the empty set.
type Set struct {
	first  []int32 // by state: the start of its transitions; one more than there are states
	symbol []rune  // of the transitions, sorted within a state
	next   []int32
	root   [128]int32 // the transitions of the root by ASCII symbols
	fail   []int32
	found  []int32 // by state: the state itself or its longest suffix that ends a pattern, 0 if none does
	ends   [][]ending
}

// ending is a pattern that ends in a state, with the arguments of Word or Text.
type ending struct{ slot, number int32 }

const edge = 0 // the symbol between a word and anything else; a NUL in a text is a space

// A symbol and, in its sign bit, whether it belongs to a word of a script with spaces.
const inWord = 1 << 31

var unspaced = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

const cjk = 0x2e80 // from here to 0xa000 there are neither cases nor spaces

// symbols are those of the runes below cjk.
var symbols = sync.OnceValue(func() *[cjk]uint32 {
	t := new([cjk]uint32)
	for r := range t {
		t[r] = symbolOf(rune(r))
	}
	return t
})

func symbolOf(r rune) uint32 {
	switch {
	case r == 0, unicode.IsSpace(r):
		return ' '
	case r == '‘', r == '’': // as phones write don’t
		return '\''
	}
	folded := r // the smallest of all runes that are equal except for their case, or the lower-case letter of ASCII
	for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
		folded = min(folded, o)
	}
	if folded >= 'A' && folded <= 'Z' {
		folded += 'a' - 'A'
	}
	if (r == '_' || unicode.In(r, unicode.L, unicode.M, unicode.N)) && !unicode.In(r, unspaced...) {
		return uint32(folded) | inWord
	}
	return uint32(folded)
}

// read feeds the symbols of a text: folded, with one space for several, and with edges. whole reports that the text is
// not part of another one.
func read(text string, whole bool, feed func(rune)) {
	table, before, space := symbols(), uint32(0), false
	for i, r := range text {
		var s uint32
		switch {
		case r < cjk:
			s = table[r]
		case r < 0xa000 && r != '\u3000':
			s = uint32(r)
		default:
			s = symbolOf(r)
		}
		if s == ' ' && space {
			continue
		}
		space = s == ' '
		if (s^before)&inWord != 0 && (i > 0 || whole) {
			feed(edge)
		}
		before = s
		feed(rune(s &^ inWord))
	}
	if before&inWord != 0 && whole {
		feed(edge)
	}
}

// Normal returns a text in the form in which texts are searched: Unicode's NFC. It does not allocate if the text
// already has it.
func Normal(text string) string { return norm.NFC.String(text) }

// Builder collects the patterns of a set. The zero value is empty.
type Builder struct {
	kids []map[rune]int32
	ends [][]ending
}

// Word adds a word or a phrase or, with a * at its end, a prefix of words. It returns false if it is empty. [Set.Scan]
// records number in the slot.
func (t *Builder) Word(word string, slot, number int32) bool {
	stem, begins := strings.CutSuffix(strings.TrimSpace(word), "*")
	var pattern []rune
	read(strings.TrimSpace(Normal(stem)), true, func(r rune) { pattern = append(pattern, r) })
	if n := len(pattern); begins && n > 0 && pattern[n-1] == edge {
		pattern = pattern[:n-1]
	}
	return t.add(pattern, ending{slot, number})
}

// Text adds a text that is found at any position, also within words.
func (t *Builder) Text(text string, slot, number int32) bool {
	var pattern []rune
	read(text, false, func(r rune) { pattern = append(pattern, r) })
	return t.add(pattern, ending{slot, number})
}

func (t *Builder) add(pattern []rune, e ending) bool {
	if len(pattern) == 0 {
		return false
	}
	if t.kids == nil {
		t.kids, t.ends = []map[rune]int32{nil}, [][]ending{nil}
	}
	s := int32(0)
	for _, r := range pattern {
		to, ok := t.kids[s][r]
		if !ok {
			to = int32(len(t.kids))
			t.kids, t.ends = append(t.kids, nil), append(t.ends, nil)
			if t.kids[s] == nil {
				t.kids[s] = make(map[rune]int32, 1)
			}
			t.kids[s][r] = to
		}
		s = to
	}
	t.ends[s] = append(t.ends[s], e)
	return true
}

// Build returns the set. Its size is that of all patterns together.
func (t *Builder) Build() *Set {
	if t.kids == nil {
		return nil
	}
	n := len(t.kids)
	a := &Set{first: make([]int32, 1, n+1), fail: make([]int32, n), found: make([]int32, n), ends: t.ends}
	for _, kids := range t.kids {
		from := len(a.symbol)
		for r := range kids {
			a.symbol = append(a.symbol, r)
		}
		slices.Sort(a.symbol[from:])
		for _, r := range a.symbol[from:] {
			a.next = append(a.next, kids[r])
		}
		a.first = append(a.first, int32(len(a.symbol)))
	}
	for r := range a.root {
		a.root[r] = t.kids[0][rune(r)]
	}
	queue := make([]int32, 0, n) // breadth first: suffixes are shorter
	queue = append(queue, a.next[:a.first[1]]...)
	for i := 0; i < len(queue); i++ {
		s := queue[i]
		if a.found[s] = a.found[a.fail[s]]; len(a.ends[s]) > 0 {
			a.found[s] = s
		}
		for k := a.first[s]; k < a.first[s+1]; k++ {
			a.fail[a.next[k]] = a.step(a.fail[s], a.symbol[k])
			queue = append(queue, a.next[k])
		}
	}
	return a
}

func (a *Set) step(s int32, r rune) int32 {
	for ; s != 0; s = a.fail[s] {
		symbols := a.symbol[a.first[s]:a.first[s+1]]
		if len(symbols) > 8 {
			if i, ok := slices.BinarySearch(symbols, r); ok {
				return a.next[int(a.first[s])+i]
			}
			continue
		}
		for i, other := range symbols {
			if other == r {
				return a.next[int(a.first[s])+i]
			}
		}
	}
	if r < int32(len(a.root)) {
		return a.root[r]
	}
	if i, ok := slices.BinarySearch(a.symbol[:a.first[1]], r); ok {
		return a.next[i]
	}
	return 0
}

// Scan records in hits, by slot, the number of the word that ends first in the text, unless the slot is already set.
// The text should be [Normal]. Scan does not allocate.
func (a *Set) Scan(text string, hits []int32) {
	if a == nil {
		return
	}
	s := int32(0)
	read(text, true, func(r rune) {
		s = a.step(s, r)
		for o := a.found[s]; o != 0; o = a.found[a.fail[o]] {
			for _, e := range a.ends[o] {
				if hits[e.slot] == 0 {
					hits[e.slot] = e.number
				}
			}
		}
	})
}
