package agentfile

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/internal/yamldoc"
)

// maxFile is the size in bytes of the largest file that is read as an agent. maxFrontMatter limits the part between the
// lines ---.
const (
	maxFile        = 1 << 20
	maxFrontMatter = 32 << 10
)

// split splits a file into front matter and body. ok is false if the file has no front matter and so is not an agent.
// The front matter begins on line 2 of the file, and the body at the place at. Lines end in \n in both parts, however
// they end in the file. problem describes a fault at that place in a file with a front matter. Both parts are then
// empty, except that a front matter without an end is the rest of the file.
func split(data []byte) (front, body string, ok bool, at pos, problem string) {
	first, _, _ := cutLine(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	if !isRule(first) && !yamldoc.UTF16(data) {
		return "", "", false, pos{}, ""
	}
	text, wrong := yamldoc.Decode(data, maxFile)
	if wrong != nil {
		return "", "", true, pos{wrong.Line, 0}, wrong.Message
	}
	_, rest, _ := cutLine([]byte(text))
	for left := rest; len(left) > 0; {
		line, next, _ := cutLine(left)
		if isRule(line) {
			front := rest[:len(rest)-len(left)]
			if len(front) > maxFrontMatter {
				return "", "", true, pos{1, 0}, "the front matter is larger than 32 KiB: long texts belong into the body"
			}
			body := trimBlankLines(string(next))
			above := string(next[:strings.Index(string(next), body)])
			return string(front), body, true, pos{strings.Count(string(front), "\n") + 3 + strings.Count(above, "\n"), 0}, ""
		}
		left = next
	}
	return string(rest), "", true, pos{1, 0}, "the front matter that begins here has no end: a line --- is missing"
}

// noFrontMatter returns why a file without front matter is not an agent.
func noFrontMatter(data []byte) string {
	n, hint := 0, ""
	for line := range bytes.Lines(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))) {
		text := string(bytes.TrimSpace(line))
		if n++; n == 1 && text != "" && text != "---" && strings.Trim(text, "-–—") == "" {
			hint = fmt.Sprintf(", and the line is %q", text)
		}
		if text == "---" && hint == "" {
			hint = fmt.Sprintf(", and line %d is one: remove what is before it", n)
		}
	}
	if n == 0 {
		hint = ", and the file is empty"
	}
	return "the front matter of an agent begins with a line --- at the top of its file" + hint
}

// cutLine returns the first line without its end, the rest, and whether the line had an end.
func cutLine(data []byte) (line, rest []byte, ended bool) {
	line, rest, ended = bytes.Cut(data, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), rest, ended
}

// isRule reports whether a line opens or closes a front matter. It ignores trailing spaces, because an editor does not
// show them.
func isRule(line []byte) bool { return string(bytes.TrimRight(line, " \t")) == "---" }

// trimBlankLines removes blank lines around a text and nothing else.
func trimBlankLines(s string) string {
	for {
		line, rest, more := strings.Cut(s, "\n")
		if strings.Trim(line, blank) != "" {
			break
		}
		if !more {
			return ""
		}
		s = rest
	}
	end := len(strings.TrimRight(s, blank))
	if i := strings.IndexByte(s[end:], '\n'); i >= 0 {
		return s[:end+i]
	}
	return s
}

const blank = " \t\r\n"
