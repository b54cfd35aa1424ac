package openai

import "strings"

// flow is a text that comes in pieces. Some endpoints send with each piece, or in the
// last, all that they have said before: of that only what is new counts.
type flow struct {
	said   strings.Builder
	pieces int
	grows  bool   // each piece has all so far
	second string // may be all so far, and is not handed out yet
}

func (f *flow) empty() bool { return f.pieces == 0 }

// enough is how long a text is at least that is hardly ever repeated by chance, in bytes.
const enough = 12

// add takes in a piece, and returns what is new and certain. last says that the piece comes with
// the end of the answer.
func (f *flow) add(s string, last bool) string {
	said := f.said.String()
	switch {
	case s == "":
		return ""
	case f.grows:
		if strings.HasPrefix(said, s) {
			return "" // the same again
		}
		f.grows = strings.HasPrefix(s, said)
	case f.second != "":
		if f.grows = strings.HasPrefix(s, f.second); !f.grows {
			s, f.second = f.second+s, ""
		}
		f.second = ""
	case f.pieces == 1 && len(s) > len(said) && len(strings.TrimSpace(said)) > 1 && strings.HasPrefix(s, said):
		f.pieces, f.second = 2, s
		return ""
	case last && f.pieces > 1 && len(s) >= enough && s == said:
		return ""
	}
	if f.grows {
		s = s[len(said):]
	}
	f.pieces++
	f.said.WriteString(s)
	return s
}

// whole takes in the text so far of a message, which some send beside pieces (beside), and
// others in their place.
func (f *flow) whole(s string, beside bool) string {
	if s == "" {
		return ""
	}
	out := f.end()
	said := f.said.String()
	switch {
	case strings.HasPrefix(s, said):
		s = s[len(said):]
	case beside || strings.HasPrefix(said, s):
		return out
	}
	f.pieces++
	f.said.WriteString(s)
	return out + s
}

// end returns what waits for a third piece.
func (f *flow) end() string {
	s := f.second
	if f.second = ""; len(strings.TrimSpace(f.said.String())) > 3 && s != "" {
		s = s[f.said.Len():]
	}
	f.said.WriteString(s)
	return s
}
