package agentgraph

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/agentarbor/arbor/internal/expression"
)

// APIVersion is the version of the format that this package implements.
const APIVersion = "ossa.ai/v0.2.7"

const (
	kindGraph = "AgentGraph"
	kindAgent = "Agent"
)

// reader reads one file.
type reader struct {
	problems []Problem
	warnings []Problem
	lines    int    // of the file
	prefix   string // of paths, in documents that are not the graph's

	anchored bool // there are anchors
	anchors  map[string]*ast.AnchorNode
	expanded int // values that aliases added
	within   int // aliases that are being expanded
	said     map[string]bool
	hints    int

	graph *Graph
	// Where the parts of nodes (id, agentRef) and of edges (from, to) stand.
	nodeLines, edgeLines [][2]int
	agents               []AgentDocument
	compiled             map[source]*compiled
}

// source is a text to compile, and what as.
type source struct {
	text      string
	condition bool
}

type compiled struct {
	expression *Expression
	err        *expression.CompileError
}

// document reads the graph's own document, or an agent's.
func (r *reader) document(n ast.Node, number int, seen *int) {
	r.prefix = ""
	r.anchorsOf(n)
	var f [4]field
	if _, ok := pairsOf(r.resolve(n)); !ok {
		r.add(CodeWrongKind, "", lineOf(n), "a document must be a mapping with apiVersion, kind, metadata and spec, not %s", describe(r.resolve(n)))
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
		hint := ""
		if k := r.nearest(kind, []string{kindGraph, kindAgent}); k != "" {
			hint = `; did you mean "` + k + `"?`
		}
		message := fmt.Sprintf("the kind must be AgentGraph, not %q%s", short(kind), hint)
		if kind == "" {
			message = "the document does not say kind: AgentGraph"
		}
		r.add(CodeWrongKind, "kind", line, "%s", message)
		*seen++
	case r.graph != nil:
		r.prefix = other
		r.add(CodeWrongKind, "kind", line, "a file holds one AgentGraph, and this is another one")
		r.prefix = ""
	default:
		r.graph = &Graph{}
		*seen++
		r.fields(n, "", &documentKeys, f[:], nil)
		r.apiVersion(f[0], lineOf(n))
		r.metadata(f[2], lineOf(n))
		r.spec(f[3], lineOf(n))
	}
}

// kind looks for the kind before anything else is read.
func (r *reader) kind(n ast.Node) (string, int) {
	pairs, _ := pairsOf(r.resolve(n))
	for _, p := range pairs {
		if k, ok := p.Key.(*ast.StringNode); ok && k.Value == "kind" {
			v := r.resolve(p.Value)
			if s, ok := textOf(v); ok {
				return strings.TrimSpace(s), tokenLine(k.Token)
			}
			if isNull(v) {
				return "", tokenLine(k.Token)
			}
			return describe(v), tokenLine(k.Token)
		}
	}
	return "", lineOf(n)
}

var (
	apiVersion = regexp.MustCompile(`^ossa\.ai/v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$`)
	// The expression of semver.org.
	semVer = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`)
)

func (r *reader) apiVersion(f field, line int) {
	v, ok := r.required(f, "apiVersion", line, CodeWrongAPIVersion)
	if !ok {
		return
	}
	r.graph.APIVersion = v
	m := apiVersion.FindStringSubmatch(v)
	group, _, _ := strings.Cut(v, "/")
	switch {
	case v == APIVersion:
	case m == nil && group == "ossa.ai":
		r.add(CodeWrongAPIVersion, "apiVersion", f.line(), "apiVersion must be such as %s, not %q", APIVersion, short(v))
	case m == nil:
		r.add(CodeWrongAPIVersion, "apiVersion", f.line(), "apiVersion must be %s, not %q: only resources of ossa.ai are read", APIVersion, short(v))
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
	if !r.fields(f.value, "metadata", &metadataKeys, v[:], other) {
		r.add(CodeYAML, "metadata", f.line(), "metadata must be a mapping, not %s", describe(f.value))
		return
	}
	line = tokenLine(f.pair.Key.GetToken())
	g := r.graph
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
	if f.there() {
		switch f.value.(type) {
		case *ast.IntegerNode, *ast.FloatNode:
			r.add(CodeBadVersion, path, f.line(), `YAML reads %s as a number: a version has three parts, such as 1.0.0, and quotes make a text of anything, "1.0.0"`, f.value.GetToken().Value)
			return ""
		}
	}
	v, ok := r.required(f, path, line, CodeBadVersion)
	if ok && !semVer.MatchString(v) {
		hint := ""
		if strings.HasPrefix(v, "v") && semVer.MatchString(v[1:]) {
			hint = ": without the v in front, " + v[1:]
		}
		r.add(CodeBadVersion, path, f.line(), "the version must be such as 1.0.0 or 1.0.0-rc.1 (semver.org), not %q%s", short(v), hint)
	}
	return v
}

func (r *reader) spec(f field, line int) {
	if !f.there() || isNull(f.value) {
		r.add(CodeMissingField, "spec", line, "spec is missing: it holds agents, edges and entrypoint")
		return
	}
	var v [4]field
	if !r.fields(f.value, "spec", &specKeys, v[:], nil) {
		r.add(CodeYAML, "spec", f.line(), "spec must be a mapping, not %s", describe(f.value))
		return
	}
	line = tokenLine(f.pair.Key.GetToken())
	c := checker{reader: r}
	r.nodes(&c, v[0], line)
	r.edges(&c, v[1])
	c.entrypoint, c.entry = v[2], "spec.entrypoint"
	r.graph.Entrypoint, _ = r.required(v[2], c.entry, line, CodeUnknownEntrypoint)
	r.errorHandling(&c, v[3])
	c.check()
}

func (r *reader) nodes(c *checker, f field, line int) {
	const path = "spec.agents"
	items := r.items(f, path)
	if len(items) == 0 {
		if _, list := f.value.(*ast.SequenceNode); list || !f.there() || isNull(f.value) {
			r.add(CodeMissingField, path, line, "a graph has at least one agent")
		}
		return
	}
	r.graph.Nodes = make([]Node, 0, len(items))
	for i, n := range items {
		at := index(path, i)
		var v [3]field
		if !r.fields(n, at, &agentKeys, v[:], nil) {
			r.add(CodeYAML, at, lineOf(n), "an agent must be a mapping with id and agentRef, not %s", describe(r.resolve(n)))
			c.unsure = true
			r.graph.Nodes = append(r.graph.Nodes, Node{Line: lineOf(n)})
			r.nodeLines = append(r.nodeLines, [2]int{})
			continue
		}
		node := Node{Line: lineOf(n)}
		var ok bool
		if node.ID, ok = r.required(v[0], at+".id", node.Line, CodeYAML); !ok {
			c.unsure = true
		}
		node.Ref, _ = r.required(v[1], at+".agentRef", node.Line, CodeUnknownAgentRef)
		if v[2].there() {
			node.Config = r.mapping(v[2], at+".config")
		}
		r.graph.Nodes = append(r.graph.Nodes, node)
		r.nodeLines = append(r.nodeLines, [2]int{v[0].line(), v[1].line()})
	}
}

func (r *reader) edges(c *checker, f field) {
	const path = "spec.edges"
	items := r.items(f, path)
	if len(items) == 0 {
		return
	}
	r.graph.Edges = make([]Edge, 0, len(items))
	for i, n := range items {
		at := index(path, i)
		var v [4]field
		edge := Edge{Line: lineOf(n)}
		if !r.fields(n, at, &edgeKeys, v[:], nil) {
			r.add(CodeYAML, at, edge.Line, "an edge must be a mapping with from and to, not %s", describe(r.resolve(n)))
			c.unsure = true
		} else {
			var from, to bool
			edge.From, from = r.required(v[0], at+".from", edge.Line, CodeUnknownEdgeAgent)
			edge.To, to = r.required(v[1], at+".to", edge.Line, CodeUnknownEdgeAgent)
			c.unsure = c.unsure || !from || !to
			edge.Condition = r.expression(v[2], at, "condition")
			edge.Transform = r.expression(v[3], at, "transform")
		}
		r.graph.Edges = append(r.graph.Edges, edge)
		r.edgeLines = append(r.edgeLines, [2]int{v[0].line(), v[1].line()})
	}
}

// expression compiles a condition or a transform. The same text is compiled once.
func (r *reader) expression(f field, edge, name string) *Expression {
	if !f.there() {
		return nil
	}
	text, ok := textOf(f.value)
	if !ok {
		path := edge + "." + name
		switch f.value.(type) {
		case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
			r.add(CodeBadExpression, path, f.line(), "YAML reads %s here, and a %s is a text: put | before it and begin it on the next line, or put quotes around it", describe(f.value), name)
		default:
			r.optional(f, path, CodeBadExpression)
		}
		return nil
	}
	key := source{text, name == "condition"}
	c := r.compiled[key]
	if c == nil {
		compile := expression.Compile
		if key.condition {
			compile = expression.CompileCondition
		}
		c = &compiled{}
		program, err := compile(text)
		if err == nil {
			c.expression = &Expression{program}
		} else if c.err, ok = err.(*expression.CompileError); !ok {
			c.err = &expression.CompileError{Message: err.Error()}
		}
		r.compiled[key] = c
	}
	if c.err != nil {
		line := f.line()
		if _, literal := f.value.(*ast.LiteralNode); literal {
			line += max(c.err.Line, 0)
		}
		r.add(CodeBadExpression, edge+"."+name, line, "%q: %v", short(strings.TrimSpace(text)), c.err)
	}
	return c.expression
}

func (r *reader) errorHandling(c *checker, f field) {
	r.graph.OnError = ErrorHandling{Strategy: FailFast, MaxRetries: DefaultMaxRetries}
	if !f.there() || isNull(f.value) {
		return
	}
	const path = "spec.errorHandling"
	var v [3]field
	if !r.fields(f.value, path, &errorKeys, v[:], nil) {
		r.add(CodeYAML, path, f.line(), "errorHandling must be a mapping, not %s", describe(f.value))
		return
	}
	if v[0].there() {
		if s, ok := r.optional(v[0], path+".strategy", CodeBadStrategy); ok {
			r.graph.OnError.Strategy = Strategy(s)
			switch Strategy(s) {
			case FailFast, Continue, Retry:
			default:
				r.add(CodeBadStrategy, path+".strategy", v[0].line(), "the strategy must be fail-fast, continue or retry, not %q%s", short(s),
					r.didYouMean(s, []string{string(FailFast), string(Continue), string(Retry)}))
			}
		}
	}
	if v[1].there() {
		r.maxRetries(v[1], path+".maxRetries")
	}
	if v[2].there() {
		c.fallback = v[2]
		r.graph.OnError.Fallback, _ = r.required(v[2], path+".fallbackAgent", 0, CodeUnknownFallback)
	}
}

func (r *reader) maxRetries(f field, path string) {
	n, ok := f.value.(*ast.IntegerNode)
	value := int64(-1)
	if ok {
		switch i := n.Value.(type) {
		case int64:
			value = i
		case uint64:
			value = int64(min(i, math.MaxInt64))
		}
	}
	if value < 0 || value > math.MaxInt32 {
		what := "nothing"
		if f.value != nil {
			what = describe(f.value)
		}
		r.add(CodeBadMaxRetries, path, f.line(), "maxRetries must be a whole number from 0, not %s", what)
		return
	}
	r.graph.OnError.MaxRetries = int(value)
}
