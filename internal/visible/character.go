package visible

import (
	"strings"
	"unicode"
)

const (
	nonJoiner = '\u200c'
	joiner    = '\u200d'
	pictured  = '\ufe0f' // selects the picture of an emoji
)

// unseen contains characters outside of Unicode's category Cf that are invisible, or only affect how another one is
// drawn.
var unseen = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x034f, 0x034f, 1}, // the grapheme joiner
		{0x115f, 0x1160, 1}, // fillers of Hangul
		{0x17b4, 0x17b5, 1}, // vowels of Khmer that are not written
		{0x180b, 0x180f, 1}, // variants of Mongolian letters
		{0x2028, 0x2029, 1}, // separators of lines and paragraphs
		{0x2065, 0x2065, 1},
		{0x3164, 0x3164, 1}, // a filler
		{0xfe00, 0xfe0f, 1}, // variation selectors
		{0xffa0, 0xffa0, 1}, // a filler
		{0xfff0, 0xfffb, 1}, // annotation marks
		{0xfffe, 0xffff, 1},
	},
	R32: []unicode.Range32{{0xe0000, 0xe0fff, 1}}, // tags, and more variation selectors
}

// joining contains the scripts in which the joiner and the non-joiner affect the form of letters.
var joining = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mongolian, unicode.Mandaic, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi,
	unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Khmer,
	unicode.Myanmar, unicode.Tibetan,
}

// suspect reports whether a character may have to be escaped. That depends on its neighbours.
func suspect(r rune) bool {
	switch {
	case r < 0x7f:
		return r < ' ' && r != '\n' && r != '\t'
	case r < 0xa0:
		return true
	case r < 0x300:
		return r == 0xad
	}
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) || unicode.Is(unseen, r) || r == unicode.ReplacementChar
}

// hides reports whether a suspect character must be escaped at its position. Characters that people write with are
// kept: a joiner or non-joiner inside of a word whose script needs it, such as Persian and Hindi, a joiner between two
// pictures that are drawn as one, and a single selector after a character with variants. At other positions, such as
// between Latin letters, they are invisible, and can hide a difference or a message. All marks of direction are
// escaped: a text can be read without them, and they can change how it reads.
func hides(before, r, after rune) bool {
	switch {
	case r == nonJoiner || r == joiner:
		word := joins(before) && (joins(after) || unicode.IsMark(before) && !suspect(after)) // after a mark also at the end of a word
		return !word && !(r == joiner && pictureEnds(before) && picture(after))
	case r == 0xfe0e || r == pictured: // drawn as text, or as a picture
		key := r == pictured && after == '\u20e3' && strings.ContainsRune("0123456789#*", before)
		return !picture(before) && !key && !strings.ContainsRune("\u203c\u2049\u2139\u3030", before)
	case r >= 0xfe00 && r < 0xfe0e:
		return !unicode.In(before, unicode.Han, unicode.Sm, unicode.Myanmar, unicode.Phags_Pa, unicode.Manichaean)
	case r >= 0xe0100 && r <= 0xe01ef: // variants of ideographs, as in names
		return !unicode.Is(unicode.Han, before)
	case r >= 0x180b && r <= 0x180f:
		return !unicode.Is(unicode.Mongolian, before) || unicode.Is(unseen, before)
	}
	return true
}

// joins reports whether a character is part of a word in such a script.
func joins(r rune) bool {
	marked := r >= 0x064b && r <= 0x0655 // Arabic marks that other scripts also use
	return marked || unicode.In(r, joining...) && (unicode.IsLetter(r) || unicode.IsMark(r)) && !unicode.Is(unseen, r)
}

// picture reports whether a character may be an emoji, and pictureEnds whether it may
// be the last one of an emoji.
func picture(r rune) bool     { return unicode.Is(unicode.So, r) || r == '\u2194' }
func pictureEnds(r rune) bool { return picture(r) || r == pictured || skin(r) }
func skin(r rune) bool        { return r >= 0x1f3fb && r <= 0x1f3ff }
