package agentgraph

import (
	"fmt"
	"math"
	"strings"

	"github.com/agentarbor/arbor/internal/expression"
	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// APIVersion is the version of the format that this package implements.
const APIVersion = "ossa.ai/v0.2.7"

// APIVersionArbor is that version with the extensions of this project: loops, graphs within graphs, routing at run
// time, shared state, and timeouts, retries and approvals of single nodes.
const APIVersionArbor = "arbor/v1"

const (
	kindGraph = "AgentGraph"
	kindAgent = "Agent"
)

// draft is a graph that is being read: the graph of a document, or one in place of an agent.
type draft struct {
	graph *Graph
	base  string // the path of its spec
	depth int    // 1 for the graph's own document
	// The lines of the parts of nodes and edges.
	nodeLines []nodeLines
	edgeLines [][2]int // from, to
	state     expression.Language
	keys      map[string]bool // the declared state keys
	compiled  map[source]*compiled
	// nested is the depth of the graphs inside it. size is its number of nodes, including those of the graphs inside
	// it.
	nested, size int
}

type nodeLines struct{ id, ref, next, tool int }

func (d *draft) path(name string) string { return d.base + "." + name }

// wanted is the kind of result that an expression must have.
type wanted int

const (
	condition wanted = iota // true or false
	transform               // any value
	choice                  // ids
)

// source is the text of an expression with the kind of its result.
type source struct {
	text string
	want wanted
}

type compiled struct {
	expression *Expression
	err        *expression.CompileError
}

// document reads the graph's own document, or the document of an agent.
func (r *reader) document(n yamldoc.Node, number int, seen *int) {
	if n.Kind() != yamldoc.Mapping {
		r.add(CodeWrongKind, "", n.Line(), "a document must be a mapping with apiVersion, kind, metadata and spec, not %s", n.Describe())
		return
	}
	kind, line := r.kind(n)
	r.prefix = fmt.Sprintf("documents[%d].", number)
	defer func() { r.prefix = "" }()
	switch {
	case kind == kindAgent:
		r.agentDocument(n)
		return
	case kind == kindGraph && r.top != nil:
		r.add(CodeWrongKind, "kind", line, "a file holds one AgentGraph, and this is another one")
		return
	}
	r.prefix = ""
	*seen++
	switch kind {
	case kindGraph:
		r.top = &draft{graph: &Graph{checked: true}, base: "spec", depth: r.depth + 1}
		r.mapping(&documentTable, r.documentKeys(), "", n, n.Line())
	case "":
		r.add(CodeWrongKind, "kind", line, "the document does not say kind: AgentGraph")
	default:
		r.add(CodeWrongKind, "kind", line, "the kind must be AgentGraph, not %q%s", visible.Cut(kind, 60), r.didYouMean(kind, []string{kindGraph, kindAgent}))
	}
}

// kind returns the document's kind and its line, before any other key is read.
func (r *reader) kind(n yamldoc.Node) (string, int) {
	for i := range n.Len() {
		p := n.Pair(i)
		if k, _ := p.Key.Word(); k == "kind" {
			v := p.Value
			if s, ok := v.Text(); ok {
				return strings.TrimSpace(s), p.Key.Line()
			}
			if v.Kind() == yamldoc.Nothing {
				return "", p.Key.Line()
			}
			return v.Describe(), p.Key.Line()
		}
	}
	return "", n.Line()
}

var (
	apiVersion = lazyregexp.New(`^ossa\.ai/v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$`)
	// The regular expression that semver.org recommends.
	semVer = lazyregexp.New(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`)
)

func (r *reader) apiVersion(k *yamldoc.Key, n yamldoc.Node) {
	v, ok := r.String(k, n)
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
		r.Add(n, "apiVersion %q is not known: %s is", visible.Cut(v, 60), APIVersionArbor)
	case m == nil && group == "ossa.ai":
		r.Add(n, "apiVersion must be such as %s, not %q", APIVersion, visible.Cut(v, 60))
	case m == nil:
		r.Add(n, "apiVersion must be %s, not %q: only resources of ossa.ai are read, and those of %s", APIVersion, visible.Cut(v, 60), APIVersionArbor)
	case m[1] == "0" && m[2] == "2":
		r.warnings = append(r.warnings, r.problem(CodeWrongAPIVersion, "apiVersion", n.Line(), "%s is read as %s, which may differ", v, APIVersion))
	default:
		r.Add(n, "apiVersion %s is not known: %s is, and other versions 0.2", v, APIVersion)
	}
}

func (r *reader) metadata(k *yamldoc.Key, n yamldoc.Node) {
	r.other = map[string]any{}
	if r.object(k, n, &metadataTable, r.metadataKeys()...) && len(r.other) > 0 {
		r.top.graph.Metadata = r.other
	}
}

// version returns a key for a semantic version. If it is optional, the value may be null.
func (r *reader) version(to *string, optional bool) yamldoc.Key {
	return yamldoc.Custom("version", "a text", "1.0.0", func(k *yamldoc.Key, n yamldoc.Node) {
		if optional && n.Kind() == yamldoc.Nothing {
			return
		}
		if _, number := n.Number(); number {
			r.Add(n, `YAML reads %s as a number: a version has three parts, such as 1.0.0, and quotes make a text of anything, "1.0.0"`, n.Written())
			return
		}
		v, ok := r.String(k, n)
		if ok {
			*to = v
		}
		if ok && !semVer.MatchString(v) {
			hint := ""
			if strings.HasPrefix(v, "v") && semVer.MatchString(v[1:]) {
				hint = ": without the v in front, " + v[1:]
			}
			r.Add(n, "the version must be such as 1.0.0 or 1.0.0-rc.1 (semver.org), not %q%s", visible.Cut(v, 60), hint)
		}
	})
}

// spec reads and checks a graph's agents, edges and other keys.
func (r *reader) spec(d *draft, k *yamldoc.Key, n yamldoc.Node) {
	r.drafts = append(r.drafts, d)
	d.compiled = map[source]*compiled{}
	if r.arbor {
		d.keys, d.state = map[string]bool{}, expression.WithState()
	}
	d.graph.OnError = ErrorHandling{Strategy: FailFast, MaxRetries: defaultMaxRetries}
	c := checker{reader: r, draft: d}
	if t, keys := r.specKeys(&c); r.object(k, n, t, keys...) {
		c.check()
	}
}

func (r *reader) nodes(c *checker, k *yamldoc.Key, n yamldoc.Node) {
	if n.Kind() == yamldoc.List && n.Len() == 0 {
		r.add(CodeMissingField, r.Name, n.Line(), "a graph has at least one agent")
	}
	r.items(k, n, func(n yamldoc.Node) {
		node, lines := Node{Line: n.Line()}, nodeLines{}
		if n.Kind() != yamldoc.Mapping {
			r.Add(n, "an agent must be a mapping with id and agentRef, not %s", n.Describe())
		} else {
			c.size++
			t, keys := r.agentKeys(c.draft, &node)
			found := r.mapping(t, keys, r.Name, n, node.Line)
			r.together(c.draft, &node, found)
			lines = nodeLines{lineOf(found["id"]), lineOf(found["agentRef"]), lineOf(found["next"]), max(lineOf(found["tool"]), lineOf(found["toolsOf"]))}
		}
		c.unsure = c.unsure || node.ID == ""
		c.graph.Nodes, c.nodeLines = append(c.graph.Nodes, node), append(c.nodeLines, lines)
	})
}

// together checks which keys a node may combine, and completes the node.
func (r *reader) together(d *draft, node *Node, found map[string]yamldoc.Pair) {
	has := func(name string) bool { return lineOf(found[name]) > 0 }
	wrong := func(name, message string) { r.add(CodeYAML, r.Name+"."+name, lineOf(found[name]), "%s", message) }
	switch {
	case has("tool") || has("toolsOf"):
		if has("tool") && has("toolsOf") || has("graph") || has("toolsOf") && has("agentRef") {
			r.add(CodeYAML, r.Name, node.Line, "set exactly one of agentRef, graph, tool and toolsOf (a tool may have an agentRef, whose tool it is)")
		}
		if has("config") && (!has("agentRef") || !has("tool")) {
			wrong("config", "config is for an agentRef: a tool takes none")
		}
		if has("history") {
			wrong("history", "history is for agents with a model: a tool gets its input alone")
		}
		switch {
		case has("toolsOf"), node.Tool == "":
			node.Ref, node.Tool = "", ""
		case !has("agentRef"):
			node.Ref = ToolRef(node.Tool)
		}
	case has("graph"):
		if node.Ref = ""; has("agentRef") {
			r.add(CodeYAML, r.Name+".graph", found["graph"].Key.Line(), "an agent has an agentRef or a graph, and this one has both")
		} else if has("config") {
			wrong("config", "config is for an agentRef: a graph in an agent's place takes none")
		}
	case !has("agentRef"):
		r.add(CodeMissingField, r.Name+".agentRef", node.Line, "agentRef is missing")
	}
	switch {
	case has("when") && d.depth > 1:
		wrong("when", "an inner graph cannot ask a person: set when on the outer node")
	case !has("when") && (has("ask") || has("by")):
		r.add(CodeMissingField, r.Name+".when", node.Line, "when is missing: ask is the question of when: human, and by says who answers it")
	}
}

func (r *reader) edges(c *checker, k *yamldoc.Key, n yamldoc.Node) {
	if n.Kind() == yamldoc.Nothing {
		return
	}
	c.unsure = c.unsure || n.Kind() != yamldoc.List
	r.items(k, n, func(n yamldoc.Node) {
		edge := Edge{Line: n.Line()}
		var lines [2]int
		if n.Kind() != yamldoc.Mapping {
			r.Add(n, "an edge must be a mapping with from and to, not %s", n.Describe())
		} else {
			t, keys := r.edgeKeys(c.draft, &edge)
			found := r.mapping(t, keys, r.Name, n, edge.Line)
			lines = [2]int{lineOf(found["from"]), lineOf(found["to"])}
		}
		c.unsure = c.unsure || edge.From == "" || edge.To == ""
		c.graph.Edges, c.edgeLines = append(c.graph.Edges, edge), append(c.edgeLines, lines)
	})
}

// compiles returns a key for an expression. The same text is compiled only once.
func (r *reader) compiles(d *draft, name string, want wanted, to **Expression) yamldoc.Key {
	return yamldoc.Custom(name, "a text", "", func(k *yamldoc.Key, n yamldoc.Node) { *to = r.expression(d, want, k, n) }).
		WithSchema(`{"$ref": "#/$defs/expression"}`)
}

func (r *reader) expression(d *draft, want wanted, k *yamldoc.Key, n yamldoc.Node) *Expression {
	r.as = CodeBadExpression
	defer func() { r.as = "" }()
	text, ok := n.Text()
	switch kind := n.Kind(); {
	case kind == yamldoc.Mapping, kind == yamldoc.List:
		r.Add(n, "YAML reads %s here, and %s is a text: put | before it and begin it on the next line, or put quotes around it", n.Describe(), leaf(r.Name))
		return nil
	case !ok:
		r.WrongType(k, n)
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
		line := n.Line()
		if n.Block() != "" {
			line += max(c.err.Line, 0)
		}
		r.AddAt(line, 0, fmt.Sprintf("%q: %v", visible.Cut(strings.TrimSpace(text), 60), c.err))
	}
	return c.expression
}

// whole returns a key for an integer from least to most. wrong is the problem code of other values.
func (r *reader) whole(name string, wrong Code, least, most int64, to *int) yamldoc.Key {
	typ := fmt.Sprintf("a whole number from %d to %d", least, most)
	if most == math.MaxInt32 {
		typ = fmt.Sprintf("a whole number from %d", least)
	}
	return yamldoc.Custom(name, typ, "", func(k *yamldoc.Key, n yamldoc.Node) {
		if v, ok := n.Whole(); ok && v >= least && v <= most {
			*to = int(v)
			return
		}
		r.wrongType(wrong, k, n)
	}).WithSchema(fmt.Sprintf(`{"type": "integer", "minimum": %d, "maximum": %d}`, least, most))
}
