package openai

import (
	"strings"
	"unicode/utf8"

	"github.com/agentarbor/arbor/llm"
)

// say passes text and reasoning on, but holds back text that may become a call. If an endpoint separates reasoning from
// text, the text contains none.
func (r *reading) say(text, reasoning string) {
	text, reasoning = r.halves[0].mend(text), r.halves[1].mend(reasoning)
	if reasoning != "" && r.thinking.held == "" && r.thinking.close == nil {
		r.thinking.apart = true
	}
	said, thought := r.thinking.split(text)
	r.hand(said, reasoning+thought, text != "")
}

// hand yields text and reasoning. began reports that there were some, even if all are held back.
func (r *reading) hand(text, reasoning string, began bool) {
	chunk := llm.Chunk{Text: r.leaks.words(text), Reasoning: reasoning}
	if chunk.Text == "" && chunk.Reasoning == "" {
		if r.begun || !began {
			return
		}
		chunk.Model = r.model // reports that the answer has started
	}
	r.begun, r.thoughts = true, r.thoughts+len(reasoning)
	r.chunks = append(r.chunks, chunk)
}

// halves joins characters that were cut in the middle, in a text that comes in pieces. The halves of a surrogate pair
// come as bytes that UTF-8 does not have.
type halves struct{ held string }

func (h *halves) mend(piece string) string {
	if piece == "" || h.held == "" && utf8.ValidString(piece) {
		return piece
	}
	piece = h.held + piece
	at := len(piece)
	for n := 1; n <= min(3, len(piece)); n++ {
		tail := piece[len(piece)-n:]
		if high, _ := surrogate(tail); high >= 0xd800 && high < 0xdc00 || utf8.RuneStart(tail[0]) && !utf8.FullRuneInString(tail) {
			at = len(piece) - n
		}
	}
	h.held = piece[at:]
	return mended(piece[:at])
}

// mended joins surrogate pairs, and replaces incomplete characters.
func mended(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var out []byte
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 {
			high, _ := surrogate(text[i:])
			low, ok := surrogate(text[min(i+3, len(text)):])
			if high >= 0 {
				n = 3
			}
			if ok && high >= 0xd800 && high < 0xdc00 && low >= 0xdc00 {
				r, n = 0x10000+(high-0xd800)<<10+(low-0xdc00), 6
			}
		}
		out = utf8.AppendRune(out, r)
		i += n
	}
	return string(out)
}

// surrogate reads half a surrogate pair at the beginning of a text; -1 if there is none.
func surrogate(text string) (rune, bool) {
	if len(text) < 3 || text[0] != 0xed || text[1] < 0xa0 || text[1] > 0xbf || text[2]&0xc0 != 0x80 {
		return -1, false
	}
	return 0xd000 | rune(text[1]&0x3f)<<6 | rune(text[2]&0x3f), true
}

// flow is a text that comes in pieces. Some endpoints repeat the whole text so far in each piece, or in the last one:
// only the new part counts.
type flow struct {
	said   strings.Builder
	pieces int
	grows  bool   // each piece repeats the text so far
	second string // may be the whole text so far, and was not returned yet
}

func (f *flow) empty() bool { return f.pieces == 0 }

// enough is the length in bytes from which a text hardly ever repeats by chance.
const enough = 12

// add adds a piece, and returns the part that is certainly new. last reports that the piece comes with the end of the
// answer.
func (f *flow) add(s string, last bool) string {
	said := f.said.String()
	switch {
	case s == "":
		return ""
	case f.grows:
		if strings.HasPrefix(said, s) {
			return "" // it repeats the text
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
	return f.put(s)
}

// put adds a piece that is new.
func (f *flow) put(s string) string {
	f.pieces += min(len(s), 1)
	f.said.WriteString(s)
	return s
}

// whole adds the text of a message so far. Some endpoints send it in addition to pieces (beside), and others instead of
// them.
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
	return out + f.put(s)
}

// end returns the text that was held for a third piece.
func (f *flow) end() string {
	s := f.second
	if f.second = ""; len(strings.TrimSpace(f.said.String())) > 3 && s != "" {
		s = s[f.said.Len():]
	}
	f.said.WriteString(s)
	return s
}
