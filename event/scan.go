package event

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"time"
	"unicode/utf8"
)

// scan goes over a JSON text of the form that MarshalJSON writes: no spaces, valid UTF-8,
// not deep. It allocates nothing, and is as strict as package json. What it refuses may
// still be JSON; whoever uses it asks package json then.
type scan struct {
	data []byte
	at   int
}

// span is where a string's text is. The zero value is no text.
type span struct {
	from, to int
	form     form
}

func (s span) size() int { return s.to - s.from }

// form says how the text of a string is written.
type form uint8

const (
	plainForm form = iota // byte for byte
	escapes
	surrogates // among other escapes; only package json knows what halves of pairs become
)

// maxPlainDepth is how many levels of arrays and objects a value may have for scan.
const maxPlainDepth = 64

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// special returns the high bits of the bytes that do not stand for themselves inside of a
// string: quotes, backslashes and control characters. Only the lowest of them is certain.
func special(word uint64) uint64 {
	quote, slash := word^'"'*ones, word^'\\'*ones
	return ((word-' '*ones)&^word | (quote-ones)&^quote | (slash-ones)&^slash) & highs
}

// is goes over a byte, and reports whether it was there.
func (s *scan) is(c byte) bool {
	if s.at < len(s.data) && s.data[s.at] == c {
		s.at++
		return true
	}
	return false
}

// str goes over a string.
func (s *scan) str() (span, bool) {
	if !s.is('"') {
		return span{}, false
	}
	text, i, high, form := s.data, s.at, uint64(0), plainForm
	for i < len(text) {
		if i+8 <= len(text) {
			word := binary.LittleEndian.Uint64(text[i:])
			m := special(word)
			if m == 0 {
				high |= word & highs
				i += 8
				continue
			}
			n := bits.TrailingZeros64(m) / 8
			high |= word & highs & (1<<(8*n) - 1)
			i += n
		}
		switch c := text[i]; {
		case c == '"':
			found := span{s.at, i, form}
			s.at = i + 1
			return found, high == 0 || utf8.Valid(text[found.from:found.to])
		case c == '\\':
			n, pair := escape(text[i:])
			if n == 0 {
				return span{}, false
			}
			form = max(form, escapes)
			if pair {
				form = surrogates
			}
			i += n
		case c < ' ':
			return span{}, false
		default:
			high |= uint64(c) & 0x80
			i++
		}
	}
	return span{}, false
}

// escape returns the length of the escape that a text begins with, 0 if it is none, and
// whether it is half of a surrogate pair.
func escape(text []byte) (n int, pair bool) {
	if len(text) < 2 {
		return 0, false
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, false
	case 'u':
		if r := unit(text); r >= 0 {
			return 6, 0xd800 <= r && r <= 0xdfff
		}
	}
	return 0, false
}

// unit returns the value of an escape such as \u00e4, and -1 if it is none.
func unit(text []byte) (r rune) {
	if len(text) < 6 {
		return -1
	}
	for _, c := range text[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// writeText writes the text of a string of JSON, which has no surrogates and gets shorter
// at most.
func writeText(b *strings.Builder, text []byte, form form) {
	for form != plainForm {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			break
		}
		b.Write(text[:i])
		c, n := text[i+1], 2
		switch c {
		case 'u':
			b.WriteRune(unit(text[i:]))
			n = 6
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		default:
			b.WriteByte(c)
		}
		text = text[i+n:]
	}
	b.Write(text)
}

// text returns the text of a string that str has found.
func (s *scan) text(at span) string {
	if at.form == plainForm {
		return string(s.data[at.from:at.to])
	}
	var b strings.Builder
	b.Grow(at.size())
	writeText(&b, s.data[at.from:at.to], at.form)
	return b.String()
}

// literal goes over true, false or null.
func (s *scan) literal(word string) bool {
	if len(s.data)-s.at < len(word) || string(s.data[s.at:s.at+len(word)]) != word {
		return false
	}
	s.at += len(word)
	return true
}

// digits goes over decimal digits and returns how many there are.
func (s *scan) digits() int {
	from := s.at
	for s.at < len(s.data) && '0' <= s.data[s.at] && s.data[s.at] <= '9' {
		s.at++
	}
	return s.at - from
}

// integer goes over a whole number that every int64 has room for.
func (s *scan) integer() (n int64, ok bool) {
	negative := s.is('-')
	from := s.at
	switch digits := s.digits(); {
	case digits == 0 || digits > 18 || s.data[from] == '0' && (negative || digits > 1):
		return 0, false
	}
	for _, c := range s.data[from:s.at] {
		n = 10*n + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

// number goes over a number. It is short if a float64 keeps all digits that it has.
func (s *scan) number() (text []byte, short, ok bool) {
	from := s.at
	s.is('-')
	zero := s.at < len(s.data) && s.data[s.at] == '0'
	whole := s.digits()
	if whole == 0 || zero && whole > 1 {
		return nil, false, false
	}
	short = true
	if s.is('.') && s.digits() == 0 {
		return nil, false, false
	}
	if s.is('e') || s.is('E') {
		short = false
		if !s.is('-') {
			s.is('+')
		}
		if s.digits() == 0 {
			return nil, false, false
		}
	}
	text = s.data[from:s.at]
	return text, short && len(text) <= safeDigits, true
}

// skip goes over a value that has at most so many levels.
func (s *scan) skip(levels int) bool {
	if s.at >= len(s.data) {
		return false
	}
	switch s.data[s.at] {
	case '"':
		_, ok := s.str()
		return ok
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	case '{':
		return s.each('{', '}', levels, func() bool {
			_, ok := s.str()
			return ok && s.is(':') && s.skip(levels-1)
		})
	case '[':
		return s.each('[', ']', levels, func() bool { return s.skip(levels - 1) })
	}
	_, _, ok := s.number()
	return ok
}

// each goes over an array or an object, with one call for each of its entries.
func (s *scan) each(first, last byte, levels int, entry func() bool) bool {
	if levels == 0 || !s.is(first) {
		return false
	}
	for n := 0; !s.is(last); n++ {
		if n > 0 && !s.is(',') || !entry() {
			return false
		}
	}
	return true
}

// isPlain reports whether a text is one JSON value of the form that scan goes over.
func isPlain(text []byte) bool {
	s := scan{data: text}
	return s.skip(maxPlainDepth) && s.at == len(text)
}

// time goes over a time of RFC 3339 in UTC.
func (s *scan) time() (t time.Time, ok bool) {
	const short = `"2006-01-02T15:04:05Z"`
	if len(s.data)-s.at < len(short) {
		return t, false
	}
	text := s.data[s.at:]
	for i, c := range []byte(short[:len(short)-2]) {
		if digit := '0' <= text[i] && text[i] <= '9'; digit != ('0' <= c && c <= '9') || !digit && text[i] != c {
			return t, false
		}
	}
	two := func(i int) int { return int(text[i]-'0')*10 + int(text[i+1]-'0') }
	year, month, day, hour, minute, second := two(1)*100+two(3), two(6), two(9), two(12), two(15), two(18)
	s.at += len(short) - 2
	nanos := 0
	if s.is('.') {
		from := s.at
		n := s.digits()
		if n == 0 || n > 9 {
			return t, false
		}
		for _, c := range s.data[from:s.at] {
			nanos = 10*nanos + int(c-'0')
		}
		for ; n < 9; n++ {
			nanos *= 10
		}
	}
	if !s.is('Z') || !s.is('"') || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 59 {
		return t, false
	}
	t = time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC)
	return t, day <= 28 || t.Day() == day // the 30th of February is in March
}
