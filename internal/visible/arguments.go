package visible

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxIndent is the deepest indentation of nested values, so that a deeply nested one does not fill a page with spaces.
const maxIndent = 16

// inline is the maximal number of characters of arguments in one line.
const inline = 120

// Inline returns a call's arguments in one line, as name="value", count=1. whole is false if they are too many or too
// complex for one line.
func Inline(input json.RawMessage) (line string, whole bool) {
	w := argumentWriter{compact: true}
	if !w.arguments(input) || len(w.lines) > 1 {
		return "", false
	}
	line = w.lines[0]
	return line, utf8.RuneCountInString(line) <= inline
}

// Arguments shows all of a call's arguments, which are JSON, in lines: one for each, and
// more for values within values. Texts are in quotes with the escapes of JSON, and a
// line break in one is written and ends the line, as in
//
//	note: "first\n"
//	      "second"
//
// so that white space is exact, and no line can be mistaken for one that is not part of
// an argument. Letters that were escaped without need are shown as themselves. Input that
// is not JSON is shown as a text.
func Arguments(input json.RawMessage) []string {
	w := argumentWriter{}
	if !w.arguments(input) {
		w = argumentWriter{}
		w.text(string(input))
	}
	return w.end()
}

// argumentWriter writes JSON for people.
type argumentWriter struct {
	lines   []string
	line    []byte
	compact bool // all in one line
	depth   int
}

func (w *argumentWriter) end() []string {
	w.lines = append(w.lines, string(w.line))
	w.line = nil
	return w.lines
}

// newLine ends a line and starts the next one.
func (w *argumentWriter) newLine() {
	w.lines = append(w.lines, string(w.line))
	w.line = append(w.line[:0], strings.Repeat("  ", min(w.depth, maxIndent))...)
}

// arguments writes the members of an object, or another value unchanged.
func (w *argumentWriter) arguments(input json.RawMessage) bool {
	if !json.Valid(input) {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(input))
	d.UseNumber()
	t, err := d.Token()
	if t != json.Delim('{') {
		ok := err == nil && w.value(d, t)
		if w.compact {
			w.end()
		}
		return ok
	}
	for i := 0; d.More(); i++ {
		key, err := d.Token()
		name, _ := key.(string)
		if err != nil {
			return false
		}
		switch {
		case i > 0 && w.compact:
			w.line = append(w.line, ", "...)
		case i > 0:
			w.newLine()
		}
		w.name(name)
		if w.compact {
			w.line = append(w.line, '=')
		} else {
			w.line = append(w.line, ": "...)
		}
		if t, err = d.Token(); err != nil || !w.value(d, t) {
			return false
		}
	}
	if w.compact {
		w.end()
	}
	return true
}

// name writes an argument's name, in quotes unless it is a plain word.
func (w *argumentWriter) name(s string) {
	odd := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.')
	}
	if s != "" && !strings.ContainsFunc(s, odd) {
		w.line = append(w.line, s...)
		return
	}
	w.text(s)
}

// value writes a value whose first token was read.
func (w *argumentWriter) value(d *json.Decoder, t json.Token) bool {
	open, ok := t.(json.Delim)
	if !ok {
		switch t := t.(type) {
		case string:
			w.text(t)
		case json.Number:
			w.line = append(w.line, t...)
		case bool:
			w.line = append(w.line, map[bool]string{true: "true", false: "false"}[t]...)
		default:
			w.line = append(w.line, "null"...)
		}
		return true
	}
	w.line = append(w.line, byte(open))
	w.depth++
	some := false
	for ; d.More(); some = true {
		if some {
			w.line = append(w.line, ',')
		}
		w.between(some)
		t, err := d.Token()
		if err != nil {
			return false
		}
		if open == '{' {
			w.text(t.(string))
			w.line = append(w.line, ": "...)
			if t, err = d.Token(); err != nil {
				return false
			}
		}
		if !w.value(d, t) {
			return false
		}
	}
	w.depth--
	if some && !w.compact {
		w.newLine()
	}
	_, err := d.Token()
	w.line = append(w.line, byte(open)+2) // ] and } are two code points after [ and {
	return err == nil
}

// between separates the items of a value.
func (w *argumentWriter) between(some bool) {
	switch {
	case !w.compact:
		w.newLine()
	case some:
		w.line = append(w.line, ' ')
	}
}

// text writes a text in quotes. A line break in it ends the line.
func (w *argumentWriter) text(s string) {
	at := utf8.RuneCount(w.line)
	w.line = append(w.line, '"')
	walk(0, s, func(r rune, hidden, last bool) {
		switch {
		case r == '\n':
			w.line = append(w.line, `\n`...)
			if !last {
				w.line = append(w.line, '"')
				w.lines = append(w.lines, string(w.line))
				w.line = append(w.line[:0], strings.Repeat(" ", min(at, 2*maxIndent+24))...)
				w.line = append(w.line, '"')
			}
		case r == '\t':
			w.line = append(w.line, `\t`...)
		case r == '\r':
			w.line = append(w.line, `\r`...)
		case r == '"' || r == '\\':
			w.line = append(w.line, '\\', byte(r))
		case hidden && r != utf8.RuneError, r != ' ' && r != '\u3000' && unicode.Is(unicode.Zs, r): // a space of another kind looks like an ordinary one
			w.line = appendEscape(w.line, r)
		default:
			w.line = utf8.AppendRune(w.line, r)
		}
	})
	w.line = append(w.line, '"')
}

// Wrap breaks lines into rows of at most width columns, so that a terminal does not break them into rows without a
// prefix. It adds first before the first row of a line and more before the others. With width 0, lines are not broken.
func Wrap(lines []string, first, more string, width int) []string {
	rows := make([]string, 0, len(lines))
	for _, line := range lines {
		prefix := first
		for width > 0 {
			room, at := max(8, width-utf8.RuneCountInString(first)), -1
			for i, r := range line {
				if room -= columns(r); room < 0 {
					at = i
					break
				}
			}
			if at < 0 {
				break
			}
			rows = append(rows, prefix+line[:at])
			line, prefix = line[at:], more
		}
		rows = append(rows, prefix+line)
	}
	return rows
}

// columns returns the maximal number of terminal columns of a character.
func columns(r rune) int {
	if r >= 0x1100 && (r < 0x2010 || r >= 0x2190) {
		return 2
	}
	return 1
}
