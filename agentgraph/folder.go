package agentgraph

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// The limits of a folder of agents. Deeper folders are not read; too many files are an error.
const (
	maxFolderFiles = 2_000
	maxFolderDepth = 8
)

// Folder contains the agents of a folder, for graphs to refer to.
type Folder struct {
	Agents []FolderAgent // in the order of the files; those of sub-folders follow their parent

	invalid []invalidFile
}

// invalidFile is a file of the folder without an agent, or with invalid ones.
type invalidFile struct {
	names []string // the agents that it may have been meant to contain
	why   string   // why it does not
}

// FolderAgent is an agent of a folder.
type FolderAgent struct {
	Name, Version string // Version is empty in Markdown, and optional in a document
	File          string // the path in the folder, with slashes
	// Document is nil for a Markdown agent.
	Document *AgentDocument
	// Problems contains the problems of the document. The caller of [ReadFolder] may add those of a Markdown file.
	Problems []Problem
}

// ReadFolder finds the agents in a folder: those in Markdown files, and the documents of kind Agent in .yaml and .yml
// files. Like sub-agents, Markdown agents may also be in a folder named after their parent's file; other folders are
// not read. markdown returns the name of the agent in a Markdown file, or false if there is none. ReadFolder skips
// files without an agent and documents that it cannot read. If only such a file could satisfy a reference, the error
// about the reference names the file.
func ReadFolder(fsys fs.FS, markdown func(file string) (name string, ok bool)) (*Folder, error) {
	f := &folder{fsys: fsys, markdown: markdown}
	if err := f.read(".", 0, true); err != nil {
		return nil, fmt.Errorf("agentgraph: %w", err)
	}
	return &f.Folder, nil
}

// Refs returns the names of the agents, with their versions if they have one, for [WithRefs].
func (f *Folder) Refs() []string {
	names := make([]string, len(f.Agents))
	for i, a := range f.Agents {
		names[i] = AgentDocument{Name: a.Name, Version: a.Version}.ref()
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Find returns the agent that a reference resolves to, by the rules of [ResolveDocuments]. The error is
// [ErrUnknownRef], or names the files of two agents with the same name and version.
func (f *Folder) Find(ref string) (*FolderAgent, error) {
	all := make([]refVersion, len(f.Agents))
	for i, a := range f.Agents {
		all[i] = refVersion{a.Name, a.Version}
	}
	found := pick(all, ref)
	if found < 0 {
		return nil, fmt.Errorf("%w %q: %s", ErrUnknownRef, ref, cmp.Or(f.almost(ref), "the folder holds no such agent"))
	}
	for i, a := range all {
		if i != found && a == all[found] {
			return nil, fmt.Errorf("two agents are called %q, in %s and in %s", ref, f.Agents[found].File, f.Agents[i].File)
		}
	}
	return &f.Agents[found], nil
}

// almost returns why a file that should contain the agent does not, or "".
func (f *Folder) almost(ref string) string {
	name := ref
	if at := strings.LastIndexByte(ref, '@'); at > 0 {
		name = ref[:at]
	}
	for _, bad := range f.invalid {
		if slices.Contains(bad.names, name) {
			return bad.why
		}
	}
	for _, a := range f.Agents {
		if a.Name == name {
			return fmt.Sprintf("%s has %s@%s", a.File, a.Name, a.Version)
		}
	}
	return ""
}

// check returns why a reference does not resolve to a valid agent, or "". known is false if the folder has neither the
// agent nor a reason.
func (f *Folder) check(ref string) (wrong string, known bool) {
	a, err := f.Find(ref)
	switch {
	case err == nil && len(a.Problems) == 0:
		return "", true
	case err == nil:
		return fmt.Sprintf("there is no agent %q: %s", visible.Cut(ref, 60), notValid(a.File, a.Problems)), true
	case !errors.Is(err, ErrUnknownRef):
		return err.Error(), true
	}
	why := f.almost(ref)
	return fmt.Sprintf("there is no agent %q: %s", visible.Cut(ref, 60), why), why != ""
}

func notValid(file string, problems []Problem) string {
	more := ""
	if n := len(problems) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Sprintf("%s is not valid: line %d: %s%s", file, problems[0].Line, problems[0].Message, more)
}

type folder struct {
	Folder
	fsys     fs.FS
	files    int
	markdown func(file string) (name string, ok bool)
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
			f.bad(file+" is not an agent: it does not begin with front matter between two lines ---", strings.TrimSuffix(e.Name(), ending))
			continue
		}
		f.Agents = append(f.Agents, FolderAgent{Name: name, File: file})
		below := strings.TrimSuffix(file, ending)
		if info, err := fs.Stat(f.fsys, below); err == nil && info.IsDir() && depth < maxFolderDepth {
			if err := f.read(below, depth+1, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *folder) bad(why string, names ...string) {
	f.invalid = append(f.invalid, invalidFile{names, why})
}

// documents adds the agents of a YAML file.
func (f *folder) documents(file string) {
	data, _ := confined.ReadIn(f.fsys, file, MaxFile+1)
	from := len(f.Agents)
	found := func(a AgentDocument) {
		if a.Name != "" {
			f.Agents = append(f.Agents, FolderAgent{Name: a.Name, Version: a.Version, File: file, Document: &a})
		}
	}
	// Problems of the rest of the file do not belong to its agents.
	var err error
	if bytes.Contains(data, []byte("Agent")) {
		_, err = Load(data, WithAnyRef(), WithFile(file), func(o *options) { o.seen = found })
	}
	var others []Problem
	for _, p := range Problems(err) {
		i := len(f.Agents) - 1
		for i >= from && (!strings.HasPrefix(p.Path, "documents[") || p.Line < f.Agents[i].Document.Line) {
			i--
		}
		if i >= from {
			f.Agents[i].Problems = append(f.Agents[i].Problems, p)
		} else if p.Message != agentsOnly {
			others = append(others, p)
		}
	}
	kind := yamldoc.KindOf(data)
	names := []string{strings.TrimSuffix(path.Base(file), path.Ext(file))}
	for _, m := range nameOf.Get().FindAllSubmatch(data, -1) {
		names = append(names, string(m[1]))
	}
	switch {
	case len(others) > 0 && (kind == kindAgent || kind == kindGraph):
		f.bad(notValid(file, others), names...)
	case kind == "":
		f.bad(file+" is not an agent: it does not say kind: Agent", names...)
	case kind != kindAgent:
		f.bad(fmt.Sprintf("%s is not an agent: its kind is %s, and not Agent", file, visible.Cut(kind, 60)), names...)
	}
}

var nameOf = lazyregexp.New(`metadata:[\s\S]{0,200}?\bname:[ \t]*["']?([^\s"',}#]+)`)
