package visible

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns a text with escapes for characters that are invisible or affect the text around them. It keeps line
// breaks and tabs, and drops carriage returns. Other control characters below the space become their pictures, such as
// ␛ for ESC. Other escapes have the form \u202e, or \U000e0041 for more than four digits. Invalid UTF-8 becomes U+FFFD.
func Text(s string) string { return text(0, s) }

// Line is [Text] for one line: each run of white space becomes one space.
func Line(s string) string { return strings.Join(strings.Fields(Text(s)), " ") }

// Stream is [Text] for a text that comes in pieces. The zero value is ready to use.
type Stream struct {
	before rune
	held   string // a joiner or a selector, which depends on the next piece
}

// Next returns the text that can be shown after this piece.
func (s *Stream) Next(piece string) string {
	piece, s.held = s.held+piece, ""
	if last, size := utf8.DecodeLastRuneInString(piece); last == joiner || last == nonJoiner || last == pictured {
		piece, s.held = piece[:len(piece)-size], piece[len(piece)-size:]
	}
	out := text(s.before, piece)
	if piece != "" {
		s.before, _ = utf8.DecodeLastRuneInString(piece)
	}
	return out
}

// End returns the text that was held back, and resets the stream.
func (s *Stream) End() string {
	out := text(s.before, s.held)
	*s = Stream{}
	return out
}

func text(before rune, s string) string {
	if !strings.ContainsFunc(s, suspect) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	walk(before, s, func(r rune, hidden, _ bool) {
		switch {
		case r == '\r':
		case !hidden:
			b.WriteRune(r)
		case r < ' ':
			b.WriteRune('\u2400' + r)
		case r == 0x7f:
			b.WriteRune('\u2421')
		case r == utf8.RuneError:
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	})
	return b.String()
}

// walk visits the characters of a text, and reports whether each must be escaped. last reports that it is the last one.
func walk(before rune, s string, visit func(r rune, hidden, last bool)) {
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		hidden := false
		if suspect(r) {
			after := ' '
			if s != "" {
				after, _ = utf8.DecodeRuneInString(s)
			}
			hidden = hides(before, r, after)
		}
		visit(r, hidden, s == "")
		before = r
	}
}

// JSON returns an encoded JSON value with \u escapes for what [Text] escapes, so that a reader decodes the same value.
// Invalid UTF-8 becomes \ufffd, which is how readers decode it.
func JSON(data []byte) []byte {
	s := string(data)
	if !strings.ContainsFunc(s, func(r rune) bool { return r != '\r' && suspect(r) }) {
		return data
	}
	out := make([]byte, 0, len(data)+16)
	walk(0, s, func(r rune, hidden, _ bool) {
		if !hidden || r < ' ' { // outside of strings, where it is white space
			out = utf8.AppendRune(out, r)
			return
		}
		out = appendEscape(out, r)
	})
	return out
}

// appendEscape writes a character as JSON escapes it.
func appendEscape(b []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return fmt.Appendf(b, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(b, `\u%04x`, r)
}
