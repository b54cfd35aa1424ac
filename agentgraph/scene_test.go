package agentgraph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
)

// scene makes graphs whose agents are of every kind: functions that say something
// before they finish, models with tools, with agents to hand over to and with agents as
// tools, and graphs. They are functions of what they see, so that who goes on after a
// crash does what the first one would have done. Each call is noted.
type scene struct {
	// at, if there is one, is called by each agent, model and tool, with the kind and
	// the name, before it does anything.
	at func(ctx context.Context, call string) error

	mu     sync.Mutex
	called map[string]int
	err    error // the first with which something could not be made
}

func (s *scene) note(ctx context.Context, call string) error {
	s.mu.Lock()
	if s.called == nil {
		s.called = make(map[string]int)
	}
	s.called[call]++
	s.mu.Unlock()
	if s.at == nil {
		return nil
	}
	return s.at(ctx, call)
}

// take returns what was noted since it was called last.
func (s *scene) take() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	called := s.called
	s.called = nil
	return called
}

func (s *scene) failed(err error) {
	if s.err == nil {
		s.err = err
	}
}

// does makes a function agent that yields events, then finishes.
func (s *scene) does(name string, f func(in any) (any, error), first ...event.Data) agent.Agent {
	a, err := agent.New(name, "", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			if err := s.note(ctx, "agent "+name); err != nil {
				yield(nil, err)
				return
			}
			for _, data := range first {
				if !yield(&event.Event{Data: data}, nil) {
					return
				}
			}
			out, err := f(jsonOf(string(inv.Input())))
			if err != nil {
				yield(nil, err)
				return
			}
			yield(&event.Event{Data: &event.Finish{Output: event.EncodeJSON(out)}}, nil)
		}
	})
	s.failed(err)
	return a
}

// model makes an agent with a model that answers according to the last message.
func (s *scene) model(name string, answer func(last llm.Message) []scripted.Item, opts ...llmagent.Option) agent.Agent {
	if s.err != nil {
		return nil
	}
	a, err := llmagent.New(name, "", noting{scripted.Func(name, func(req *llm.Request) scripted.Answer {
		return scripted.Reply(answer(req.Messages[len(req.Messages)-1])...)
	}), s}, append(opts, llmagent.WithDescription("Is "+name+"."))...)
	s.failed(err)
	return a
}

// noting is a model whose calls are noted.
type noting struct {
	llm.Model
	scene *scene
}

func (m noting) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if err := m.scene.note(ctx, "model "+m.Name()); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		m.Model.Generate(ctx, req)(yield)
	}
}

// lookup makes a tool that keeps something in the session's state.
func (s *scene) lookup(name string) tools.Tool {
	t, err := tools.Func(name, "Looks up.", func(c tools.Context, _ struct{}) (string, error) {
		if err := s.note(c, "tool "+name); err != nil {
			return "", err
		}
		c.Set(name, "done")
		return "nothing", nil
	}, tools.Idempotent())
	s.failed(err)
	return t
}

// takes makes a tool that returns what it is given.
func (s *scene) takes(name string) tools.Tool {
	t, err := tools.Func(name, "Takes.", func(c tools.Context, in struct {
		Kind string `json:"kind"`
	}) (any, error) {
		return in, s.note(c, "tool "+name)
	}, tools.Idempotent())
	s.failed(err)
	return t
}

// splits makes a loop over a node that asks a model and one that runs the model's calls, two
// at once.
func (s *scene) splits(name string) *agentgraph.Agent {
	first, second := s.lookup(name+"_one"), s.lookup(name+"_two")
	if s.err != nil {
		return nil
	}
	a, err := llmagent.New(name, "", noting{scripted.Func(name+"_model", func(req *llm.Request) scripted.Answer {
		if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
			return scripted.Reply(scripted.Text("Both."))
		}
		return scripted.Reply(scripted.Text("Let me see."), scripted.CallID("c1", name+"_one", "{}"), scripted.CallID("c2", name+"_two", "{}"))
	}), s}, llmagent.WithTools(first, second))
	s.failed(err)
	body := s.build(agentgraph.NewBuilder(name).Node(name+"_agent", a).Node(name+"_tools", a, agentgraph.ToolsOf(name+"_agent")).
		Edge(name+"_agent", name+"_tools", agentgraph.When(agentgraph.HasCalls)))
	if s.err != nil {
		return nil
	}
	return s.build(agentgraph.NewBuilder(name).Node(name+"_rounds", body,
		agentgraph.LoopOrFail(3, agentgraph.Answered), agentgraph.Output(agentgraph.Answer)))
}

// toolNode makes the agent of a tool node.
func (s *scene) toolNode(t tools.Tool) agent.Agent {
	if s.err != nil {
		return nil
	}
	a, err := agentgraph.Tool(t)
	s.failed(err)
	return a
}

func (s *scene) agentTool(a agent.Agent) tools.Tool {
	if s.err != nil {
		return nil
	}
	t, err := agenttool.New(a)
	s.failed(err)
	return t
}

func (s *scene) build(b *agentgraph.Builder, opts ...agentgraph.AgentOption) *agentgraph.Agent {
	if s.err != nil {
		return nil
	}
	a, err := b.Build(opts...)
	s.failed(err)
	return a
}

type items = []scripted.Item

// hasTool makes an agent that uses a tool once, then says words.
func (s *scene) hasTool(name, words string, use tools.Tool) agent.Agent {
	return s.hasTools(name, words, use)
}

// hasTools makes an agent that uses tools in one answer, then says words.
func (s *scene) hasTools(name, words string, use ...tools.Tool) agent.Agent {
	if s.err != nil {
		return nil
	}
	return s.model(name, func(last llm.Message) items {
		if last.Role == llm.RoleTool {
			return items{scripted.Text(words)}
		}
		calls := items{scripted.Text("Let me see.")}
		for _, t := range use {
			arguments := "{}"
			if strings.Contains(string(t.Info().Parameters), "input") {
				arguments = `{"input": "go"}`
			}
			calls = append(calls, scripted.Call(t.Info().Name, arguments))
		}
		return calls
	}, llmagent.WithTools(use...))
}

// handsOver makes an agent that transfers at once to one that says words.
func (s *scene) handsOver(name, words string) agent.Agent {
	to := name + "_other"
	other := s.model(to, func(llm.Message) items { return items{scripted.Text(words)} })
	return s.model(name, func(llm.Message) items {
		return items{scripted.Text("One moment."), scripted.Call(agent.TransferTool, fmt.Sprintf(`{"agent_name":%q}`, to))}
	}, llmagent.WithSubAgents(other))
}

func same(in any) (any, error) { return in, nil }

func always(out any) func(any) (any, error) { return func(any) (any, error) { return out, nil } }

// inner makes a small graph, whose nodes have names that begin with name.
func (s *scene) inner(name string, opts ...agentgraph.AgentOption) *agentgraph.Agent {
	return s.build(agentgraph.NewBuilder(name).
		Node("in", s.does(name+"_in", same, &event.Text{Content: "In."})).
		Node("left", s.hasTool(name+"_left", `{"side": "left"}`, s.lookup(name+"_lookup"))).
		Node("right", s.does(name+"_right", always("right"), &event.State{Delta: map[string]any{name: "right"}})).
		Node("out", s.does(name+"_out", same)).
		Edge("in", "left").Edge("in", "right").Edge("left", "out").Edge("right", "out"), opts...)
}

// variety makes a graph with a node of every kind. Its flaky node fails in its first
// call and the broken one always, and an edge has no value.
func (s *scene) variety(opts ...agentgraph.AgentOption) *agentgraph.Agent {
	flaky, err := agent.New("flaky", "", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			if err := s.note(ctx, "agent flaky"); err != nil {
				yield(nil, err)
				return
			}
			if strings.Contains(inv.Scope(), ".1/flaky") {
				yield(nil, errors.New("not yet"))
				return
			}
			yield(&event.Event{Data: &event.Text{Content: "Now."}, More: true}, nil)
		}
	})
	s.failed(err)
	kind := func(k string) agentgraph.EdgeOption {
		return agentgraph.When(func(v agentgraph.Values) (bool, error) {
			m, ok := v.Output.(map[string]any)
			if !ok {
				return false, errors.New("no mapping")
			}
			return m["kind"] == k, nil
		})
	}
	expert := s.model("expert", func(llm.Message) items { return items{scripted.Text("It is so.")} })
	b := agentgraph.NewBuilder("variety").
		Node("plan", s.does("plan", always(map[string]any{"kind": "a"}), &event.Text{Content: "Planning."}, &event.State{Delta: map[string]any{"plan": true}})).
		Node("tool", s.hasTool("tool", "```json\n{\"found\": 2}\n```", s.lookup("lookup"))).
		Node("over", s.handsOver("over", "Over.")).
		Node("ask", s.hasTool("ask", "Asked.", s.agentTool(expert))).
		Node("ask2", s.hasTool("ask2", "Asked, too.", s.agentTool(s.inner("deep", agentgraph.WithName("deep"))))).
		Node("inner", s.inner("inner")).
		Node("direct", s.toolNode(s.takes("direct"))).
		Node("rounds", s.splits("rounds")).
		Node("flaky", flaky).
		Node("broken", s.does("broken", func(any) (any, error) { return nil, errors.New("broken") })).
		Node("never", s.does("never", same)).
		Node("join", s.does("join", same, &event.Text{Content: "Together."})).
		Node("last", s.does("last", same)).
		Node("spare", s.does("spare", always(map[string]any{"spare": true})))
	for _, id := range []string{"tool", "over", "ask", "ask2", "inner", "direct", "rounds", "flaky", "broken"} {
		b.Edge("plan", id, kind("a")).Edge(id, "join")
	}
	b.Edge("plan", "never", kind("b")).Edge("join", "last").Edge("never", "last").Edge("over", "never", kind("x"))
	return s.build(b.OnError(agentgraph.ErrorHandling{Strategy: agentgraph.Continue, Fallback: "spare"}), opts...)
}

// steady is a graph in which nothing fails but what is called again.
func (s *scene) steady(opts ...agentgraph.AgentOption) *agentgraph.Agent {
	b := agentgraph.NewBuilder("steady").
		Node("plan", s.does("plan", always(map[string]any{"kind": "a"}), &event.Text{Content: "Planning."})).
		Node("tool", s.hasTool("tool", `{"found": 2}`, s.lookup("lookup"))).
		Node("over", s.handsOver("over", "Over.")).
		Node("inner", s.inner("inner")).
		Node("join", s.does("join", same, &event.Text{Content: "Together."})).
		Node("last", s.does("last", same))
	for _, id := range []string{"tool", "over", "inner"} {
		b.Edge("plan", id).Edge(id, "join")
	}
	return s.build(b.Edge("join", "last"), opts...)
}

// grid makes a graph of so many function nodes in random order. Each says
// something, keeps something and finishes.
func (s *scene) grid(edges func(b *agentgraph.Builder, n int), n int, opts ...agentgraph.AgentOption) *agentgraph.Agent {
	b := agentgraph.NewBuilder("grid")
	for i := range n {
		b.Node(id(i), s.does(id(i), always(i), &event.Text{Content: "I am " + id(i)}, &event.State{Delta: map[string]any{id(i): i}}))
	}
	edges(b, n)
	return s.build(b, opts...)
}

// lines writes events one a line.
func lines(events []*event.Event) string {
	var b strings.Builder
	for _, e := range events {
		line, _ := json.Marshal(e)
		b.Write(append(line, '\n'))
	}
	return b.String()
}
