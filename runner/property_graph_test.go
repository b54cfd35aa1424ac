package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agenttool"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/tools"
)

var (
	someNodes = rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(4, 8))
	nodeKinds = rapid.SampledFrom([]string{"worker", "worker", "pair", "guarded", "function", "function", "graph", "flow", "remote",
		"steps", "steps", "guarded_steps", "steps_on", "switch"})
	someStrategy = rapid.SampledFrom([]agentgraph.Strategy{agentgraph.FailFast, agentgraph.Continue, agentgraph.Retry})
	errNode      = errors.New("the node gives up")
)

// graph makes a random graph whose nodes are agents of all kinds, side by side and one
// after the other. Its nodes have ids that are not their agents' names.
func (w *world) graph(name string, inside bool) agent.Agent {
	n := someNodes.Draw(w.rt, "nodes")
	b := agentgraph.NewBuilder(name)
	shape := &graphShape{nodes: make(map[string]*nodeShape)}
	id := func(i int) string { return name + "-" + strconv.Itoa(i) }
	for i := range n {
		var opts []agentgraph.NodeOption
		node := &nodeShape{rounds: 1}
		shape.nodes[id(i)] = node
		switch oneInTen.Draw(w.rt, "node option") {
		case 7:
			opts = append(opts, agentgraph.AskFirst("May it?"))
			node.asks = true
		case 8:
			opts = append(opts, agentgraph.Retries(1, time.Nanosecond))
			node.attempts = 2
		case 9:
			opts = append(opts, agentgraph.LoopUntil(2, func(v agentgraph.Values) (bool, error) { return len(fmt.Sprint(v.Output)) > 10, nil }))
			node.rounds = 2
		}
		b.Node(id(i), w.node(id(i), inside), opts...)
		if i == 0 {
			b.Entrypoint(id(0))
			continue
		}
		from := rapid.IntRange(0, i-1).Draw(w.rt, "from")
		lead := func(from int) {
			opts := w.edge()
			b.Edge(id(from), id(i), opts...)
			shape.edges = append(shape.edges, edgeShape{id(from), id(i), len(opts) == 0})
		}
		lead(from)
		if i > 1 && oneInFour.Draw(w.rt, "joins") >= 2 {
			if other := rapid.IntRange(0, i-1).Draw(w.rt, "also from"); other != from {
				lead(other)
			}
		}
	}
	h := agentgraph.ErrorHandling{Strategy: someStrategy.Draw(w.rt, "strategy"), MaxRetries: 1 + oneInFour.Draw(w.rt, "retries")%2}
	shape.strategy, shape.concurrency = h.Strategy, oneInFour.Draw(w.rt, "concurrency")
	for _, node := range shape.nodes {
		switch {
		case node.attempts > 0:
		case h.Strategy == agentgraph.Retry:
			node.attempts = 1 + h.MaxRetries
		default:
			node.attempts = 1
		}
	}
	if oneInFour.Draw(w.rt, "fallback") == 3 {
		b.Node(name+"-f", w.computes(name+"-f"))
		h.Fallback = name + "-f"
		shape.fallback = h.Fallback
		shape.nodes[h.Fallback] = &nodeShape{attempts: n, rounds: 1}
	}
	a := must.Get(b.OnError(h).Build(agentgraph.WithSettle(0), agentgraph.WithBackoff(time.Nanosecond, time.Nanosecond),
		agentgraph.WithConcurrency(shape.concurrency)))
	w.graphs[name] = shape
	return a
}

func (w *world) edge() []agentgraph.EdgeOption {
	switch oneInTen.Draw(w.rt, "condition") {
	case 6, 7:
		return []agentgraph.EdgeOption{agentgraph.When(func(v agentgraph.Values) (bool, error) { return len(fmt.Sprint(v.Output))%2 == 0, nil })}
	case 8:
		return []agentgraph.EdgeOption{agentgraph.When(func(v agentgraph.Values) (bool, error) { return strings.Contains(fmt.Sprint(v.Output), "o"), nil })}
	case 9:
		return []agentgraph.EdgeOption{agentgraph.When(func(v agentgraph.Values) (bool, error) {
			return true, map[bool]error{true: errCondition}[strings.Contains(fmt.Sprint(v.Output), "line")]
		})}
	}
	return nil
}

// node makes the agent of a node.
func (w *world) node(id string, inside bool) agent.Agent {
	shared := must.Get(propertyNodes())
	switch kind := nodeKinds.Draw(w.rt, "node"); {
	case kind == "graph" && !inside:
		w.happened["a graph inside of another"] = true
		return w.graph(id+"-g", true)
	case kind == "flow" && !inside:
		return w.flow(id+"-w", true)
	case kind == "graph", kind == "flow", kind == "function":
		return w.computes(id + "-a")
	case kind == "remote":
		return w.remote(id + "-r")
	default:
		return shared[kind]
	}
}

// computes makes a node that is a function: what it does depends on its input alone.
func (w *world) computes(name string) agent.Agent {
	return must.Get(agent.New(name, "A function.", func(_ context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			in := string(inv.Input())
			switch (len(in) + len(name)) % 7 {
			case 0:
				yield(nil, errNode)
			case 1:
				yield(&event.Event{Data: &event.Finish{Output: json.RawMessage(`{"n": [1, 2]}`)}}, nil)
			case 2:
				if yield(&event.Event{Data: &event.State{Delta: map[string]any{"node": name}}, More: true}, nil) {
					yield(&event.Event{Data: &event.Text{Content: "So: " + in}}, nil)
				}
			default:
				yield(&event.Event{Data: &event.Text{Content: "So."}}, nil)
			}
		}
	}))
}

// propertyNodes makes the nodes that have models, once.
var propertyNodes = sync.OnceValues(func() (map[string]agent.Agent, error) {
	box, err := propertyTools()
	if err != nil {
		return nil, err
	}
	var errs []error
	by := make(map[string]tools.Tool)
	for _, t := range box {
		by[t.Info().Name] = t
	}
	routing, err := propertyRouter()
	errs = append(errs, err)
	make := func(name string, opts ...llmagent.Option) agent.Agent {
		a, err := llmagent.New(name, "", &plannedModel{name: name, inner: true}, append(opts,
			llmagent.WithInstructionFunc(instructed))...)
		errs = append(errs, err)
		return a
	}
	function := func(name string, opts ...llmagent.Option) agent.Agent {
		a, err := llmagent.Func(name, "A function.", steps, append(opts, llmagent.WithTools(by["fine"], by["again"], by["ask"], by[inquiry], by["nested"], by["nested_again"], by["nested_steps"], by["broken"], by["remember"]))...)
		errs = append(errs, err)
		return a
	}
	both := agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true}
	return map[string]agent.Agent{
		"worker": make("worker", llmagent.WithTools(by["fine"], by["again"], by[inquiry], by["nested"], by["broken"], by["remember"])),
		"pair": make("pair", llmagent.WithTools(by["fine"]), llmagent.WithSubAgents(
			make("second", llmagent.WithTransferPolicy(both), llmagent.WithTools(by["again"], by["ask"], by[inquiry])),
			function("third", llmagent.WithTransferPolicy(both)))),
		"guarded":       make("guarded", llmagent.WithTools(by["fine"], by["nested_again"]), llmagent.WithGuards(propertyGuard)),
		"switch":        routing.Agent,
		"steps":         function("steps"),
		"guarded_steps": function("guarded_steps", llmagent.WithGuards(propertyGuard)),
		"steps_on": function("steps_on", llmagent.WithSubAgents(
			function("steps_back", llmagent.WithTransferPolicy(both)), make("fourth", llmagent.WithTransferPolicy(both), llmagent.WithTools(by["fine"])))),
	}, errors.Join(errs...)
})

var (
	peerAnswers = rapid.SliceOfN(rapid.SampledFrom([]a2atest.Answer{
		a2atest.Reply(a2atest.Text("Well, ", "so."), a2atest.Completed("")),
		a2atest.Reply(a2atest.Text("Well, ", "so.")),
		a2atest.Reply(a2atest.Message("Hello from afar.")),
		a2atest.Reply(a2atest.Progress("looking"), a2atest.Text("found é")),
		a2atest.Reply(a2atest.InputRequired("Which one?")),
		a2atest.Reply(a2atest.InputRequired("Which one?")),
		a2atest.Reply(a2atest.AuthRequired("Log in there.")),
		a2atest.Reply(a2atest.Failed("no")),
		a2atest.Reply(a2atest.Rejected("not mine")), a2atest.Reply(a2atest.Rejected("not mine")), a2atest.Reply(a2atest.Rejected("not mine")),
		a2atest.Reply(a2atest.Fail(errors.New("no route"))),
		a2atest.Reply(a2atest.Text("a ", "b "), a2atest.Cut()),
	}), 4, 16)
)

// remote makes an agent behind A2A, in this process. When its script is at its end it
// fails, as peers do.
func (w *world) remote(name string) agent.Agent {
	peer := a2atest.New()
	for _, answer := range peerAnswers.Draw(w.rt, "peer") {
		peer.Add(answer)
	}
	a := must.Get(a2a.Remote(name, "", a2a.WithClient(peer), a2a.WithDescription("Far away."), a2a.WithIdleTimeout(time.Minute)))
	w.happened["a remote agent"], w.remotes[name] = true, true
	return a
}

// outside makes an agent of the conversation that is neither a model nor a function of
// this process, nil most often.
func (w *world) outside(name string, routed bool) agent.Agent {
	how := oneInTen.Draw(w.rt, "outside")
	if routed && how >= 5 { // who asks the user something
		how = 7
	}
	switch how {
	case 7, 8:
		w.traits[name] = traits{outside: true}
		a := w.remote(name)
		delete(w.remotes, name)
		w.remotes["/"+name] = true // agents inside of tools may be called the same
		return a
	case 9:
		return w.planned(name)
	}
	return nil
}

// planned makes an agent of the conversation that is a graph or a workflow.
func (w *world) planned(name string) agent.Agent {
	w.traits[name] = traits{outside: true}
	if oneInFour.Draw(w.rt, "workflow") >= 2 {
		return w.flow(name, false)
	}
	return w.graph(name, false)
}

// outsideTool makes an agent tool of such an agent.
func (w *world) outsideTool() (tools.Tool, error) {
	var a agent.Agent
	switch oneInFour.Draw(w.rt, "outside tool") {
	case 0, 1:
		a = w.remote("far")
	case 2:
		a = w.flow("flow"+strconv.Itoa(len(w.flows)), false)
	default:
		a = w.graph("plan"+strconv.Itoa(len(w.graphs)), false)
	}
	return agenttool.New(a, agenttool.WithName("outside"))
}
