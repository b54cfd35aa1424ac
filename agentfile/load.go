package agentfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
)

// Option configures [Load], [LoadFS], [Check] and [Resolver].
type Option func(*config)

type config struct {
	model    func(name string) (llm.Model, error)
	tools    []tools.Tool
	registry *tools.Registry
	given    []agent.Guard
	guards   map[string]agent.Guard
	mcp      func(MCPServer) (tools.Set, error) // nil if not built in
	getenv   func(name string) string
	anyEnv   bool // an unset variable is not a problem
	remotes  []a2a.Option
	changes  map[string]*change
}

// WithModel sets the function that returns the model with a name of the key model. The name "" stands for the default
// model. It is called once per name. Load requires this option; without it, Check does not check models.
func WithModel(resolve func(name string) (llm.Model, error)) Option {
	return func(c *config) { c.model = resolve }
}

// WithTools registers tools under their names. A tool with the name of a built-in one replaces it.
func WithTools(t ...tools.Tool) Option {
	return func(c *config) { c.tools = append(c.tools, t...) }
}

// WithGuards registers guards under their names, for the key guards.
func WithGuards(g ...agent.Guard) Option {
	return func(c *config) { c.given = append(c.given, g...) }
}

// WithGetenv sets the function that reads the environment variables that files name. It returns "" for an unset
// variable.
//
// Defaults to os.Getenv.
func WithGetenv(getenv func(name string) string) Option {
	return func(c *config) { c.getenv = getenv }
}

// WithoutCredentials accepts unset environment variables, for programs that only inspect a tree. An agent that needs
// such a variable is made without it, and must not be run.
func WithoutCredentials() Option { return func(c *config) { c.anyEnv = true } }

// WithRemoteOptions passes these options to all remote agents, such as further transports. The options from a file come
// after them.
func WithRemoteOptions(opts ...a2a.Option) Option {
	return func(c *config) { c.remotes = append(c.remotes, opts...) }
}

// Change overrides parts of an agent's file. A nil field keeps the value of the file.
type Change struct{ Description, Instructions, Model *string }

// change is a Change with the information whether it was applied.
type change struct {
	Change
	made bool
}

// WithChange changes an agent of the loaded tree without writing its file. Load returns an error if no file of the
// folder describes the agent, or if the change sets instructions or a model of an agent without a model.
func WithChange(agent string, c Change) Option {
	return func(conf *config) {
		if conf.changes == nil {
			conf.changes = make(map[string]*change)
		}
		conf.changes[agent] = &change{Change: c}
	}
}

// change applies the Change of an agent.
func (c *config) change(d *definition) {
	to := c.changes[d.name]
	if to == nil || (to.Instructions != nil || to.Model != nil) && !d.hasModel() {
		return
	}
	to.made = true
	for field, value := range map[*string]*string{&d.description: to.Description, &d.body: to.Instructions, &d.model: to.Model} {
		if value != nil {
			*field = *value
		}
	}
	d.body = bodyText(d.body)
}

// changed returns an error if a change was not applied.
func (c *config) changed() error {
	for name, to := range c.changes {
		if !to.made {
			return fmt.Errorf("agentfile: no file describes an agent %.64q that can be changed like this", name)
		}
	}
	return nil
}

// Tree is a tree of agents that was loaded from files. It is immutable, except for [Tree.Close].
type Tree struct {
	index   *agent.Tree
	sources map[string]Source
	closers []func() error
	given   func(file string) string // see report
	made    []madeAgent
}

// madeAgent is an agent with a model and the definition in its file.
type madeAgent struct {
	of *llmagent.Agent
	by *definition
}

// Connect starts the MCP servers that the files name. It returns the problems of the servers, of their tools, and of
// the rules about these tools. A server that cannot be reached is a problem.
func (t *Tree) Connect(ctx context.Context) []Problem {
	r := &report{given: t.given}
	for _, m := range t.made {
		var names []string
		for _, own := range m.of.Tools() {
			names = append(names, own.Info().Name)
		}
		for i, s := range m.of.Toolsets() {
			has, err := s.Tools(ctx)
			if names = append(names, has.Names()...); err != nil {
				r.add(m.by.file, m.by.mcp[i].at, "%s", err)
			}
		}
		if n := t.index.Node(m.of.Name()); n != nil {
			if wrong := m.of.TooManyTools(n, len(names)); wrong != nil {
				r.add(m.by.file, m.by.pos(), "%s", wrong)
			}
		}
		wrong, unknown := m.of.Mistakes(ctx, nil)
		for _, w := range wrong {
			if unknown == nil || !w.Open {
				m.by.mistake(r, w, names)
			}
		}
	}
	var all *Error
	if errors.As(r.err(), &all) {
		return all.Problems
	}
	return nil
}

// Source is the place in a file where an agent comes from.
type Source struct {
	File string // begins with the path that was passed to Load
	Line int    // the line of the name, or 1 if the file name is the agent's name
}

// Root returns the root agent, for a runner.
func (t *Tree) Root() agent.Agent { return t.index.Root().Agent }

// Index returns the tree of the agents.
func (t *Tree) Index() *agent.Tree { return t.index }

// Close stops what Load started only for the tree's agents, such as the processes of their tools. The caller of Load
// must call it when no turn of the tree runs any more. What the options contain, such as the tools of [WithTools],
// stays open.
func (t *Tree) Close() error {
	var errs []error
	for _, c := range slices.Backward(t.closers) {
		errs = append(errs, c())
	}
	t.closers = nil
	return errors.Join(errs...)
}

// Source returns where an agent comes from, or false for an unknown name.
func (t *Tree) Source(name string) (Source, bool) {
	s, ok := t.sources[name]
	return s, ok
}

// Load loads the tree of agents from the folder at path, or the graph of agents from the file at path, which ends in
// .yaml or .yml. A folder without Markdown agents may also contain a single graph. The error is an [*Error] with all
// problems of the files, or an error of an option or the default model. Load calls only functions that options set and
// fetches nothing. It reads no file outside of the folder, whatever a link or a path in a file says.
func Load(path string, opts ...Option) (*Tree, error) {
	l, err := open(path, opts)
	if err != nil {
		return nil, err
	}
	return l.load()
}

// LoadFS is like [Load] for a folder of a file system, such as an embed.FS. dir is "." for the whole file system, and
// may be the path of a graph.
func LoadFS(fsys fs.FS, dir string, opts ...Option) (*Tree, error) {
	l, err := openFS(fsys, dir, opts)
	if err != nil {
		return nil, err
	}
	return l.load()
}

// Check returns every problem of the folder or graph at path, sorted by file and line, or none if Load would succeed.
// The error is about the options or the default model, not about a file.
func Check(path string, opts ...Option) ([]Problem, error) {
	l, err := open(path, opts)
	if err != nil {
		return nil, err
	}
	return result(l.checkAndClose())
}

// checkAndClose runs all checks and closes what they opened.
func (l *loader) checkAndClose() error {
	err := l.check()
	if closing := (&Tree{closers: l.closers}).Close(); err == nil {
		err = closing
	}
	return err
}

func result(err error) ([]Problem, error) {
	var files *Error
	if errors.As(err, &files) {
		return files.Problems, nil
	}
	return nil, err
}

// loader is one run of Load or Check, or the state of a Resolver.
type loader struct {
	modelCache
	sourceCache
	file    string // the graph file that is the tree, in dir; "" for a folder of Markdown
	root    *definition
	graphs  map[string]*graphFile
	folders map[string]*agentFolder
	listed  map[string]*definition // graphs in lists of sub-agents
	closers []func() error         // close what was opened for the tree
	made    []madeAgent
	people  bool // an agent may hand off to a person
}

// modelCache resolves the models that agents name, each once.
type modelCache struct {
	config
	models   map[string]llm.Model
	failed   map[string]error
	chains   map[string]llm.Model // models with fallbacks, by their names
	tolerant bool                 // a missing default model is reported at the end
}

// sourceCache reads the files of the tree's folder, each once.
type sourceCache struct {
	fsys    fs.FS
	dir     string // the folder of the tree, in fsys
	report  report
	sources map[string]*source
}

func open(dir string, opts []Option) (*loader, error) {
	if dir == "" {
		return nil, errors.New("agentfile: the path is empty")
	}
	info, err := os.Stat(dir)
	file, folder := "", dir
	if err == nil && !info.IsDir() || isYAML(dir) && errors.Is(err, fs.ErrNotExist) {
		folder, file = filepath.Split(dir)
		folder = filepath.Clean(folder)
	}
	// A graph's folder is that of the link's target.
	if linked, err := filepath.EvalSymlinks(dir); err == nil && file != "" && info != nil && info.Mode().IsRegular() {
		folder, file = filepath.Dir(linked), filepath.Base(linked)
	}
	given := func(rel string) string { return filepath.Join(folder, filepath.FromSlash(rel)) }
	return newLoader(confined.Folder(folder), ".", file, given, opts)
}

func openFS(fsys fs.FS, dir string, opts []Option) (*loader, error) {
	if fsys == nil {
		return nil, errors.New("agentfile: the file system is nil")
	}
	dir = path.Clean(dir)
	info, err := fs.Stat(fsys, dir)
	file := ""
	if err == nil && !info.IsDir() || isYAML(dir) && errors.Is(err, fs.ErrNotExist) {
		dir, file = path.Dir(dir), path.Base(dir)
	}
	return newLoader(fsys, dir, file, func(rel string) string { return path.Join(dir, rel) }, opts)
}

func newLoader(fsys fs.FS, dir, file string, given func(string) string, opts []Option) (*loader, error) {
	l := &loader{
		modelCache:  modelCache{models: map[string]llm.Model{}, failed: map[string]error{}, chains: map[string]llm.Model{}},
		sourceCache: sourceCache{fsys: fsys, dir: dir, report: report{given: given}, sources: map[string]*source{}},
		file:        file,
		graphs:      map[string]*graphFile{}, folders: map[string]*agentFolder{}, listed: map[string]*definition{},
	}
	if err := option.Apply(&l.config, opts); err != nil {
		return nil, fmt.Errorf("agentfile: %w", err)
	}
	if l.getenv == nil {
		l.getenv = os.Getenv
	}
	for i, t := range l.tools {
		if t == nil {
			return nil, fmt.Errorf("agentfile: tool %d is nil", i)
		}
	}
	l.guards = make(map[string]agent.Guard, len(l.given))
	for i, g := range l.given {
		if _, present := l.guards[g.Name]; present || g.Name == "" {
			return nil, fmt.Errorf("agentfile: guard %d has the name %q: each needs a name of its own", i, g.Name)
		}
		l.guards[g.Name] = g
	}
	var err error
	if l.registry, err = tools.NewRegistry(l.tools...); err != nil {
		return nil, fmt.Errorf("agentfile: %w", err)
	}
	return l, nil
}

// check reads and checks all files.
func (l *loader) check() error {
	l.tolerant = true
	info, err := fs.Stat(l.fsys, path.Join(l.dir, l.file))
	switch {
	case err == nil && info.IsDir():
		l.checkFiles()
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		l.report.add(l.file, pos{}, "it cannot be read: %s", confined.Reason(err))
	case err != nil && l.file != "":
		l.report.add(l.file, pos{}, "there is no such file")
	case isYAML(l.file):
		if l.kind(l.file) == "Router" {
			l.checkRouterFile(l.file)
			break
		}
		l.checkGraph(l.file)
	case err == nil:
		l.report.add(l.file, pos{}, "this is a file: give the folder that holds the agents, or a router or a graph of agents, whose file ends in .yaml or .yml")
	default:
		l.report.add(".", pos{}, "there is no such folder")
	}
	if err := l.report.err(); err != nil {
		return err
	}
	if err := l.failed[""]; err != nil {
		return fmt.Errorf("the default model: %w", err)
	}
	return nil
}

// checkGraph makes the graph in a file the tree.
func (l *loader) checkGraph(file string) {
	g := l.graphAt(&l.report, file, file, pos{})
	if g.graph == nil {
		return
	}
	l.root = &definition{file: file, name: g.name, isGraph: true, graph: file}
}

func (l *loader) checkFiles() {
	r := &reader{loader: l}
	if r.folder(l.dir, ".", 0) != nil {
		return
	}
	if len(r.defs) == 0 && len(l.report.problems) == 0 {
		l.noMarkdown(r)
		return
	}
	r.unlisted(r.defs)
	defs := r.defs
	for i := 0; i < len(defs); i++ {
		d := defs[i]
		if d.isGraph && i < len(r.defs) { // before shape: a graph's agents are not part of the tree
			l.checkDefinition(&l.report, d)
		}
		for _, g := range l.listGraphs(&l.report, d) {
			if !slices.Contains(defs, g) {
				defs = append(defs, g)
				if s := l.sources[g.file]; s != nil {
					l.report.problems = append(l.report.problems, s.problems...)
				}
			}
		}
	}
	l.root = shape(&l.report, defs, func() []string { return l.graphsOf(r.yaml) })
	for _, d := range defs {
		l.checkDefinition(&l.report, d)
		l.checkProperties(&l.report, d, l.root == nil || d == l.root)
	}
}

// noMarkdown looks for a graph in a folder without Markdown agents.
func (l *loader) noMarkdown(r *reader) {
	graphs := l.graphsOf(r.yaml)
	switch {
	case len(graphs) == 1:
		l.checkGraph(graphs[0])
	case len(graphs) > 1:
		l.report.add(".", pos{}, "the folder holds %d graphs of agents: give the path of one file, such as %s", len(graphs), l.report.given(graphs[0]))
	default:
		r.unlisted(nil)
		l.report.add(".", pos{}, "there are no agents: an agent is a file NAME.md that begins with front matter between two lines ---")
	}
}
