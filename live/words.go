package live

import (
	"slices"
	"strings"
	"unicode"
)

// What people say when they agree or refuse. A yes with anything more to it than
// courtesy is none: "yes, but only half" is for somebody to ask about.
var (
	yesWords = []string{"yes", "y", "approve", "approved", "allow", "ok", "okay"}
	courtesy = []string{"please", "thanks", "thank", "you", "sure", "go", "ahead", "do", "run", "it", "that", "is", "fine"}
	noWords  = []string{"no", "n", "deny", "denied", "reject", "refuse"}
)

// YesOrNo reads words as the answer to the question whether a call may run. What is neither a
// plain yes nor a no is not understood; who said it is asked again, because nothing may run on
// a guess.
func YesOrNo(words string) (yes, understood bool) {
	said := strings.FieldsFunc(strings.ToLower(words), func(r rune) bool { return !unicode.IsLetter(r) })
	switch {
	case len(said) == 0:
		return false, false
	case slices.Contains(yesWords, said[0]):
		more := slices.ContainsFunc(said[1:], func(w string) bool { return !slices.Contains(yesWords, w) && !slices.Contains(courtesy, w) })
		return !more, !more
	}
	return false, slices.Contains(noWords, said[0])
}
