package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
)

// By says who may approve or deny a call. The zero value leaves it open: the agent's default applies, then the
// server's, then [ByStaff]. A By is immutable.
type By struct{ needs []string }

// ByUser lets the user of the session decide: the call only needs the user's consent, as in "shall I book?".
func ByUser() By { return By{[]string{event.ByUser}} }

// ByStaff lets only callers decide that have all of the given rights, which are names of the users file such as
// "refunds". Defaults to the right "approve".
func ByStaff(rights ...string) By {
	if len(rights) == 0 {
		return By{[]string{event.ByStaff}}
	}
	return By{slices.Compact(slices.Sorted(slices.Values(rights)))}
}

// ReadBy returns the By for the words of a file or a flag: "user", "staff", or the names of rights.
func ReadBy(words ...string) (By, error) {
	switch {
	case len(words) == 1 && words[0] == "user":
		return ByUser(), nil
	case len(words) == 1 && words[0] == "staff":
		return ByStaff(), nil
	}
	by := ByStaff(words...)
	if len(words) == 0 || by.Check() != nil || slices.Contains(words, "staff") {
		return By{}, fmt.Errorf("%q does not say who decides: write user, staff, or the names of rights", strings.Join(words, ", "))
	}
	return by, nil
}

// Needs returns the value for the field By of an event.Relay: "user" or the names of rights, and nil for the zero
// value.
func (b By) Needs() []string { return b.needs }

// Or returns b, or other if b is the zero value.
func (b By) Or(other By) By {
	if b.needs == nil {
		return other
	}
	return b
}

// staff reports whether rights are needed.
func (b By) staff() bool { return b.needs != nil && b.needs[0] != event.ByUser }

// Strictest combines several By into one. If some need rights, the result needs all of these rights. Otherwise, if one
// is the zero value, so is the result. Otherwise the result is the user's consent. Without arguments it is the zero
// value.
func Strictest(all ...By) (by By) {
	for i, b := range all {
		if i > 0 {
			b = b.and(by)
		}
		by = b
	}
	return by
}

// and combines two By as Strictest does.
func (b By) and(other By) By {
	switch {
	case b.staff() && other.staff():
		return ByStaff(slices.Concat(b.needs, other.needs)...)
	case b.staff() || b.needs == nil && !other.staff():
		return b
	}
	return other
}

// Check returns an error for a name that no right can have.
func (b By) Check() error {
	for _, name := range b.needs {
		if !event.IsRight(name) && (name != event.ByUser || len(b.needs) > 1) {
			return fmt.Errorf("%q cannot be the name of a right: it is a word of lower-case letters, digits, _ and -", name)
		}
	}
	return nil
}

// Digest identifies what an approval is for: the tool's name, definition and source, who may approve, and the arguments. A
// call runs only if its digest is the approved one.
func Digest(info Info, by []string, input json.RawMessage) string {
	parts := slices.Concat([]string{info.Name, info.Description, string(info.Parameters), string(event.CompactJSON(input))}, by)
	if info.Source != "" {
		parts = append(parts, "source "+info.Source) // no right has a space in its name
	}
	sum := sha256.Sum256(event.EncodeJSON(parts))
	return "sha256:" + hex.EncodeToString(sum[:])
}
