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
