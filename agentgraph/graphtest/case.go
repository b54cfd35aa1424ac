package graphtest

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// Case is a graph with an input, mocks for its agents, and the expected result of the run. docs/command-graphs.md
// describes the files of cases.
type Case struct {
	Name string
	Note string // for readers
	// File and Line are the place where the case begins. They are empty if the case was made in Go.
	File string
	Line int

	Graph *agentgraph.Graph
	// Input is the input of the run: any value with a JSON form.
	Input any
	Mocks Mocks
	// Resolve resolves the agents of nodes without a mock. If it is nil, such a node is an error.
	Resolve agentgraph.Resolver
	// Approve and Deny are the ids of nodes that wait for an approval and that a person approves or denies. If other
	// nodes wait for an approval, the run stays waiting.
	Approve, Deny []string
	Expect        Expect

	// Refused describes a graph that must be refused; nil means that the graph must run. If it is set, Graph is nil and
	// nothing runs.
	Refused  *Refusal
	problems []agentgraph.Problem // the problems of a graph that must be refused
}

// Expect is the expected result of a run. Fields that are nil, empty or 0 are not compared, but an empty list or map
// that is not nil must be empty in the run.
type Expect struct {
	Status string
	// Order is compared in order; the other lists of ids are compared in any order.
	Order, Skipped, Failed, Cancelled, NotRun []string
	// Parallel contains groups of nodes. All nodes of a group must start before any of them ends. Their mocks wait for
	// each other.
	Parallel [][]string
	// Calls, Inputs and Outputs are compared only for the ids in them; Terminal is compared completely. Values are
	// equal if their JSON is equal; numbers are compared by value.
	Calls                     map[string]int
	Inputs, Outputs, Terminal map[string]any
	// State is compared only for the keys in it.
	State map[string]any
	Error *ExpectError
	// FallbackInputHas contains texts that must occur in the JSON of the fallback's input.
	FallbackInputHas []string
	// ConfigSeen is the configuration of agents: a node's own, merged over that of its agent's document if the file of
	// the graph contains the document. It is compared only for the keys in it.
	ConfigSeen map[string]map[string]any
}

// ExpectError is the expected error of a run.
type ExpectError struct {
	Agent    string   // the id of the node that failed
	Edge     string   // or the edge that failed, as from->to
	Contains []string // texts in its message
}

// LoadCases reads cases, one per YAML document. file is the file name in errors, and a case's graphFile is relative to
// its folder. The error is an [*Error] with all problems, including those of graphs.
func LoadCases(data []byte, file string, opts ...LoadOption) ([]Case, error) {
	r := &reader{}
	r.File = file
	r.load = []agentgraph.Option{agentgraph.WithAnyRef()}
	if err := option.Apply(r, opts); err != nil {
		return nil, fmt.Errorf("graphtest: %w", err)
	}
	var cases []Case
	lines := map[string]int{} // by name
	for _, body := range r.Documents(data, agentgraph.MaxFile) {
		c := r.testCase(body)
		if first := lines[c.Name]; c.Name != "" && first > 0 {
			r.Add(body, "the name %q is already on line %d", visible.Cut(c.Name, 60), first)
		}
		lines[c.Name] = c.Line
		cases = append(cases, c)
	}
	if len(cases) == 0 && r.Problems == 0 {
		r.AddAt(1, 0, "the file holds no case: a case has name, graph, input, mock and expect, and a line --- separates two cases")
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return cases, nil
}

// LoadCaseFile reads the cases in a file. An error that is not an [*Error] reports that the file cannot be read.
func LoadCaseFile(path string, opts ...LoadOption) ([]Case, error) {
	data, err := confined.Read(path, agentgraph.MaxFile+1)
	if err != nil {
		return nil, fmt.Errorf("graphtest: %w", err)
	}
	return LoadCases(data, path, opts...)
}

// pairs contains the keys of a mapping with their values.
type pairs = map[string]yamldoc.Pair

func (r *reader) testCase(body yamldoc.Node) Case {
	c := Case{File: r.File, Line: body.Line()}
	if body.Kind() != yamldoc.Mapping {
		r.Add(body, "a case must be a mapping, not %s", body.Describe())
		return c
	}
	var graph, file, codes, where string
	var expect pairs
	f := r.Mapping([]yamldoc.Key{
		yamldoc.String("name", "", &c.Name),
		yamldoc.OptionalString("note", &c.Note),
		yamldoc.Custom("graph", "a text", "", func(k *yamldoc.Key, n yamldoc.Node) {
			if n.Kind() == yamldoc.Mapping {
				r.Add(r.Key, "graph must be a text: write | after graph: and indent the lines below it, or name a file with graphFile")
				return
			}
			graph, _ = r.String(k, n)
		}),
		yamldoc.String("graphFile", "", &file),
		yamldoc.Value("input", &c.Input),
		yamldoc.Custom("mock", "a mapping", "", func(k *yamldoc.Key, n yamldoc.Node) { c.Mocks = r.mocks(k, n) }),
		yamldoc.Strings("approve", "", &c.Approve),
		yamldoc.Strings("deny", "", &c.Deny),
		yamldoc.Custom("expect", "a mapping", "", func(k *yamldoc.Key, n yamldoc.Node) { expect = r.expect(&c.Expect, k, n) }),
		yamldoc.String("code", "", &codes),
		yamldoc.OptionalString("where", &where)}, "", body)
	has := func(key string) bool { _, ok := f[key]; return ok }
	if !has("name") {
		r.Add(body, "the case has no name")
	}
	if has("code") {
		c.Refused = &Refusal{Where: where}
		r.refused(&c, f, body, codes, graph)
		return c
	}
	if has("where") {
		r.Add(f["where"].Key, "where goes with code: the code of a problem, and its path in the graph")
	}
	if !has("expect") {
		r.Add(body, "expect is missing: without it nothing is checked")
	}
	switch {
	case has("graph") && has("graphFile"):
		r.Add(f["graphFile"].Key, "graph and graphFile exclude each other")
	case graph != "":
		c.Graph = r.graph(graph, f["graph"].Value)
	case file != "":
		c.Graph = r.graphFile(file, f["graphFile"].Key)
	case !has("graph") && !has("graphFile"):
		r.Add(body, "the case has no graph: give its text as graph, or its file as graphFile")
	}
	if c.Graph != nil {
		r.known(&c, f, expect)
	}
	return c
}

// graph loads a graph that is written inside a case. Its problems are reported with lines of the case's file.
func (r *reader) graph(text string, at yamldoc.Node) *agentgraph.Graph {
	g, err := agentgraph.Load([]byte(text), agentgraph.WithAnyRef())
	if err == nil {
		return g
	}
	for _, problem := range agentgraph.Problems(err) {
		if at.Block() == "|" {
			r.AddAt(at.Line()+problem.Line, 0, "the graph: "+problem.String())
		} else {
			r.Add(at, "line %d of the graph: %s", problem.Line, problem)
		}
	}
	return nil
}

func (r *reader) graphFile(name string, at yamldoc.Node) *agentgraph.Graph {
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(r.File), name)
	}
	g, err := agentgraph.LoadFile(name, agentgraph.WithAnyRef())
	var bad *agentgraph.Error
	switch {
	case err == nil:
	case errors.As(err, &bad):
		for _, problem := range bad.Problems {
			r.Add(at, "the graph: %s", bad.Line(problem))
		}
	default:
		r.Add(at, "%s: %s", name, confined.Reason(err))
	}
	return g
}

// known reports ids in a case that its graph does not have.
func (r *reader) known(c *Case, f, expect pairs) {
	ids := make([]string, len(c.Graph.Nodes))
	at := make(map[string]int, len(ids))
	for i, n := range c.Graph.Nodes {
		ids[i], at[n.ID] = n.ID, i
	}
	var bad *Error
	if errors.As(c.Mocks.Check(c.Graph), &bad) {
		for _, problem := range bad.Problems {
			r.AddAt(problem.Line, 0, problem.Message)
		}
	}
	decided := func(key string, names []string) {
		for _, id := range names {
			if i, ok := at[id]; !ok {
				r.Add(f[key].Key, "%s: no agent of the graph has the id %q%s", key, visible.Cut(id, 60), nearest.Listed(id, ids))
			} else if c.Graph.Nodes[i].Human == nil {
				r.Add(f[key].Key, "%s: %s does not wait for an approval: its node has no when: human", key, id)
			}
		}
	}
	decided("approve", c.Approve)
	decided("deny", c.Deny)
	check := func(key string, names ...string) {
		for _, id := range names {
			if _, ok := at[id]; !ok && id != "" {
				r.Add(expect[key].Key, "expect.%s: no agent of the graph has the id %q%s", key, visible.Cut(id, 60), nearest.Listed(id, ids))
			}
		}
	}
	e := &c.Expect
	check("order", e.Order...)
	check("skipped", e.Skipped...)
	check("failed", e.Failed...)
	check("cancelled", e.Cancelled...)
	check("notRun", e.NotRun...)
	for _, group := range e.Parallel {
		check("parallel", group...)
		for _, id := range group {
			_, known := at[id]
			if _, mocked := c.Mocks[id]; known && !mocked {
				r.Add(expect["parallel"].Key, "expect.parallel: %s has no mock that could wait for the others", id)
			}
		}
	}
	check("calls", sortedKeys(e.Calls)...)
	check("inputs", sortedKeys(e.Inputs)...)
	check("outputs", sortedKeys(e.Outputs)...)
	check("terminal", sortedKeys(e.Terminal)...)
	check("configSeen", sortedKeys(e.ConfigSeen)...)
	if e.Error != nil {
		check("error", e.Error.Agent)
		if from, to, ok := strings.Cut(e.Error.Edge, "->"); ok {
			check("error", strings.TrimSpace(from), strings.TrimSpace(to))
		} else if e.Error.Edge != "" {
			r.Add(expect["error"].Key, "expect.error: an edge is written as from->to, not %q", visible.Cut(e.Error.Edge, 60))
		}
	}
	if len(e.FallbackInputHas) > 0 && c.Graph.OnError.Fallback == "" {
		r.Add(expect["fallbackInputHas"].Key, "expect.fallbackInputHas: the graph has no fallbackAgent")
	}
}

// Problem is one error in a file of cases or mocks: its File, its Line, which counts from 1, and a Message.
type Problem = yamldoc.Problem

// Error contains every problem of a file, at least one, in Problems, sorted by line.
type Error = yamldoc.Error

// reader reads a file of cases or mocks.
type reader struct {
	yamldoc.Decoder
	load []agentgraph.Option // options for graphs that must be refused
}
