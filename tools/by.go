package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// By says who may decide about a call that waits for an approval. The zero value leaves it
// open: the agent's default applies, then that of the server, then [ByStaff]. A By is not
// changed after it was made.
type By struct{ needs []string }

// ByUser lets the user of the session decide: the call needs the user's consent, as in
// "shall I book?".
func ByUser() By { return By{[]string{event.ByUser}} }

// ByStaff lets only callers decide who have all of the rights. Without names it is the right
// "approve". The names are those of the users file, such as "refunds".
func ByStaff(rights ...string) By {
	if len(rights) == 0 {
		return By{[]string{event.ByStaff}}
	}
	return By{slices.Compact(slices.Sorted(slices.Values(rights)))}
}

// ReadBy reads the words of files and flags: "user", "staff", or the names of rights.
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

// Needs returns what event.Relay holds as By: "user" or the names of rights, nil for the zero value.
func (b By) Needs() []string { return b.needs }

// Or returns b, and other if b leaves it open.
func (b By) Or(other By) By {
	if b.needs == nil {
		return other
	}
	return b
}

// staff reports whether rights are needed.
func (b By) staff() bool { return b.needs != nil && b.needs[0] != event.ByUser }

// Strictest returns what several say together: all rights that any of them needs; else, if one
// leaves it open, that; else consent. It is the zero value without any.
func Strictest(all ...By) (by By) {
	for i, b := range all {
		if i > 0 {
			b = b.and(by)
		}
		by = b
	}
	return by
}

// and returns the stricter of two: all rights of both, and consent only if both ask for it.
func (b By) and(other By) By {
	switch {
	case b.staff() && other.staff():
		return ByStaff(slices.Concat(b.needs, other.needs)...)
	case b.staff() || b.needs == nil && !other.staff():
		return b
	}
	return other
}

// Check reports names that no right can have.
func (b By) Check() error {
	for _, name := range b.needs {
		if !event.IsRight(name) && (name != event.ByUser || len(b.needs) > 1) {
			return fmt.Errorf("%q cannot be the name of a right: it is a word of lower-case letters, digits, _ and -", name)
		}
	}
	return nil
}

// Digest identifies what a decision about a call is about: the tool's name and definition, who
// may decide, and the arguments. A call runs only with the digest that was approved.
func Digest(spec llm.ToolSpec, by []string, input json.RawMessage) string {
	sum := sha256.Sum256(event.EncodeJSON(slices.Concat([]string{spec.Name, spec.Description, string(spec.Parameters), string(event.CompactJSON(input))}, by)))
	return "sha256:" + hex.EncodeToString(sum[:])
}
