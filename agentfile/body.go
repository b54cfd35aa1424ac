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

	"github.com/agentarbor/arbor/internal/replace"
)

// ErrChanged is in the error of [WriteBody] for a file that is not as it was read.
var ErrChanged = errors.New("the file has changed since it was read")

// Body is the text of an agent's Markdown file below its front matter.
type Body struct {
	Text    string // without blank lines around it; its lines end in \n
	Version string // of the whole file: it is another one whenever a byte of the file is
}

// ReadBody reads the body of an agent's file.
func ReadBody(file string) (Body, error) {
	p, err := partsOf(file)
	return p.Body, err
}

// WriteBody gives an agent's file another text, all of it or, with an error, none. The front matter, the blank lines
// around the text, and the permissions stay as they are; the lines of the text end as the first of the file does. The file
// must have the version of the body, else the error is [ErrChanged]. Callers write a file one after the other: what another
// program writes within the same instant can be lost. WriteBody does not look at what the text says: [Load] does, with
// [WithChange].
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
		return Body{}, fmt.Errorf("%s: %w", file, cause(err))
	}
	return got.Body, nil
}

// bodyText returns a text as it is read from a file that holds it.
func bodyText(s string) string { return trimBlankLines(strings.ReplaceAll(s, "\r\n", "\n")) }

// bodyParts are those of an agent's file.
type bodyParts struct {
	Body
	before, after []byte // the text, as they are in the file
	target        string // the file itself, when the path is a link
	mode          os.FileMode
}

func partsOf(file string) (p bodyParts, err error) {
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return bodyParts{}, fmt.Errorf("%s: %w", file, cause(err))
	}
	info, err := os.Stat(target)
	if err != nil {
		return bodyParts{}, fmt.Errorf("%s: %w", file, cause(err))
	}
	if !info.Mode().IsRegular() || info.Size() > MaxFile {
		return bodyParts{}, fmt.Errorf("%s: it is no file of at most 1 MiB", file)
	}
	data, err := os.ReadFile(target)
	if err != nil {
		return bodyParts{}, fmt.Errorf("%s: %w", file, cause(err))
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
	for range strings.Count(front, "\n") + 2 { // and two lines ---
		_, rest, _ = cutLine(rest)
	}
	raw := bytes.TrimSuffix([]byte(trimBlankLines(string(rest))), []byte("\r"))
	at := bytes.Index(rest, raw)
	sum := sha256.Sum256(data)
	n := len(data) - len(rest) + at
	if len(raw) == 0 {
		n = len(data) // blank lines stay in front of what is written
	}
	return bodyParts{Body: Body{text, hex.EncodeToString(sum[:16])}, before: bytes.Clone(data[:n]), after: bytes.Clone(data[n+len(raw):])}, nil
}
