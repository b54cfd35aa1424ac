package responses

import (
	"hash/fnv"
	"math/bits"
	"unicode/utf8"
)

// place says where in a response an event of its stream is. Its number is the event's sequence number. Deltas are
// in no log, and need not be: a place within a text counts the bytes before it, so that every process finds in the
// log what a client has yet to be sent that was cut off there. Numbers grow and leave some out. Those of the first
// four items fit into 31 bits, which is what some clients have room for.
type place struct {
	slot  int // the item, among those that the client was sent
	step  int // within the item
	voids int // how many items were taken back
	print int // tells the item's block from others: what was shown of a block may be void without a trace in the log
}

const printBits, voidBits, stepBits = 13, 2, 14

// The steps of an item: its beginning, its text, its end, that it is taken back, and the end of the response after it.
const (
	stepAdded = 0
	stepPart  = 1 // and then more with the bytes of the text
	stepOver  = 1<<stepBits - 1

	stepVoid     = stepOver - 1 // its block may be in the log, as another item
	stepItemDone = stepOver - 2
	stepPartDone = stepOver - 3
	stepTextDone = stepOver - 4
	stepRest     = stepOver - 5 // all of a long text; from here on the item is in the log

	exact = 1 << 11 // bytes of a text that are counted one by one; of longer ones the first eleven bits count
)

const (
	numberCreated, numberInProgress = 0, 1
	numberEmpty                     = 2               // the end of a response without items
	maxVoids                        = 1<<voidBits - 1 // beyond which words are shown when they are whole
)

func (p place) number() int64 {
	return ((int64(p.slot)<<stepBits|int64(p.step))<<voidBits|int64(min(p.voids, maxVoids)))<<printBits | int64(p.print)
}

func placeOf(number int64) place {
	low := func(bits int) int {
		n := number & (1<<bits - 1)
		number >>= bits
		return int(n)
	}
	p := place{print: low(printBits), voids: low(voidBits), step: low(stepBits)}
	p.slot = int(number)
	return p
}

// item is how many items of the log come before the place.
func (p place) item() int {
	if p.step >= stepVoid {
		return p.slot - p.voids + 1
	}
	return p.slot - p.voids
}

// within reports whether the place is in a block that is not whole and follows a number of items.
func (p place) within(block string, items int) bool {
	return items == p.item() && printOf(block) == p.print
}

// printOf makes no number that another event has.
func printOf(id string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	return numberEmpty + 1 + int(h.Sum32()%(1<<printBits-numberEmpty-1))
}

// tell returns how much of a text can be told, and the step behind it. Of a long text that is not whole yet some
// bytes wait, one in a thousand at most, so that the step says where it is.
func tell(text []byte, whole bool) (n, step int) {
	n = len(text)
	if n >= exact && whole {
		return n, stepRest
	}
	shift := max(bits.Len(uint(n))-bits.Len(exact-1), 0)
	if step = stepPart + shift*exact/2 + n>>shift; step >= stepRest { // 32 MB
		return 0, stepPart
	}
	return runeStart(text, n>>shift<<shift), step
}

// known returns how much of a text a client has that was sent a step.
func known(text []byte, step int) int {
	n := max(step-stepPart, 0)
	if step >= stepRest {
		n = len(text)
	} else if n >= exact {
		shift := n/(exact/2) - 1
		n = (n - shift*exact/2) << shift
	}
	return runeStart(text, n)
}

// runeStart returns where the character begins that is at a place.
func runeStart(text []byte, at int) int {
	if at >= len(text) {
		return len(text)
	}
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}
