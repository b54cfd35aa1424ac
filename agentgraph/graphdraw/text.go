package graphdraw

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"

	"github.com/agentarbor/arbor/agentgraph/internal/layered"
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

// The measures of text, in pixels.
const (
	fontSize   = 12
	lineHeight = 16
	baseline   = 12 // below the top of a line
)

// textSize returns the size of a box for these lines, with padding.
func textSize(lines []string, named bool) layered.Size {
	s := layered.Size{Height: len(lines)*lineHeight + padding}
	for i, text := range lines {
		s.Width = max(s.Width, textWidth(text, named && i == 0)+2*padding)
	}
	return s
}

// textWidth estimates the width of a text, in the wider ones of the fonts that browsers use for sans-serif.
func textWidth(text string, bold bool) int {
	sum := 0
	for _, r := range text {
		sum += runeWidth(r)
	}
	if bold {
		sum += sum / 7
	}
	return sum*fontSize/1000 + 1
}

// runeWidth returns a width in thousandths of the font size.
func runeWidth(r rune) int {
	switch {
	case r < 0x80:
		return asciiWidth(r)
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r == '…' || r == '→':
		return 1000
	case r < 0x500: // Latin, Greek, Cyrillic
		return 850
	case r < 0x700: // Hebrew, Arabic
		return 750
	}
	if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
		return 1050
	}
	return 1200
}

func asciiWidth(r rune) int {
	switch {
	case strings.ContainsRune("ijlI|'.,:;! ", r):
		return 330
	case strings.ContainsRune("ftr()[]-/\\`", r):
		return 410
	case strings.ContainsRune("mwMW@%", r):
		return 1000
	case strings.ContainsRune("#+<=>^~", r):
		return 840
	case 'A' <= r && r <= 'Z', r == '&':
		return 780
	}
	return 640
}

// measurable reports whether the estimate of a text is reliable. Letters of other scripts join and change size in ways
// that only the font knows; such a text gets its width as an attribute.
func measurable(text string) bool {
	for _, r := range text {
		if r >= 0x500 && r != '…' && r != '→' || unicode.Is(unicode.M, r) {
			return false
		}
	}
	return true
}
