package responses

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Numbers are places, in the order of places, and those of clients with little room for them are small.
func TestPlaces(t *testing.T) {
	last := int64(numberEmpty)
	for slot := range 40 {
		for _, step := range []int{stepAdded, stepPart, stepPart + 1, stepPart + exact, stepRest - 1, stepRest, stepTextDone, stepPartDone, stepItemDone, stepVoid, stepOver} {
			for voids := range maxVoids + 1 {
				p := place{slot: slot, step: step, voids: voids, hash: hashOf(strings.Repeat("x", slot))}
				require.Equal(t, p, placeOf(p.number()))
				if voids == 0 {
					require.Greater(t, p.number(), last)
					last = p.number()
				}
			}
		}
		if slot == 3 {
			require.Less(t, last, int64(1<<31))
		}
	}
	require.Less(t, place{slot: 1<<24 - 1, step: stepOver, voids: 9, hash: 1<<hashBits - 1}.number(), int64(1<<53))
	require.Greater(t, place{hash: hashOf("")}.number(), int64(numberEmpty))
}

// FuzzTell shows a text piece by piece, and cuts the client off behind each: it gets the rest, by bytes, from
// whoever has the whole text.
func FuzzTell(f *testing.F) {
	f.Add("Hello, wörld", uint16(3))
	f.Add(strings.Repeat("€", 9000), uint16(100))
	f.Add(strings.Repeat("long", 20000), uint16(60000))
	f.Add(strings.Repeat("x", exact)+"🌍"+strings.Repeat("ab€", 100), uint16(7))
	f.Fuzz(func(t *testing.T, text string, size uint16) {
		text = strings.ToValidUTF8(text, "?")
		whole := []byte(text)
		var shown []byte
		sent, last := 0, stepPart
		for len(shown) < len(whole) {
			next := min(len(whole), len(shown)+1+int(size))
			for next < len(whole) && !utf8.RuneStart(whole[next]) {
				next++
			}
			shown = whole[:next]
			n, step := sendable(shown, false)
			if n <= sent {
				continue
			}
			if !utf8.Valid(shown[sent:n]) || step <= last || step >= stepRest || received(whole, step) != n {
				t.Fatalf("%d bytes of %d at the step %d, after %d at %d; a client that had them has %d", n, len(shown), step, sent, last, received(whole, step))
			}
			sent, last = n, step
		}
		n, step := sendable(whole, true)
		require.Equal(t, len(whole), n)
		if n > sent {
			require.Greater(t, step, last)
		}
		require.Equal(t, len(whole), received(whole, step))
		require.Less(t, step, stepTextDone)
	})
}

// FuzzID reads ids: what is one is written the same again.
func FuzzID(f *testing.F) {
	f.Add("resp_abc.s1")
	f.Add("resp_a$2db-7~support:billing.a.b/c")
	f.Fuzz(func(t *testing.T, s string) {
		if id, ok := ParseID(s); ok {
			require.Equal(t, s, id.String())
		}
		id := ID{Turn: "t" + s, Seq: int64(len(s)), Path: "support/billing", Session: s}
		back, ok := ParseID(id.String())
		require.True(t, ok)
		require.Equal(t, id, back)
	})
}
