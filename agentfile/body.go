package agentfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/replace"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// ErrChanged is wrapped in the error of [WriteBody] if the file has changed since it was read.
var ErrChanged = errors.New("the file has changed since it was read")

// Body is the text of an agent's Markdown file after its front matter.
type Body struct {
	Text    string // without surrounding blank lines; lines end in \n
	Version string // of the whole file; it changes with every byte
}

// ReadBody reads the body of an agent's file.
func ReadBody(file string) (Body, error) {
	p, err := partsOf(file)
	return p.Body, err
}

// WriteBody replaces the text of an agent's file, completely or, on an error, not at all. The front matter, the blank
// lines around the text and the permissions do not change. Lines of the text end like the first line of the file. If
// the file no longer has the version in b, the error is [ErrChanged]. Callers must not write a file concurrently: a
// write by another program at the same moment can be lost. WriteBody does not check the text; [Load] with [WithChange]
// does.
func WriteBody(file string, b Body) (Body, error) {
	p, err := partsOf(file)
	if err != nil {
		return Body{}, err
	}
	if p.Version != b.Version {
		return Body{}, fmt.Errorf("%s: %w", file, ErrChanged)
	}
	end := "\n"
	if first, _, _ := bytes.Cut(p.before, []byte("\n")); bytes.HasSuffix(first, []byte("\r")) {
		end = "\r\n"
	}
	text := bodyText(b.Text)
	if text != "" && !bytes.HasSuffix(p.before, []byte("\n")) {
		p.before = append(p.before, end...)
	}
	if text != "" && p.Text == "" && len(p.after) == 0 {
		p.after = []byte(end)
	}
	data := append(append(p.before, strings.ReplaceAll(text, "\n", end)...), p.after...)
	got, err := inParts(file, data)
	if err == nil && got.Text != text {
		err = fmt.Errorf("%s: the text cannot be written, because it would be read as another one", file)
	}
	if err != nil {
		return Body{}, err
	}
	if err := replace.File(p.target, data, p.mode); err != nil {
		return Body{}, fmt.Errorf("%s: %w", file, confined.Reason(err))
	}
	return got.Body, nil
}

// bodyText returns a text in the form in which it is read back from a file.
func bodyText(s string) string { return trimBlankLines(strings.ReplaceAll(s, "\r\n", "\n")) }

// bodyParts contains the parts of an agent's file.
type bodyParts struct {
	Body
	before, after []byte // the bytes before and after the text
	target        string // the file itself if the path is a link
	mode          os.FileMode
}

func partsOf(file string) (p bodyParts, err error) {
	var info os.FileInfo
	var data []byte
	target, err := filepath.EvalSymlinks(file)
	if err == nil {
		info, err = os.Stat(target)
	}
	if err == nil {
		data, err = confined.Read(target, maxFile+1)
	}
	if err != nil {
		return bodyParts{}, fmt.Errorf("%s: %w", file, confined.Reason(err))
	}
	p, err = inParts(file, data)
	p.target, p.mode = target, info.Mode().Perm()
	return p, err
}

func inParts(file string, data []byte) (p bodyParts, err error) {
	front, text, ok, _, problem := split(data)
	if !ok {
		problem = noFrontMatter(data)
	}
	if problem != "" {
		return bodyParts{}, fmt.Errorf("%s: %s", file, problem)
	}
	rest := data
	for range strings.Count(front, "\n") + 2 { // and the two lines ---
		_, rest, _ = cutLine(rest)
	}
	raw := bytes.TrimSuffix([]byte(trimBlankLines(string(rest))), []byte("\r"))
	at := bytes.Index(rest, raw)
	sum := sha256.Sum256(data)
	n := len(data) - len(rest) + at
	if len(raw) == 0 {
		n = len(data) // keep the blank lines before the new text
	}
	return bodyParts{Body: Body{text, hex.EncodeToString(sum[:16])}, before: bytes.Clone(data[:n]), after: bytes.Clone(data[n+len(raw):])}, nil
}

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
