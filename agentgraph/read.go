package agentgraph

import (
	"fmt"
	"math"
	"strings"

	"github.com/agentarbor/arbor/internal/expression"
	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// APIVersion is the version of the format that this package implements.
const APIVersion = "ossa.ai/v0.2.7"

// APIVersionArbor is that version with the extensions of this project: loops, graphs
// within graphs, routing at run time, shared state, and times, retries and approvals
// of single nodes.
const APIVersionArbor = "arbor/v1"

const (
	kindGraph = "AgentGraph"
	kindAgent = "Agent"
)

// reader reads the documents of one file.
type reader struct {
	valueReader
	depth  int // of the file's graph in others
	files  *files
	arbor  bool   // the graph is one of arbor/v1
	top    *draft // the file's graph
	drafts []*draft
	agents []AgentDocument
}

// draft is a graph that is being read: that of a document, or one in place of an
// agent.
type draft struct {
	graph *Graph
	base  string // the path of its spec
	depth int    // 1 for the graph's own document
	// The lines of the parts of nodes and of edges.
	nodeLines []nodeLines
	edgeLines [][2]int // from, to
	state     expression.Language
	keys      map[string]bool // of the state
	compiled  map[source]*compiled
	// nested is the depth of the graphs within it, and size the number of its nodes,
	// those of graphs within it included.
	nested, size int
}

type nodeLines struct{ id, ref, next, tool int }

func (d *draft) path(name string) string { return d.base + "." + name }

// wanted is what an expression is for.
type wanted int

const (
	condition wanted = iota // true or false
	transform               // any value
	choice                  // ids
)

// source is a text to compile, and what as.
type source struct {
	text string
	want wanted
}

type compiled struct {
	expression *Expression
	err        *expression.CompileError
}

// document reads the graph's own document, or an agent's.
func (r *reader) document(n yamldoc.Node, number int, seen *int) {
	r.prefix = ""
	r.anchorsOf(n)
	var f [4]field
	if r.resolve(n).Kind() != yamldoc.Mapping {
		r.add(CodeWrongKind, "", n.Line(), "a document must be a mapping with apiVersion, kind, metadata and spec, not %s", r.resolve(n).Describe())
		return
	}
	kind, line := r.kind(n)
	other := fmt.Sprintf("documents[%d].", number)
	switch {
	case kind == kindAgent:
		r.prefix = other
		r.agentDocument(n)
		r.prefix = ""
	case kind != kindGraph:
		message := fmt.Sprintf("the kind must be AgentGraph, not %q%s", yamldoc.Short(kind), r.didYouMean(kind, []string{kindGraph, kindAgent}))
		if kind == "" {
			message = "the document does not say kind: AgentGraph"
		}
		r.add(CodeWrongKind, "kind", line, "%s", message)
		*seen++
	case r.top != nil:
		r.prefix = other
		r.add(CodeWrongKind, "kind", line, "a file holds one AgentGraph, and this is another one")
		r.prefix = ""
	default:
		r.top = &draft{graph: &Graph{sound: true}, base: "spec", depth: r.depth + 1}
		*seen++
		r.fields(n, "", &documentKeys, f[:], nil)
		r.apiVersion(f[0], n.Line())
		r.metadata(f[2], n.Line())
		if !f[3].there() || isNull(f[3].value) {
			r.add(CodeMissingField, "spec", n.Line(), "spec is missing: it holds agents, edges and entrypoint")
			return
		}
		r.spec(r.top, f[3])
	}
}

// kind looks for the kind before anything else is read.
func (r *reader) kind(n yamldoc.Node) (string, int) {
	doc := r.resolve(n)
	for i := range doc.Len() {
		p := doc.Pair(i)
		if k, _ := p.Key.Word(); k == "kind" {
			v := r.resolve(p.Value)
			if s, ok := v.Text(); ok {
				return strings.TrimSpace(s), p.Key.Line()
			}
			if isNull(v) {
				return "", p.Key.Line()
			}
			return v.Describe(), p.Key.Line()
		}
	}
	return "", n.Line()
}

var (
	apiVersion = lazyregexp.New(`^ossa\.ai/v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$`)
	// The expression of semver.org.
	semVer = lazyregexp.New(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`)
)

func (r *reader) apiVersion(f field, line int) {
	v, ok := r.required(f, "apiVersion", line, CodeWrongAPIVersion)
	if !ok {
		return
	}
	r.top.graph.APIVersion = v
	m := apiVersion.FindStringSubmatch(v)
	group, _, _ := strings.Cut(v, "/")
	r.arbor = group == "arbor"
	switch {
	case v == APIVersion, v == APIVersionArbor:
	case r.arbor:
		r.add(CodeWrongAPIVersion, "apiVersion", f.line(), "apiVersion %q is not known: %s is", yamldoc.Short(v), APIVersionArbor)
	case m == nil && group == "ossa.ai":
		r.add(CodeWrongAPIVersion, "apiVersion", f.line(), "apiVersion must be such as %s, not %q", APIVersion, yamldoc.Short(v))
	case m == nil:
		r.add(CodeWrongAPIVersion, "apiVersion", f.line(), "apiVersion must be %s, not %q: only resources of ossa.ai are read, and those of %s", APIVersion, yamldoc.Short(v), APIVersionArbor)
	case m[1] == "0" && m[2] == "2":
		r.warnings = append(r.warnings, r.problem(CodeWrongAPIVersion, "apiVersion", f.line(), "%s is read as %s, which may differ", v, APIVersion))
	default:
		r.add(CodeWrongAPIVersion, "apiVersion", f.line(), "apiVersion %s is not known: %s is, and other versions 0.2", v, APIVersion)
	}
}

func (r *reader) metadata(f field, line int) {
	if !f.there() || isNull(f.value) {
		r.add(CodeMissingField, "metadata", line, "metadata is missing: it holds name and version")
		return
	}
	var v [5]field
	other := map[string]any{}
	if !r.object(f, "metadata", &metadataKeys, v[:], other) {
		return
	}
	line = f.key.Line()
	g := r.top.graph
	g.Name, _ = r.required(v[0], "metadata.name", line, CodeYAML)
	g.Version = r.version(v[1], line)
	g.Description = r.free(v[2], "metadata.description")
	for i, name := range []string{"labels", "annotations"} {
		if m := r.mapping(v[3+i], "metadata."+name); m != nil {
			other[name] = m
		}
	}
	if len(other) > 0 {
		g.Metadata = other
	}
}

func (r *reader) version(f field, line int) string {
	const path = "metadata.version"
	if _, number := f.value.Number(); number {
		r.add(CodeBadVersion, path, f.line(), `YAML reads %s as a number: a version has three parts, such as 1.0.0, and quotes make a text of anything, "1.0.0"`, f.value.Written())
		return ""
	}
	v, ok := r.required(f, path, line, CodeBadVersion)
	if ok && !semVer.MatchString(v) {
		hint := ""
		if strings.HasPrefix(v, "v") && semVer.MatchString(v[1:]) {
			hint = ": without the v in front, " + v[1:]
		}
		r.add(CodeBadVersion, path, f.line(), "the version must be such as 1.0.0 or 1.0.0-rc.1 (semver.org), not %q%s", yamldoc.Short(v), hint)
	}
	return v
}

// choose returns the table of the graph's version.
func (r *reader) choose(ossa, arbor *table) *table {
	if r.arbor {
		return arbor
	}
	return ossa
}

// spec reads a graph's agents, edges and the rest, and checks them.
func (r *reader) spec(d *draft, f field) {
	table := r.choose(&specKeys, &arborSpecKeys)
	var v [5]field
	if !r.object(f, d.base, table, v[:len(table.keys)], nil) {
		return
	}
	r.drafts = append(r.drafts, d)
	d.compiled = map[source]*compiled{}
	line := f.key.Line()
	if r.arbor {
		r.state(d, v[4])
	}
	c := checker{reader: r, draft: d}
	r.nodes(&c, v[0], line)
	r.edges(&c, v[1])
	c.entrypoint = v[2]
	d.graph.Entrypoint, _ = r.required(v[2], d.path("entrypoint"), line, CodeUnknownEntrypoint)
	r.errorHandling(&c, v[3])
	c.check()
}

func (r *reader) nodes(c *checker, f field, line int) {
	path := c.path("agents")
	items := r.list(f, path)
	if items.Len() == 0 {
		if items.Kind() == yamldoc.List || !f.there() || isNull(f.value) {
			r.add(CodeMissingField, path, line, "a graph has at least one agent")
		}
		return
	}
	table := r.choose(&agentKeys, &arborAgentKeys)
	c.graph.Nodes = make([]Node, 0, items.Len())
	for i := range items.Len() {
		n := items.Item(i)
		if !r.count() {
			c.unsure = true
			return
		}
		at := index(path, i)
		var v [16]field
		if !r.fields(n, at, table, v[:len(table.keys)], nil) {
			r.add(CodeYAML, at, n.Line(), "an agent must be a mapping with id and agentRef, not %s", r.resolve(n).Describe())
			c.unsure = true
			c.graph.Nodes = append(c.graph.Nodes, Node{Line: n.Line()})
			c.nodeLines = append(c.nodeLines, nodeLines{})
			continue
		}
		node := Node{Line: n.Line()}
		var ok bool
		if node.ID, ok = r.required(v[0], at+".id", node.Line, CodeYAML); !ok {
			c.unsure = true
		}
		c.size++
		switch {
		case r.arbor && (v[12].there() || v[13].there()):
			r.tool(&node, at, v[:])
		case r.arbor && v[3].there():
			r.subgraph(c.draft, &node, at, v[:4])
		default:
			node.Ref, _ = r.required(v[1], at+".agentRef", node.Line, CodeUnknownAgentRef)
			if v[2].there() {
				node.Config = r.mapping(v[2], at+".config")
			}
		}
		if r.arbor {
			r.extensions(c.draft, &node, at, v[4:])
		}
		c.graph.Nodes = append(c.graph.Nodes, node)
		c.nodeLines = append(c.nodeLines, nodeLines{v[0].line(), v[1].line(), v[7].line(), max(v[12].line(), v[13].line())})
	}
}

func (r *reader) edges(c *checker, f field) {
	path := c.path("edges")
	items := r.list(f, path)
	if items.Len() == 0 {
		return
	}
	table := r.choose(&edgeKeys, &arborEdgeKeys)
	c.graph.Edges = make([]Edge, 0, items.Len())
	for i := range items.Len() {
		n := items.Item(i)
		if !r.count() {
			c.unsure = true
			return
		}
		at := index(path, i)
		var v [5]field
		edge := Edge{Line: n.Line()}
		if !r.fields(n, at, table, v[:len(table.keys)], nil) {
			r.add(CodeYAML, at, edge.Line, "an edge must be a mapping with from and to, not %s", r.resolve(n).Describe())
			c.unsure = true
		} else {
			var from, to bool
			edge.From, from = r.required(v[0], at+".from", edge.Line, CodeUnknownEdgeAgent)
			edge.To, to = r.required(v[1], at+".to", edge.Line, CodeUnknownEdgeAgent)
			c.unsure = c.unsure || !from || !to
			edge.Condition = r.expression(c.draft, v[2], at+".condition", condition)
			edge.Transform = r.expression(c.draft, v[3], at+".transform", transform)
			if v[4].there() {
				edge.Priority, _ = r.whole(v[4], at+".priority", 1, MaxPriority, CodeYAML)
			}
		}
		c.graph.Edges = append(c.graph.Edges, edge)
		c.edgeLines = append(c.edgeLines, [2]int{v[0].line(), v[1].line()})
	}
}

// expression compiles a condition, a transform or another expression. The same text
// is compiled once.
func (r *reader) expression(d *draft, f field, path string, want wanted) *Expression {
	if !f.there() {
		return nil
	}
	text, ok := f.value.Text()
	if !ok {
		switch f.value.Kind() {
		case yamldoc.Mapping, yamldoc.List:
			r.add(CodeBadExpression, path, f.line(), "YAML reads %s here, and a %s is a text: put | before it and begin it on the next line, or put quotes around it", f.value.Describe(), leaf(path))
		default:
			r.optional(f, path, CodeBadExpression)
		}
		return nil
	}
	key := source{text, want}
	c := d.compiled[key]
	if c == nil {
		compile := d.state.Compile
		switch want {
		case condition:
			compile = d.state.CompileCondition
		case choice:
			compile = d.state.CompileTexts
		}
		c = &compiled{}
		program, err := compile(text)
		if err == nil {
			c.expression = &Expression{program: program}
		} else if c.err, ok = err.(*expression.CompileError); !ok {
			c.err = &expression.CompileError{Message: err.Error()}
		}
		d.compiled[key] = c
	}
	if c.err != nil {
		line := f.line()
		if f.value.Block() != "" {
			line += max(c.err.Line, 0)
		}
		r.add(CodeBadExpression, path, line, "%q: %v", yamldoc.Short(strings.TrimSpace(text)), c.err)
	}
	return c.expression
}

func (r *reader) errorHandling(c *checker, f field) {
	handling := &c.graph.OnError
	*handling = ErrorHandling{Strategy: FailFast, MaxRetries: DefaultMaxRetries}
	if !f.there() || isNull(f.value) {
		return
	}
	path := c.path("errorHandling")
	var v [3]field
	if !r.object(f, path, &errorKeys, v[:], nil) {
		return
	}
	if v[0].there() {
		if s, ok := r.optional(v[0], path+".strategy", CodeBadStrategy); ok {
			handling.Strategy = Strategy(s)
			switch Strategy(s) {
			case FailFast, Continue, Retry:
			default:
				r.add(CodeBadStrategy, path+".strategy", v[0].line(), "the strategy must be fail-fast, continue or retry, not %q%s", yamldoc.Short(s),
					r.didYouMean(s, []string{string(FailFast), string(Continue), string(Retry)}))
			}
		}
	}
	if v[1].there() {
		if n, ok := r.whole(v[1], path+".maxRetries", 0, math.MaxInt32, CodeBadMaxRetries); ok {
			handling.MaxRetries = n
		}
	}
	if v[2].there() {
		c.fallback = v[2]
		handling.Fallback, _ = r.required(v[2], path+".fallbackAgent", 0, CodeUnknownFallback)
	}
}

// whole reads a whole number from least to most that is there.
func (r *valueReader) whole(f field, path string, least, most int64, wrong Code) (int, bool) {
	value, ok := f.value.Whole()
	if ok && value >= least && value <= most {
		return int(value), true
	}
	span := fmt.Sprintf("from %d to %d", least, most)
	if most == math.MaxInt32 {
		span = fmt.Sprintf("from %d", least)
	}
	r.add(wrong, path, f.line(), "%s must be a whole number %s, not %s", leaf(path), span, f.value.Describe())
	return 0, false
}
