package agentgraph

import (
	"fmt"
	"math"
	"slices"
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
	if n.Kind() != yamldoc.Mapping {
		r.add(CodeWrongKind, "", n.Line(), "a document must be a mapping with apiVersion, kind, metadata and spec, not %s", n.Describe())
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
		f, _ := r.fields(n, "", n.Line(), &documentKeys, nil)
		r.apiVersion(f.get("apiVersion"))
		r.metadata(f.get("metadata"))
		spec := f.get("spec")
		if spec.empty() {
			r.add(CodeMissingField, "spec", n.Line(), "spec is missing: it holds agents, edges and entrypoint")
			return
		}
		r.spec(r.top, spec)
	}
}

// kind looks for the kind before anything else is read.
func (r *reader) kind(n yamldoc.Node) (string, int) {
	for i := range n.Len() {
		p := n.Pair(i)
		if k, _ := p.Key.Word(); k == "kind" {
			v := p.Value
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

func (r *reader) apiVersion(f field) {
	v, ok := r.required(f, CodeWrongAPIVersion)
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

func (r *reader) metadata(f field) {
	if f.empty() {
		r.add(CodeMissingField, f.path, f.above, "metadata is missing: it holds name and version")
		return
	}
	other := map[string]any{}
	v, ok := r.object(f, &metadataKeys, other)
	if !ok {
		return
	}
	g := r.top.graph
	g.Name, _ = r.required(v.get("name"), CodeYAML)
	g.Version = r.version(v.get("version"))
	g.Description = r.free(v.get("description"))
	for _, name := range []string{"labels", "annotations"} {
		if m := r.mapping(v.get(name)); m != nil {
			other[name] = m
		}
	}
	if len(other) > 0 {
		g.Metadata = other
	}
}

func (r *reader) version(f field) string {
	if _, number := f.value.Number(); number {
		r.add(CodeBadVersion, f.path, f.line(), `YAML reads %s as a number: a version has three parts, such as 1.0.0, and quotes make a text of anything, "1.0.0"`, f.value.Written())
		return ""
	}
	v, ok := r.required(f, CodeBadVersion)
	if ok && !semVer.MatchString(v) {
		hint := ""
		if strings.HasPrefix(v, "v") && semVer.MatchString(v[1:]) {
			hint = ": without the v in front, " + v[1:]
		}
		r.add(CodeBadVersion, f.path, f.line(), "the version must be such as 1.0.0 or 1.0.0-rc.1 (semver.org), not %q%s", yamldoc.Short(v), hint)
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
	v, ok := r.object(f, r.choose(&specKeys, &arborSpecKeys), nil)
	if !ok {
		return
	}
	r.drafts = append(r.drafts, d)
	d.compiled = map[source]*compiled{}
	if r.arbor {
		r.state(d, v.get("state"))
	}
	c := checker{reader: r, draft: d, entrypoint: v.get("entrypoint")}
	r.nodes(&c, v.get("agents"))
	r.edges(&c, v.get("edges"))
	d.graph.Entrypoint, _ = r.required(c.entrypoint, CodeUnknownEntrypoint)
	r.errorHandling(&c, v.get("errorHandling"))
	c.check()
}

func (r *reader) nodes(c *checker, f field) {
	items := r.list(f)
	if items.Len() == 0 {
		if items.Kind() == yamldoc.List || f.empty() {
			r.add(CodeMissingField, f.path, f.above, "a graph has at least one agent")
		}
		return
	}
	table := r.choose(&agentKeys, &arborAgentKeys)
	c.graph.Nodes = make([]Node, 0, items.Len())
	for i := range items.Len() {
		n := items.Item(i)
		node := Node{Line: n.Line()}
		v, ok := r.fields(n, index(f.path, i), node.Line, table, nil)
		if !ok {
			r.add(CodeYAML, v.path, node.Line, "an agent must be a mapping with id and agentRef, not %s", n.Describe())
			c.unsure = true
			c.graph.Nodes = append(c.graph.Nodes, node)
			c.nodeLines = append(c.nodeLines, nodeLines{})
			continue
		}
		if node.ID, ok = r.required(v.get("id"), CodeYAML); !ok {
			c.unsure = true
		}
		c.size++
		tool := max(v.get("tool").line(), v.get("toolsOf").line())
		switch {
		case tool > 0:
			r.tool(&node, v)
		case v.get("graph").there():
			r.subgraph(c.draft, &node, v)
		default:
			node.Ref, _ = r.required(v.get("agentRef"), CodeUnknownAgentRef)
			node.Config = r.mapping(v.get("config"))
		}
		r.extensions(c.draft, &node, v)
		c.graph.Nodes = append(c.graph.Nodes, node)
		c.nodeLines = append(c.nodeLines, nodeLines{v.get("id").line(), v.get("agentRef").line(), v.get("next").line(), tool})
	}
}

func (r *reader) edges(c *checker, f field) {
	items := r.list(f)
	if items.Len() == 0 {
		return
	}
	table := r.choose(&edgeKeys, &arborEdgeKeys)
	c.graph.Edges = make([]Edge, 0, items.Len())
	for i := range items.Len() {
		n := items.Item(i)
		edge := Edge{Line: n.Line()}
		v, ok := r.fields(n, index(f.path, i), edge.Line, table, nil)
		if !ok {
			r.add(CodeYAML, v.path, edge.Line, "an edge must be a mapping with from and to, not %s", n.Describe())
			c.unsure = true
		} else {
			var from, to bool
			edge.From, from = r.required(v.get("from"), CodeUnknownEdgeAgent)
			edge.To, to = r.required(v.get("to"), CodeUnknownEdgeAgent)
			c.unsure = c.unsure || !from || !to
			edge.Condition = r.expression(c.draft, v.get("condition"), condition)
			edge.Transform = r.expression(c.draft, v.get("transform"), transform)
			edge.Priority, _ = r.whole(v.get("priority"), 1, MaxPriority, CodeYAML)
		}
		c.graph.Edges = append(c.graph.Edges, edge)
		c.edgeLines = append(c.edgeLines, [2]int{v.get("from").line(), v.get("to").line()})
	}
}

// expression compiles a condition, a transform or another expression. The same text
// is compiled once.
func (r *reader) expression(d *draft, f field, want wanted) *Expression {
	if !f.there() {
		return nil
	}
	text, ok := f.value.Text()
	if !ok {
		switch f.value.Kind() {
		case yamldoc.Mapping, yamldoc.List:
			r.add(CodeBadExpression, f.path, f.line(), "YAML reads %s here, and a %s is a text: put | before it and begin it on the next line, or put quotes around it", f.value.Describe(), leaf(f.path))
		default:
			r.optional(f, CodeBadExpression)
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
		r.add(CodeBadExpression, f.path, line, "%q: %v", yamldoc.Short(strings.TrimSpace(text)), c.err)
	}
	return c.expression
}

func (r *reader) errorHandling(c *checker, f field) {
	handling := &c.graph.OnError
	*handling = ErrorHandling{Strategy: FailFast, MaxRetries: DefaultMaxRetries}
	if f.empty() {
		return
	}
	v, ok := r.object(f, &errorKeys, nil)
	if !ok {
		return
	}
	strategy := v.get("strategy")
	if s, ok := r.optional(strategy, CodeBadStrategy); ok {
		handling.Strategy = Strategy(s)
		r.oneOf(strategy, CodeBadStrategy, "the strategy", string(FailFast), string(Continue), string(Retry))
	}
	if n, ok := r.whole(v.get("maxRetries"), 0, math.MaxInt32, CodeBadMaxRetries); ok {
		handling.MaxRetries = n
	}
	c.fallback = v.get("fallbackAgent")
	handling.Fallback, _ = r.given(c.fallback, CodeUnknownFallback)
}

// whole reads a whole number from least to most; it is false for none.
func (r *valueReader) whole(f field, least, most int64, wrong Code) (int, bool) {
	value, ok := f.value.Whole()
	if !f.there() || ok && value >= least && value <= most {
		return int(value), ok
	}
	span := fmt.Sprintf("from %d to %d", least, most)
	if most == math.MaxInt32 {
		span = fmt.Sprintf("from %d", least)
	}
	r.add(wrong, f.path, f.line(), "%s must be a whole number %s, not %s", leaf(f.path), span, f.value.Describe())
	return 0, false
}

// oneOf adds a problem if a text is not one of the allowed words.
func (r *valueReader) oneOf(f field, wrong Code, called string, words ...string) bool {
	text, _ := f.value.Text()
	if slices.Contains(words, text) {
		return true
	}
	r.add(wrong, f.path, f.line(), "%s must be %s, not %q%s", called, yamldoc.Or(words), yamldoc.Short(text), r.didYouMean(text, words))
	return false
}
