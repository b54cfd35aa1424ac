package runner

import (
	"math/rand/v2"
	"strings"
)

// randomID makes an id of 60 random bits.
func randomID() string {
	const letters = "0123456789abcdefghjkmnpqrstvwxyz"
	var id [12]byte
	for i, n := 0, rand.Uint64(); i < len(id); i, n = i+1, n>>5 {
		id[i] = letters[n&31]
	}
	return string(id[:])
}

// usableID reports whether an endpoint's call id can be stored in a log and
// sent back to it.
func usableID(id string) bool {
	unusable := func(c rune) bool { return c <= ' ' || c > '~' }
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(id, unusable)
}
