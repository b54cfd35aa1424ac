package agentfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
)

// Option configures Load, LoadFS and Check.
type Option func(*config)

type config struct {
	model    func(name string) (llm.Model, error)
	tools    []tools.Tool
	registry *tools.Registry
}

// WithModel says how a name in the key model becomes a model; "" asks for the
// default model. It is called once for each name. Load needs it; without it,
// Check looks at no model.
func WithModel(resolve func(name string) (llm.Model, error)) Option {
	return func(c *config) { c.model = resolve }
}

// WithTools makes tools available under their names. A tool with the name of a
// built-in one takes its place.
func WithTools(t ...tools.Tool) Option {
	return func(c *config) { c.tools = append(c.tools, t...) }
}

// Tree is a tree of agents that was loaded from files. It is immutable.
type Tree struct {
	index   *agent.Tree
	sources map[string]Source
}

// Source says which file an agent comes from.
type Source struct {
	File string // begins with the path that was given to Load
	Line int    // of its name, or 1 if the name is the file's
}

// Root returns the root agent, which is what a runner takes.
func (t *Tree) Root() agent.Agent { return t.index.Root().Agent }

// Index returns the agents in their places.
func (t *Tree) Index() *agent.Tree { return t.index }

// Source returns where an agent comes from; it is false for an unknown name.
func (t *Tree) Source(name string) (Source, bool) {
	s, ok := t.sources[name]
	return s, ok
}

// Load makes the tree of agents that the folder at path describes. The error is
// an [*Error] with all problems of the files, or what is wrong with an option or
// the default model. Nothing is called but the function of WithModel.
func Load(path string, opts ...Option) (*Tree, error) {
	l, err := open(path, opts)
	if err != nil {
		return nil, err
	}
	return l.load()
}

// LoadFS is Load for a folder of a file system, such as an embed.FS. dir is
// "." for all of it.
func LoadFS(fsys fs.FS, dir string, opts ...Option) (*Tree, error) {
	l, err := openFS(fsys, dir, opts)
	if err != nil {
		return nil, err
	}
	return l.load()
}

// Check returns every problem of the folder at path, sorted by file and line,
// and none if Load would succeed. The error is about the options or the default
// model, not about a file.
func Check(path string, opts ...Option) ([]Problem, error) {
	l, err := open(path, opts)
	if err != nil {
		return nil, err
	}
	return result(l.check())
}

// CheckFS is Check for a folder of a file system.
func CheckFS(fsys fs.FS, dir string, opts ...Option) ([]Problem, error) {
	l, err := openFS(fsys, dir, opts)
	if err != nil {
		return nil, err
	}
	return result(l.check())
}

func result(err error) ([]Problem, error) {
	var files *Error
	if errors.As(err, &files) {
		return files.Problems, nil
	}
	return nil, err
}

// loader is one run of Load or Check.
type loader struct {
	config
	fsys   fs.FS
	dir    string // in fsys
	report report
	root   *definition
	models map[string]llm.Model
	failed map[string]error
}

func open(dir string, opts []Option) (*loader, error) {
	if dir == "" {
		return nil, errors.New("agentfile: the path is empty")
	}
	given := func(rel string) string { return filepath.Join(dir, filepath.FromSlash(rel)) }
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return newLoader(os.DirFS(filepath.Dir(dir)), filepath.Base(dir), given, opts) // check says that it is a file
	}
	return newLoader(os.DirFS(dir), ".", given, opts)
}

func openFS(fsys fs.FS, dir string, opts []Option) (*loader, error) {
	if fsys == nil {
		return nil, errors.New("agentfile: the file system is nil")
	}
	dir = path.Clean(dir)
	return newLoader(fsys, dir, func(rel string) string { return path.Join(dir, rel) }, opts)
}

func newLoader(fsys fs.FS, dir string, given func(string) string, opts []Option) (*loader, error) {
	l := &loader{fsys: fsys, dir: dir, report: report{given: given}, models: map[string]llm.Model{}, failed: map[string]error{}}
	for _, o := range opts {
		o(&l.config)
	}
	for i, t := range l.tools {
		if t == nil {
			return nil, fmt.Errorf("agentfile: tool %d is nil", i)
		}
	}
	var err error
	if l.registry, err = tools.NewRegistry(l.tools...); err != nil {
		return nil, fmt.Errorf("agentfile: %w", err)
	}
	return l, nil
}

// check reads all files and reports what is wrong with them.
func (l *loader) check() error {
	info, err := fs.Stat(l.fsys, l.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.report.add(".", pos{}, "there is no such folder")
	case err == nil && info.IsDir():
		l.checkFiles()
	case err == nil:
		l.report.add(".", pos{}, "this is a file: give the folder that holds the agents")
	default:
		l.report.add(".", pos{}, "the folder cannot be read: %s", cause(err))
	}
	if err := l.report.err(); err != nil {
		return err
	}
	if err := l.failed[""]; err != nil {
		return fmt.Errorf("the default model: %w", err)
	}
	return nil
}

func (l *loader) checkFiles() {
	r := &reader{fsys: l.fsys, report: &l.report}
	if r.folder(l.dir, ".", 0) != nil {
		return
	}
	if len(r.defs) == 0 && len(l.report.problems) == 0 {
		hint := ""
		if len(r.plain) > 0 {
			hint = fmt.Sprintf("; %s has none", l.report.given(r.plain[0]))
		}
		l.report.add(".", pos{}, "there are no agents: an agent is a file NAME.md that begins with front matter between two lines ---%s", hint)
		return
	}
	l.root = shape(&l.report, r.defs)
	for _, d := range r.defs {
		if !d.broken {
			l.checkTools(d)
			l.checkModel(d)
		}
	}
}
