package agentgraph

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// The bounds of a folder of agents. What is beyond them is not read.
const (
	maxFolderFiles = 2_000
	maxFolderDepth = 8
	maxFrontMatter = 32 << 10
)

// FolderRefs returns the names that agents in a folder have, for [WithRefs]: those of
// Markdown agents, and those of documents of kind Agent in its files that end in
// .yaml or .yml. As sub-agents do, Markdown agents may stand in a folder that is
// named like their parent's file; other folders are not read. Files that hold no
// agent, or cannot be understood, are left out: a reference to one of them is then
// unknown.
func FolderRefs(fsys fs.FS) ([]string, error) {
	f := &folder{fsys: fsys}
	if err := f.read(".", 0, true); err != nil {
		return nil, fmt.Errorf("agentgraph: %w", err)
	}
	slices.Sort(f.names)
	return slices.Compact(f.names), nil
}

type folder struct {
	fsys  fs.FS
	files int
	names []string
}

func (f *folder) read(dir string, depth int, top bool) error {
	entries, err := fs.ReadDir(f.fsys, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		ending := path.Ext(e.Name())
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") || ending != ".md" && (!top || ending != ".yaml" && ending != ".yml") {
			continue
		}
		if f.files++; f.files > maxFolderFiles {
			return fmt.Errorf("the folder holds more than %d files", maxFolderFiles)
		}
		file := path.Join(dir, e.Name())
		if ending != ".md" {
			f.documents(file)
			continue
		}
		name, ok := f.markdown(file)
		if !ok {
			continue
		}
		f.names = append(f.names, name)
		below := strings.TrimSuffix(file, ending)
		if info, err := fs.Stat(f.fsys, below); err == nil && info.IsDir() && depth < maxFolderDepth {
			if err := f.read(below, depth+1, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// open reads the beginning of a file.
func (f *folder) open(file string, most int64) []byte {
	r, err := f.fsys.Open(file)
	if err != nil {
		return nil
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil
	}
	return data
}

// markdown returns the name of an agent in Markdown: that of its front matter, or
// the file's.
func (f *folder) markdown(file string) (name string, ok bool) {
	data := bytes.TrimPrefix(f.open(file, 2*maxFrontMatter), []byte("\xef\xbb\xbf"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	lines := strings.Split(string(data), "\n")
	if strings.TrimRight(lines[0], " \t") != "---" {
		return "", false
	}
	name = strings.TrimSuffix(path.Base(file), path.Ext(file))
	for i, line := range lines[1:] {
		if strings.TrimRight(line, " \t") != "---" {
			continue
		}
		for _, key := range lines[1 : i+1] {
			if value, found := strings.CutPrefix(key, "name:"); found {
				var s string
				if len(value) < 200 && yaml.Unmarshal([]byte(value), &s) == nil && s != "" {
					name = s
				}
			}
		}
		return name, true
	}
	return "", false
}

// documents adds the agents of a YAML file.
func (f *folder) documents(file string) {
	data := f.open(file, MaxFile)
	if !bytes.Contains(data, []byte("Agent")) {
		return
	}
	found := func(a AgentDocument) {
		if a.Name != "" {
			f.names = append(f.names, a.ref())
		}
	}
	_, _ = Load(data, WithAnyRef(), func(o *options) { o.seen = found }) // its problems are those of another file
}
