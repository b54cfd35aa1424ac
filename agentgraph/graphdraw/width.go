package graphdraw

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"github.com/agentarbor/arbor/agentgraph/internal/layered"
)

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
