package agentfile

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/agentarbor/arbor/internal/confined"
)

// The limits of a folder of agents. A folder with more entries or more levels is probably not one of agents.
const (
	maxEntries = 20_000
	maxFolders = 32
)

// reader finds the files of a folder.
type reader struct {
	*loader
	entries int
	defs    []*definition // sorted by file
	plain   []Problem     // Markdown files that are not agents, with paths as in messages
	yaml    []string      // files in the folder itself that may be graphs
}

var errTooMany = errors.New("too many entries")

// folder reads the files in dir and below. It skips hidden entries and links to folders, and follows links to files.
// rel is dir as in messages.
func (r *reader) folder(dir, rel string, depth int) error {
	entries, err := fs.ReadDir(r.fsys, dir)
	if err != nil {
		r.report.add(rel, pos{}, "the folder cannot be read: %s", confined.Reason(err))
		return nil
	}
	if depth > maxFolders {
		r.report.add(rel, pos{}, "folders are nested more than %d levels deep", maxFolders)
		return nil
	}
	for _, e := range entries {
		if r.entries++; r.entries > maxEntries {
			r.report.add(".", pos{}, "the folder holds more than %d files: give the folder of the agents", maxEntries)
			return errTooMany
		}
		name := e.Name()
		at := path.Join(rel, name)
		switch {
		case strings.HasPrefix(name, "."):
		case e.IsDir():
			if err := r.folder(path.Join(dir, name), at, depth+1); err != nil {
				return err
			}
		case len(name) > len(".md") && strings.EqualFold(path.Ext(name), ".md"):
			r.file(at)
		case strings.EqualFold(path.Ext(name), ".markdown"):
			r.plain = append(r.plain, Problem{File: at, Line: 1, Message: "the file's name must end in .md to be an agent"})
		case isYAML(name) && r.kind(at) == "Router":
			r.file(at)
		case depth == 0 && isYAML(name):
			r.yaml = append(r.yaml, at)
		}
	}
	return nil
}

func (r *reader) file(rel string) {
	s := r.source(rel)
	if s == nil {
		return
	}
	r.report.problems = append(r.report.problems, s.problems...)
	switch {
	case s.d != nil:
		r.change(s.d)
		r.defs = append(r.defs, s.d)
	case len(s.problems) == 0 && !strings.EqualFold(path.Base(rel), "README.md"):
		r.plain = append(r.plain, Problem{File: rel, Line: 1, Message: s.plain})
	}
}

// unlisted reports Markdown files that are not agents, unless the key ignore of an agent lists them. Otherwise an error
// in a file's first line would silently remove an agent from the tree.
func (r *reader) unlisted(defs []*definition) {
	listed := map[string]bool{}
	for _, d := range defs {
		for _, i := range d.ignore {
			if _, err := path.Match(i.value, ""); err != nil {
				r.report.add(d.file, i.at, "ignore: %q is not a pattern of files, such as notes.md or docs/*", i.value)
			}
			for _, other := range defs {
				if other.file != "" && d.ignores(i.value, other.file) {
					r.report.add(d.file, i.at, "ignore: %q matches %s, which is an agent", i.value, r.report.given(other.file))
				}
			}
			for _, p := range r.plain {
				listed[p.File] = listed[p.File] || d.ignores(i.value, p.File)
			}
		}
	}
	for _, p := range r.plain {
		if !listed[p.File] {
			r.report.add(p.File, pos{p.Line, 0}, "%s; if it is not an agent, list it under ignore in an agent's front matter", p.Message)
		}
	}
}

// ignores reports whether a pattern of the key ignore matches a file or a folder that contains it.
func (d *definition) ignores(pattern, file string) bool {
	if dir := path.Dir(d.file); dir != "." {
		below, ok := strings.CutPrefix(file, dir+"/")
		if file = below; !ok {
			return false
		}
	}
	for ; file != "."; file = path.Dir(file) {
		if ok, _ := path.Match(path.Clean(pattern), file); ok {
			return true
		}
	}
	return false
}

// source is an agent's file that was read: Markdown, or a router in YAML.
type source struct {
	d        *definition // nil if there is no front matter or the file cannot be read
	plain    string      // why the file has no front matter
	problems []Problem
}

// source reads a file once. It returns nil if the path is not a regular file.
func (l *sourceCache) source(rel string) *source {
	if s, done := l.sources[rel]; done {
		return s
	}
	l.sources[rel] = nil
	data, err := l.read(rel, maxFile)
	if errors.Is(err, confined.ErrFolder) || errors.Is(err, confined.ErrIrregular) {
		return nil
	}
	r, s := &report{given: l.report.given}, &source{}
	if err != nil {
		r.add(rel, pos{1, 0}, "the file cannot be read: %s", err)
	} else if isYAML(rel) {
		s.d = parseRouter(r, rel, data)
	} else {
		s.d = parse(r, rel, data)
		s.plain = noFrontMatter(data)
	}
	s.problems = r.problems
	l.sources[rel] = s
	return s
}

// read returns at most one byte more than the size limit.
func (l *sourceCache) read(rel string, most int64) ([]byte, error) {
	return confined.ReadIn(l.fsys, path.Join(l.dir, rel), most+1)
}

// isYAML reports whether the name has a YAML extension.
func isYAML(name string) bool {
	ending := path.Ext(name)
	return ending == ".yaml" || ending == ".yml"
}
