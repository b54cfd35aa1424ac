package agentfile

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
)

// A folder with more entries, or deeper, is hardly one of agents.
const (
	maxEntries = 20_000
	maxFolders = 32
)

// reader reads the files of a folder.
type reader struct {
	fsys    fs.FS
	report  *report
	entries int
	defs    []*definition // sorted by file
	plain   []string      // .md files without front matter
}

var errTooMany = errors.New("too many entries")

// folder reads the files in dir and below. Hidden entries are left out, links to
// folders are not followed, links to files are. rel is dir as messages name it.
func (r *reader) folder(dir, rel string, depth int) error {
	entries, err := fs.ReadDir(r.fsys, dir)
	if err != nil {
		r.report.add(rel, pos{}, "the folder cannot be read: %s", cause(err))
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
			r.file(path.Join(dir, name), at)
		}
	}
	return nil
}

func (r *reader) file(name, rel string) {
	info, err := fs.Stat(r.fsys, name) // follows links: to folders, in circles, to nowhere
	if err == nil && !info.Mode().IsRegular() {
		return // opening a pipe would wait for a writer
	}
	var data []byte
	if err == nil {
		data, err = r.read(name)
	}
	if err != nil {
		r.report.add(rel, pos{1, 0}, "the file cannot be read: %s", cause(err))
		return
	}
	if d := parse(r.report, rel, data); d != nil {
		r.defs = append(r.defs, d)
	} else {
		r.plain = append(r.plain, rel)
	}
}

// read returns at most one byte more than an agent's file may have.
func (r *reader) read(name string) ([]byte, error) {
	f, err := r.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxFile+1))
}

// cause leaves out the path, which the message names already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
