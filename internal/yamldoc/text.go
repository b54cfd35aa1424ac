package yamldoc

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agentarbor/arbor/internal/lazyregexp"
)

// Decode returns the text of a file, with lines that end in \n. If the file has more than most bytes or is not valid
// text, it returns a problem without the file name.
func Decode(data []byte, most int) (string, *Problem) {
	if len(data) > most {
		return "", &Problem{Line: 1, Message: fmt.Sprintf("the file is larger than %d MiB, which is the most that is read", most>>20)}
	}
	if UTF16(data) {
		return "", &Problem{Line: 1, Message: "the file is UTF-16: save it as UTF-8"}
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	line := 0
	for text := range bytes.Lines(data) {
		if line++; !utf8.Valid(text) {
			return "", &Problem{Line: line, Message: "the line is not UTF-8"}
		}
	}
	control := func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f }
	if i := bytes.IndexFunc(data, control); i >= 0 {
		return "", &Problem{Line: bytes.Count(data[:i], []byte("\n")) + 1, Message: fmt.Sprintf("the line holds the control character 0x%02x", data[i])}
	}
	return strings.ReplaceAll(string(data), "\r\n", "\n"), nil
}

// kindOf matches a key of the first level, and quotedKind a quoted key, as in JSON.
var (
	kindOf     = lazyregexp.New(`(?m)^\x{FEFF}?kind` + kindValue)
	quotedKind = lazyregexp.New(`(?m)(?:^\x{FEFF}?|[{,])[ \t]*["']kind["']` + kindValue)
)

const kindValue = `[ \t]*:[ \t]*["']?([^\s"'#:,}]+)`

// KindOf returns the value of the first key kind in a file of YAML or JSON, or "". It does not parse the file. A quoted
// key counts only if no other does: it may be part of a comment or of another value.
func KindOf(data []byte) string {
	found := kindOf.Get().FindSubmatch(data)
	if found == nil {
		found = quotedKind.Get().FindSubmatch(data)
	}
	if found == nil {
		return ""
	}
	return string(found[1])
}

// UTF16 reports whether a file begins with the byte order mark of UTF-16.
func UTF16(data []byte) bool {
	return bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff"))
}
