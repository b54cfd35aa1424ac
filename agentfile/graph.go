package agentfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/llm"
)

// graphFile is a graph's file, read and checked once.
type graphFile struct {
	file    string            // relative to the folder of the tree
	graph   *agentgraph.Graph // nil if no agent can be made from the file
	agents  *agentFolder      // in the same folder
	resolve agentgraph.Resolver
	name    string // the graph's agent name, unless a front matter sets another
	open    bool   // its agents are being checked
	report  report
}

// graphAt reads and checks the graph that another file names at a place, and reports its problems.
func (l *loader) graphAt(r *report, file, from string, at pos) *graphFile {
	g := l.graphs[file]
	switch {
	case g == nil:
		g = &graphFile{file: file, report: report{given: l.report.given}, open: true}
		l.graphs[file] = g
		if problem := l.readGraph(g); problem != "" {
			delete(l.graphs, file) // report it at each place that names the file
			r.add(from, at, "%s", problem)
			return g
		}
		if g.graph != nil {
			l.checkNodes(g)
			g.checkAgent()
		}
		g.open = false
	case g.open:
		r.add(from, at, "the graph in %s contains itself: this agent is one of its agents, or a sub-agent of one", l.report.given(file))
		return g
	}
	r.problems = append(r.problems, g.report.problems...)
	return g
}

// readGraph loads a graph's file. It returns what is wrong with the path.
func (l *loader) readGraph(g *graphFile) (problem string) {
	data, err := l.read(g.file, agentgraph.MaxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("there is no file %s%s", l.report.given(g.file), nearest.Hint(path.Base(g.file), l.yamlFiles(path.Dir(g.file))))
	case err != nil:
		return fmt.Sprintf("%s cannot be read: %s", l.report.given(g.file), err)
	}
	if g.agents, err = l.agentsIn(path.Dir(g.file)); err != nil {
		return fmt.Sprintf("the agents in the folder of %s cannot be read: %s", l.report.given(g.file), confined.Reason(err))
	}
	loaded, err := agentgraph.Load(data, agentgraph.WithFS(l.fsys, path.Join(l.dir, g.file)), agentgraph.WithRefs(append(g.agents.list.Refs(), ToolRefs(l.tools...)...)...), agentgraph.WithFolder(g.agents.list))
	for _, p := range agentgraph.Problems(err) {
		file := g.file
		if p.File != "" {
			file = path.Join(path.Dir(file), p.File)
		}
		text := p.String()
		if p.Code == agentgraph.CodeWrongKind && p.Path == "kind" {
			text += "; a router has kind: Router"
		}
		g.report.add(file, pos{p.Line, 0}, "%s", text)
	}
	if err != nil {
		return ""
	}
	g.graph = loaded
	g.resolve = agentgraph.Resolvers(withoutMCP(agentgraph.ResolveDocuments(loaded.Agents, l.modelOf, l.tools...)), g.agents.resolve)
	return ""
}

// yamlFiles returns the names of the YAML files in a folder.
func (l *sourceCache) yamlFiles(dir string) (names []string) {
	entries, _ := fs.ReadDir(l.fsys, path.Join(l.dir, dir)) // used only for hints
	for _, e := range entries {
		if isYAML(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

// checkNodes makes the agent of every node, and reports the nodes that fail.
func (l *loader) checkNodes(g *graphFile) {
	plain := map[string]bool{} // references that need no second check without a configuration
	var check func(graph *agentgraph.Graph, path string, line int)
	check = func(graph *agentgraph.Graph, path string, line int) {
		for _, n := range graph.Nodes {
			at := line
			if at == 0 {
				at = n.Line
			}
			if n.Graph != nil { // its lines may belong to another file
				check(n.Graph, path+n.ID+"/", at)
			}
			bare := len(n.Config) == 0 && n.Tool == ""
			if n.Ref == "" || bare && plain[n.Ref] {
				continue
			}
			plain[n.Ref] = plain[n.Ref] || bare
			if _, err := n.Resolve(g.resolve); err != nil {
				g.reportNode(path+n.ID, at, err)
			}
		}
	}
	check(g.graph, "", 0)
}

// reportNode reports why a node has no agent, in the file with the fault.
func (g *graphFile) reportNode(node string, line int, err error) {
	var (
		files    *Error
		document *agentgraph.DocumentError
		config   *agentgraph.ConfigError
	)
	switch {
	case errors.As(err, &files):
		g.report.problems = append(g.report.problems, files.Problems...)
	case errors.As(err, &document):
		message := fmt.Sprintf("the agent %q: %s", document.Agent, document.Err)
		if document.File != "" {
			g.report.problems = append(g.report.problems, Problem{File: document.File, Line: document.Line, Message: message})
			return
		}
		if !slices.ContainsFunc(g.agents.list.Agents, func(a agentgraph.FolderAgent) bool {
			return a.Document != nil && a.File == path.Base(g.file) && a.Document.Line == document.Line && strings.HasPrefix(document.Agent, a.Name)
		}) { // the document is in the file of an inner graph
			g.report.add(g.file, pos{line, 0}, "the node %q: %s", node, message)
			return
		}
		g.report.add(g.file, pos{document.Line, 0}, "%s", message)
	case errors.As(err, &config):
		g.report.add(g.file, pos{line, 0}, "the node %q: %s", node, config)
	default:
		g.report.add(g.file, pos{line, 0}, "the node %q: %s", node, err)
	}
}

// checkAgent makes the agent of a graph whose nodes are valid, to find the remaining problems.
func (g *graphFile) checkAgent() {
	if len(g.report.problems) == 0 {
		a, err := agentgraph.New(g.graph, g.resolve)
		if err == nil {
			g.name = a.Name()
			return
		}
		g.report.add(g.file, pos{1, 0}, "%s", err)
	}
	g.graph = nil
}

// agent makes the graph's agent. Name and description default to those of the graph.
func (g *graphFile) agent(d *definition) (agent.Agent, error) {
	opts := []agentgraph.AgentOption{agentgraph.WithName(d.name)}
	if d.description != "" {
		opts = append(opts, agentgraph.WithDescription(d.description))
	}
	return agentgraph.New(g.graph, g.resolve, opts...)
}

// listGraphs returns the entries of an agent's sub-agents that are not agents of the folder by name: the files of
// graphs and routers, and specialists without a file.
func (l *loader) listGraphs(r *report, d *definition) (graphs []*definition) {
	for i := range d.subagents {
		item := &d.subagents[i]
		if item.def != nil && item.special {
			graphs = append(graphs, item.def)
		}
		name := item.value
		for _, ending := range []string{".yaml", ".yml"} {
			if d.router != nil && item.def == nil && l.kind(path.Join(path.Dir(d.file), name+ending)) == "AgentGraph" {
				name += ending
			}
		}
		if d.leaf() || item.def != nil && item.special || !isYAML(name) {
			continue
		}
		file, problem := within(d.file, name)
		if problem != "" {
			r.add(d.file, item.at, "%s", problem)
			item.unusable, d.incomplete = true, true
			continue
		}
		if l.kind(file) == "Router" {
			item.def = l.source(file).d
			graphs = append(graphs, item.def)
			continue
		}
		g := l.graphAt(r, file, d.file, item.at)
		if g.graph == nil {
			item.unusable, d.incomplete = true, true
			continue
		}
		if l.listed[file] == nil {
			l.listed[file] = &definition{file: file, name: g.name, isGraph: true, graph: file,
				at: map[string]pos{"name": {1, 0}}}
		}
		item.def = l.listed[file]
		graphs = append(graphs, l.listed[file])
	}
	return graphs
}

// kind returns the kind that a YAML file declares, or "". It does not parse the file.
func (l *sourceCache) kind(file string) string {
	data, _ := l.read(file, agentgraph.MaxFile)
	return yamldoc.KindOf(data)
}

// graphsOf returns the files that declare a graph.
func (l *sourceCache) graphsOf(files []string) (graphs []string) {
	for _, file := range files {
		if l.kind(file) == "AgentGraph" {
			graphs = append(graphs, file)
		}
	}
	return graphs
}

// graphPath reads the key graph.
func (p *parser) graphPath(k *yamldoc.Key, n yamldoc.Node) {
	p.d.isGraph = true
	v, ok := p.String(k, n)
	if !ok {
		return
	}
	file, problem := within(p.d.file, v)
	if problem != "" {
		p.Add(n, "graph %s", problem)
		return
	}
	p.d.graph = file
}

// within resolves a path in a file relative to the tree's folder, or returns what is wrong with it.
func within(file, name string) (rel, problem string) {
	switch rel = path.Join(path.Dir(file), name); {
	case strings.Contains(name, `\`):
		return "", strconv.Quote(name) + ": write a path with slashes"
	case path.IsAbs(name), !fs.ValidPath(rel), rel == ".":
		return "", strconv.Quote(name) + " leads out of the folder of the agents: the path begins in the folder of this file, and stays below that of the tree"
	}
	return rel, ""
}

// graphOnly reports keys that are not allowed with the key graph.
func graphOnly(p *parser) {
	if !p.d.isGraph {
		return
	}
	p.only("graph", "the agents of the graph have their own", "name", "description", "guards", "budgets", "ignore", "graph")
	p.noBody("graph", "the key graph on line %d says what the agent is, and a graph has no system prompt")
}

// only reports the keys that do not go with the key that sets the kind of agent.
func (p *parser) only(key, why string, with ...string) {
	for _, k := range p.Top {
		if at, present := p.keys[k.Name]; present && !slices.Contains(with, k.Name) {
			p.add(at, "the key %q does not go with %s: %s", k.Name, key, why)
		}
	}
}

// noBody reports a body next to a key that sets the kind of agent. why is the message, with a verb for the line of the
// key.
func (p *parser) noBody(key, why string) {
	if p.d.body != "" {
		p.add(p.d.bodyAt, "the body must be empty: "+why, p.keys[key].line)
	}
}

// responseFormat reads a JSON schema and keeps the order of its keys.
func (p *parser) responseFormat(k *yamldoc.Key, n yamldoc.Node) {
	if n.Kind() != yamldoc.Mapping {
		p.WrongType(k, n)
		return
	}
	before := p.Problems
	var b bytes.Buffer
	p.json(&b, n)
	if p.Problems > before {
		return
	}
	if err := schema.Check(b.Bytes()); err != nil {
		p.Add(n, "%s must be a JSON schema: %s", p.Name, err)
		return
	}
	p.d.settings.ResponseFormat = &llm.ResponseFormat{Schema: b.Bytes()}
}

// json writes a value as JSON.
func (p *parser) json(b *bytes.Buffer, n yamldoc.Node) {
	switch n.Kind() {
	case yamldoc.Mapping:
		before := byte('{')
		p.Each(n, func(name string, pair yamldoc.Pair) {
			b.WriteByte(before)
			before = ','
			data, _ := json.Marshal(name) // a string never fails
			b.Write(data)
			b.WriteByte(':')
			p.json(b, pair.Value)
		})
		if before == '{' {
			b.WriteByte(before)
		}
		b.WriteByte('}')
	case yamldoc.List:
		b.WriteByte('[')
		for i := range n.Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			p.json(b, n.Item(i))
		}
		b.WriteByte(']')
	default:
		v, wrong := n.Scalar()
		if wrong != "" { // an infinite number or NaN
			p.Add(n, "%s holds %s, which JSON does not have", p.Name, n.Quote())
			return
		}
		if _, isText := v.(string); isText {
			v, _ = n.Trimmed()
		}
		data, _ := json.Marshal(v) // a scalar never fails
		b.Write(data)
	}
}
