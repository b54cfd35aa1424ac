package responses

import (
	"hash/fnv"
	"math/bits"
	"unicode/utf8"
)

// place is the position of an event in the stream of a response, encoded in the event's sequence number. Deltas are not
// stored: a place within a text counts the bytes before it, so that every process can find in the log what a
// disconnected client has not received. Numbers increase, with gaps. Those of the first four items fit into 31 bits,
// which is the limit of some clients.
type place struct {
	slot  int // the index of the item among those that were sent
	step  int // the position within the item
	voids int // the number of items that were taken back
	hash  int // identifies the item's block, because a block that was shown can disappear without an entry in the log
}

const hashBits, voidBits, stepBits = 13, 2, 14

// The steps of an item: its start, its text, its end, that it was taken back, and the end of the response after it.
const (
	stepAdded = 0
	stepPart  = 1 // plus the encoded length of the text
	stepOver  = 1<<stepBits - 1

	stepVoid     = stepOver - 1 // the log may have the same block as another item
	stepItemDone = stepOver - 2
	stepPartDone = stepOver - 3
	stepTextDone = stepOver - 4
	stepRest     = stepOver - 5 // the whole of a long text; from this step on the log has the item

	exact = 1 << 11 // the length up to which every byte counts; of longer lengths a step encodes the first eleven bits
)

const (
	numberCreated, numberInProgress = 0, 1
	numberEmpty                     = 2               // the end of a response without items
	maxVoids                        = 1<<voidBits - 1 // afterwards the stream shows only complete text
)

func (p place) number() int64 {
	return ((int64(p.slot)<<stepBits|int64(p.step))<<voidBits|int64(min(p.voids, maxVoids)))<<hashBits | int64(p.hash)
}

func placeOf(number int64) place {
	low := func(bits int) int {
		n := number & (1<<bits - 1)
		number >>= bits
		return int(n)
	}
	p := place{hash: low(hashBits), voids: low(voidBits), step: low(stepBits)}
	p.slot = int(number)
	return p
}

// item returns the number of the log's items before the place.
func (p place) item() int {
	if p.step >= stepVoid {
		return p.slot - p.voids + 1
	}
	return p.slot - p.voids
}

// within reports whether the place is in an incomplete block that follows a number of items.
func (p place) within(block string, items int) bool {
	return items == p.item() && hashOf(block) == p.hash
}

// hashOf returns the hash of a block's id. It avoids the numbers of events that have no item.
func hashOf(id string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	return numberEmpty + 1 + int(h.Sum32()%(1<<hashBits-numberEmpty-1))
}

// sendable returns how many bytes of a text to send, and the step after them. Of a long incomplete text it holds back
// at most one byte in a thousand, so that the step encodes the length exactly.
func sendable(text []byte, whole bool) (n, step int) {
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

// received returns how many bytes of a text a client has that received a step.
func received(text []byte, step int) int {
	n := max(step-stepPart, 0)
	if step >= stepRest {
		n = len(text)
	} else if n >= exact {
		shift := n/(exact/2) - 1
		n = (n - shift*exact/2) << shift
	}
	return runeStart(text, n)
}

// runeStart returns the start of the character at a position.
func runeStart(text []byte, at int) int {
	if at >= len(text) {
		return len(text)
	}
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}
