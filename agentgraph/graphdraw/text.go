package graphdraw

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentarbor/arbor/internal/visible"
)

// short returns a text on one line and at most this many characters long. It escapes invisible characters and those
// that change the direction of the surrounding text.
func short(text string, most int) string {
	text = strings.TrimSpace(text)
	cut := len(text) > most*16
	if cut { // limits the work on a long text
		end := most * 16
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	text = visible.Text(text)
	var line []rune
	space := false
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		i += size
		switch {
		case unicode.IsSpace(r):
			space = len(line) > 0
			continue
		case r >= 0xFFFE && r&0xFFFE == 0xFFFE, unicode.Is(unicode.Co, r):
			r = unicode.ReplacementChar
		}
		if space {
			line = append(line, ' ')
			space = false
		}
		line = append(line, r)
		if len(line) > most {
			break
		}
	}
	if len(line) > most {
		end := most - 1
		for end > 1 && (unicode.Is(unicode.M, line[end]) || line[end] == zeroWidthJoiner || line[end-1] == zeroWidthJoiner) {
			end-- // not inside one visible character
		}
		return strings.TrimRight(string(line[:end]), " ") + "…"
	}
	switch {
	case cut:
		return string(line) + "…"
	case len(line) == 0:
		return `""`
	}
	return string(line)
}

// zeroWidthJoiner joins characters that are drawn as one.
const zeroWidthJoiner = '\u200d'
