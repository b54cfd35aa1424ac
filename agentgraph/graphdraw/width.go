package graphdraw

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"github.com/agentarbor/arbor/internal/layered"
)

// The measures of texts in pixels.
const (
	fontSize   = 12
	lineHeight = 16
	baseline   = 12 // below the upper edge of a line
)

// textSize is the room that lines take with some space around them.
func textSize(lines []string, named bool) layered.Size {
	s := layered.Size{Height: len(lines)*lineHeight + padding}
	for i, text := range lines {
		s.Width = max(s.Width, textWidth(text, named && i == 0)+2*padding)
	}
	return s
}

// textWidth estimates how wide a text is, as wide as in the wider ones of the fonts
// that browsers take for sans-serif.
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

// runeWidth is in thousandths of the font's size.
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

// measurable says whether the estimate of a text can be relied on. Letters of other
// scripts join and grow in ways that only a font knows: such a text gets its width as
// an attribute.
func measurable(text string) bool {
	for _, r := range text {
		if r >= 0x500 && r != '…' && r != '→' || unicode.Is(unicode.M, r) {
			return false
		}
	}
	return true
}
