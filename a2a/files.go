package a2a

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// fileList contains the file parts of artifacts and messages, in the order of arrival.
type fileList struct {
	ids   []string
	parts map[string][]*sdk.Part
	size  int // in bytes
}

// put adds the parts of an artifact or a message: it appends them if more is set, and replaces the earlier ones
// otherwise.
func (l *fileList) put(id string, parts sdk.ContentParts, more bool) {
	var files []*sdk.Part
	for _, p := range parts {
		if p == nil {
			continue
		}
		switch p.Content.(type) {
		case sdk.Raw, sdk.URL:
			files = append(files, p)
		}
	}
	old, there := l.parts[id]
	if len(files)+len(old) == 0 {
		return
	}
	if l.parts == nil {
		l.parts = make(map[string][]*sdk.Part)
	}
	if !there {
		l.ids = append(l.ids, id)
	}
	l.size += filesSize(files)
	if more {
		files = append(old, files...)
	} else {
		l.size -= filesSize(old)
	}
	l.parts[id] = files
}

// fileCost is the size in bytes that is counted for each file in addition to its content, because each one adds an
// event to the log and a file to the store.
const fileCost = 4 << 10

func filesSize(parts []*sdk.Part) (n int) {
	for _, p := range parts {
		n += len(p.Raw()) + len(p.URL()) + len(p.Filename) + len(p.MediaType) + fileCost
	}
	return n
}

// all returns the parts of all artifacts and messages.
func (l *fileList) all() (parts []*sdk.Part) {
	for _, id := range l.ids {
		parts = append(parts, l.parts[id]...)
	}
	return parts
}

// file returns the file of a part. It does not store the bytes.
func (a *answer) file(p *sdk.Part) *event.File {
	data, name := p.Raw(), a.secrets.redactAnswer(p.Filename)
	address := a.secrets.redactAnswer(string(p.URL()))
	if u, err := url.Parse(address); err == nil && name == "" {
		name = u.Path
	}
	name = event.FileName(name, "file")
	f, err := event.NewFile(name, a.secrets.redactAnswer(p.MediaType), data)
	if err != nil { // the media type is invalid
		f, _ = event.NewFile(name, "application/octet-stream", data)
	}
	if f.URL = address; f.URL == "" {
		f.Digest = session.Digest(data)
	} else if p.MediaType == "" {
		f.MediaType = "application/octet-stream"
	}
	return f
}

// fileSum returns the same text for equal files.
func fileSum(f *event.File) string {
	return session.Digest(fmt.Appendf(nil, "%q %q %q", f.Name, f.Digest, f.URL))
}

// saveFiles saves the files of the answer and yields an event for each, except those that the log already has for this
// task (had contains their sums). lines has one line for each new file, and one for each file that could not be kept.
func (x *exchange) saveFiles(had []string) (lines []string, err error) {
	for _, p := range x.answer.files.all() {
		f := x.answer.file(p)
		if slices.Contains(had, fileSum(f)) {
			continue
		}
		if wrong := f.Check(); f.URL != "" && wrong != nil {
			lines = append(lines, "(a file with an invalid address)")
			continue
		}
		if f.URL == "" {
			saved, err := x.inv.Runtime().SaveFile(x.ctx, f.Name, f.MediaType, p.Raw())
			switch {
			case errors.Is(err, agent.ErrFileTooLarge):
				lines = append(lines, "(the file "+f.String()+", is too large to be kept)")
				continue
			case err != nil:
				return nil, err
			}
			f = saved
		}
		lines = append(lines, "[file "+f.String()+"]")
		if !x.emit(&event.Event{Data: f, More: true}) {
			break
		}
	}
	return lines, nil
}

// appendFileLines returns the text of an answer followed by the lines of the files that could not be kept. Without a
// text it returns the lines of all files.
func appendFileLines(text string, lines []string) string {
	lost := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.HasPrefix(l, "[") })
	switch {
	case text == "":
		return strings.Join(lines, "\n")
	case len(lost) > 0:
		return text + separator + strings.Join(lost, "\n")
	}
	return text
}
