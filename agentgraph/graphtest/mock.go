package graphtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/internal/sleep"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// Mock describes the mock agent of one node. The zero value returns null at once.
type Mock struct {
	// Output is the output of every call: any value with a JSON form.
	Output any
	// Outputs, if not empty, are the outputs of the calls, in order. The last one repeats. Failing calls do not count.
	// Output must not be set too.
	Outputs []any
	// Error, if not empty, is the error of the first Times calls, or of every call if Times is 0.
	Error string
	Times int
	// Delay is the duration of a call, whether it fails or not. It ends early with the call's context.
	Delay time.Duration
	// BlockUntilCancelled makes every call last until its context ends: the node runs until something else stops the
	// run. It gives no output, and excludes Error.
	BlockUntilCancelled bool

	file string
	line int
}

// Agent returns the mock agent. It counts its calls from now on, in all its runs, and sends no text, only the output.
// It is safe for concurrent use. The error reports contradicting fields, or an output without a JSON form.
func (m Mock) Agent(name string) (agent.Agent, error) { return m.agent(name, nil) }

// agent returns the mock agent. Its first call calls first, if it is not nil, and fails with its error.
func (m Mock) agent(name string, first func(context.Context) error) (agent.Agent, error) {
	if problem := m.contradiction(); problem != "" {
		return nil, fmt.Errorf("graphtest: the mock %s: %s", name, problem)
	}
	values := m.Outputs
	if len(values) == 0 {
		values = []any{m.Output}
	}
	outputs := make([]json.RawMessage, len(values))
	for i, v := range values {
		var err error
		if outputs[i], err = plainjson.Marshal(v); err != nil {
			return nil, fmt.Errorf("graphtest: the mock %s: its output has no JSON form: %w", name, err)
		}
	}
	var calls atomic.Int64
	call := func(ctx context.Context) (json.RawMessage, error) {
		n := int(calls.Add(1))
		if n == 1 && first != nil {
			if err := first(ctx); err != nil {
				return nil, err
			}
		}
		if err := sleep.For(ctx, m.Delay); err != nil {
			return nil, err
		}
		if m.BlockUntilCancelled {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		if m.Error != "" && (m.Times == 0 || n <= m.Times) {
			return nil, errors.New(m.Error)
		}
		return outputs[min(n-m.Times, len(outputs))-1], nil
	}
	return agent.New(name, "A mock.", func(ctx context.Context, _ *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			output, err := call(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonStop, Output: output}}, nil)
		}
	})
}

func (m Mock) contradiction() string {
	switch {
	case m.Output != nil && len(m.Outputs) > 0:
		return "output and outputs exclude each other"
	case m.Times < 0:
		return "times must be at least 1"
	case m.Times > 0 && m.Error == "":
		return "times says how many calls fail, and error is missing"
	case m.BlockUntilCancelled && m.Error != "":
		return "blockUntilCancelled and error exclude each other"
	case m.Delay < 0:
		return "the delay is negative"
	}
	return ""
}

// Mocks contains mocks by node id.
type Mocks map[string]Mock

// LoadMocks reads YAML that maps node ids to mocks, for example
//
//	classifier: {output: {intent: billing}}
//	billing:    {error: is down, times: 2, output: done, delay: 50ms}
//	general:    {outputs: [first, second]}
//	audit:      {blockUntilCancelled: true}
//
// file is the file name in errors. The error is an [*Error] with all problems.
func LoadMocks(data []byte, file string) (Mocks, error) {
	r := &reader{}
	r.File = file
	var mocks Mocks
	for i, body := range r.Documents(data, agentgraph.MaxFile) {
		if i > 0 {
			r.Add(body, "a file of mocks holds one document, and this is another one")
			break
		}
		r.Name = "the file"
		mocks = r.mocks(&yamldoc.Key{Type: "a mapping"}, body)
	}
	if len(mocks) == 0 && r.Problems == 0 {
		r.AddAt(1, 0, "the file holds no mock: give the id of an agent, and what it gives, such as a: {output: 1}")
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return mocks, nil
}

func (r *reader) mocks(k *yamldoc.Key, n yamldoc.Node) Mocks {
	mocks := Mocks{}
	r.Values(k, n, func(id string, p yamldoc.Pair) { mocks[id] = r.mock(id, p) })
	return mocks
}

func (r *reader) mock(id string, p yamldoc.Pair) Mock {
	m := Mock{file: r.File, line: p.Key.Line()}
	what, known := "the mock "+visible.Cut(id, 60), r.Problems
	if k := p.Value.Kind(); k != yamldoc.Mapping && k != yamldoc.Nothing {
		r.Add(p.Value, "%s must be a mapping, not %s", what, p.Value.Describe())
		return m
	}
	f := r.Mapping([]yamldoc.Key{
		yamldoc.Value("output", &m.Output),
		yamldoc.Custom("outputs", "a list", "", func(k *yamldoc.Key, n yamldoc.Node) {
			if n.Kind() != yamldoc.List {
				r.WrongType(k, n)
			} else if m.Outputs, _ = r.Any(n).([]any); n.Len() == 0 {
				r.Add(r.Key, "outputs is empty")
			}
		}),
		yamldoc.String("error", "", &m.Error),
		yamldoc.Int("times", "", &m.Times).Or("failTimes"),
		yamldoc.Custom("delay", yamldoc.TimeType, "", func(k *yamldoc.Key, n yamldoc.Node) {
			if _, number := n.Number(); r.Name == "delayMs" && !number {
				r.WrongType(&yamldoc.Key{Type: "a number of milliseconds"}, n)
				return
			}
			m.Delay, _ = r.Time(k, n)
		}).Or("delayMs"),
		yamldoc.Flag("blockUntilCancelled", &m.BlockUntilCancelled)}, "", p.Value)
	if known != r.Problems {
		return m
	}
	problem := m.contradiction()
	_, one := f["output"]
	_, several := f["outputs"]
	_, delayed := f["delay"]
	switch {
	case problem != "":
	case one && several: // output may be null
		problem = "output and outputs exclude each other"
	case m.Error == "" && !one && !several && !m.BlockUntilCancelled && !delayed:
		problem = "it says neither output nor outputs nor error nor blockUntilCancelled"
	}
	if problem != "" {
		r.Add(p.Key, "%s: %s", what, problem)
	}
	return m
}

// walk visits the nodes of a graph. The id of a node in an inner graph contains both ids, as outer/inner. After a node
// with an inner graph, it visits the nodes of that graph if visit returns true.
func walk(g *agentgraph.Graph, prefix string, visit func(id string, n *agentgraph.Node) (inside bool)) {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if id := prefix + n.ID; visit(id, n) && n.Graph != nil {
			walk(n.Graph, id+"/", visit)
		}
	}
}

// Check reports mocks for ids that the graph does not have. The error is an [*Error].
func (m Mocks) Check(g *agentgraph.Graph) error {
	var ids []string
	walk(g, "", func(id string, _ *agentgraph.Node) bool {
		ids = append(ids, id)
		return true
	})
	var problems []Problem
	for id, mock := range m {
		if !slices.Contains(ids, id) {
			problems = append(problems, Problem{File: mock.file, Line: max(mock.line, 1),
				Message: fmt.Sprintf("no agent of the graph has the id %q%s", visible.Cut(id, 60), nearest.Listed(id, ids))})
		}
	}
	slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.Message, b.Message) })
	return yamldoc.AsError(problems)
}

// Unmocked returns the nodes that need an agent and have no mock. For an unmocked node with an inner graph, it returns
// the unmocked nodes of that graph, with ids such as outer/inner.
func (m Mocks) Unmocked(g *agentgraph.Graph) (all []agentgraph.Node) {
	walk(g, "", func(id string, n *agentgraph.Node) bool {
		_, mocked := m[id]
		if !mocked && n.Graph == nil {
			missing := *n
			missing.ID = id
			all = append(all, missing)
		}
		return !mocked
	})
	return all
}

// Agents returns options that replace the graph's agents by the mocks. The id of a mock is a node's id, or outer/inner
// for a node of an inner graph. A mock for an id that the graph does not have is an error.
func (m Mocks) Agents(g *agentgraph.Graph) ([]agentgraph.AgentOption, error) { return m.agents(g, nil) }

func (m Mocks) agents(g *agentgraph.Graph, first map[string]func(context.Context) error) ([]agentgraph.AgentOption, error) {
	if err := m.Check(g); err != nil {
		return nil, err
	}
	var opts []agentgraph.AgentOption
	var failed error
	walk(g, "", func(id string, n *agentgraph.Node) bool {
		mock, ok := m[id]
		if !ok || failed != nil {
			return true
		}
		name := n.ID
		if agent.CheckName(name) != nil { // an id may be any text
			name = "mock"
		}
		var a agent.Agent
		if a, failed = mock.agent(name, first[id]); failed == nil {
			opts = append(opts, agentgraph.WithAgent(id, a))
		}
		return true
	})
	return opts, failed
}
