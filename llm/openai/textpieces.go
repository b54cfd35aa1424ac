package openai

import (
	"strings"
	"unicode/utf8"

	"github.com/agentarbor/arbor/llm"
)

// addText passes text and reasoning on, but holds back text that may become a call. If an endpoint separates reasoning
// from text, the text contains none.
func (r *reading) addText(text, reasoning string) {
	text, reasoning = r.joiners[0].join(text), r.joiners[1].join(reasoning)
	if reasoning != "" && r.thinking.held == "" && r.thinking.close == nil {
		r.thinking.separate = true
	}
	said, thought := r.thinking.split(text)
	r.emit(said, reasoning+thought, text != "")
}

// emit yields text and reasoning. started reports that there were some, even if all are held back.
func (r *reading) emit(text, reasoning string, started bool) {
	chunk := llm.Chunk{Text: r.leaks.filter(text), Reasoning: reasoning}
	if chunk.Text == "" && chunk.Reasoning == "" {
		if r.begun || !started {
			return
		}
		chunk.Model = r.model // reports that the answer has started
	}
	r.begun, r.thoughts = true, r.thoughts+len(reasoning)
	r.chunks = append(r.chunks, chunk)
}

// characterJoiner joins characters that were cut in the middle, in a text that comes in pieces. The halves of a
// surrogate pair come as bytes that UTF-8 does not have.
type characterJoiner struct{ incomplete string }

func (h *characterJoiner) join(piece string) string {
	if piece == "" || h.incomplete == "" && utf8.ValidString(piece) {
		return piece
	}
	piece = h.incomplete + piece
	at := len(piece)
	for n := 1; n <= min(3, len(piece)); n++ {
		tail := piece[len(piece)-n:]
		if high, _ := surrogate(tail); high >= 0xd800 && high < 0xdc00 || utf8.RuneStart(tail[0]) && !utf8.FullRuneInString(tail) {
			at = len(piece) - n
		}
	}
	h.incomplete = piece[at:]
	return validText(piece[:at])
}

// validText joins surrogate pairs, and replaces incomplete characters.
func validText(text string) string {
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

// textPieces is a text that comes in pieces. Some endpoints repeat the whole text so far in each piece, or in the last
// one: only the new part counts.
type textPieces struct {
	all    strings.Builder
	pieces int
	grows  bool   // each piece repeats the text so far
	held   string // may be the whole text so far, and was not returned yet
}

func (f *textPieces) empty() bool { return f.pieces == 0 }

// enough is the length in bytes from which a text hardly ever repeats by chance.
const enough = 12

// add adds a piece, and returns the part that is certainly new. last reports that the piece comes with the end of the
// answer.
func (f *textPieces) add(s string, last bool) string {
	said := f.all.String()
	switch {
	case s == "":
		return ""
	case f.grows:
		if strings.HasPrefix(said, s) {
			return "" // it repeats the text
		}
		f.grows = strings.HasPrefix(s, said)
	case f.held != "":
		if f.grows = strings.HasPrefix(s, f.held); !f.grows {
			s, f.held = f.held+s, ""
		}
		f.held = ""
	case f.pieces == 1 && len(s) > len(said) && len(strings.TrimSpace(said)) > 1 && strings.HasPrefix(s, said):
		f.pieces, f.held = 2, s
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
func (f *textPieces) put(s string) string {
	f.pieces += min(len(s), 1)
	f.all.WriteString(s)
	return s
}

// whole adds the text of a message so far. Some endpoints send it in addition to pieces (inAddition), and others
// instead of them.
func (f *textPieces) whole(s string, inAddition bool) string {
	if s == "" {
		return ""
	}
	out := f.end()
	said := f.all.String()
	switch {
	case strings.HasPrefix(s, said):
		s = s[len(said):]
	case inAddition || strings.HasPrefix(said, s):
		return out
	}
	return out + f.put(s)
}

// end returns the text that was held for a third piece.
func (f *textPieces) end() string {
	s := f.held
	if f.held = ""; len(strings.TrimSpace(f.all.String())) > 3 && s != "" {
		s = s[f.all.Len():]
	}
	f.all.WriteString(s)
	return s
}
