package runner_test

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
)

// someDecision says how agents decide who answers, most often by calls alone.
var someDecision = rapid.SampledFrom([]llmagent.Option{nil, nil, nil, nil, nil, nil, llmagent.WithDecision(nil),
	llmagent.WithDecision(nil, llmagent.DecisionThreshold(0.9)), llmagent.WithDecision(nil, llmagent.DecisionThreshold(0), llmagent.DecisionBrief()), llmagent.WithDecision(nil, llmagent.DecisionSchema()),
	llmagent.WithDecision(nil, llmagent.DecisionThreshold(1), llmagent.DecisionQuestion("Whom, é?"))})

// decidesWith is what the questions say of the form of their answers.
var decidesWith = []string{"\nReply with the name and nothing else.", "\nReply with JSON and nothing else: {\"agent\": NAME}, where NAME is one of these names."}

// candidates returns the names that a question who answers lets the model choose
// from, nil for any other request. The agent's own is the last.
func candidates(req *llm.Request) (names []string) {
	if table, brief := strings.CutPrefix(req.System, "agents = {\n"); brief {
		for line := range strings.Lines(strings.TrimSuffix(table, "}")) {
			names = append(names, strings.Split(line, `"`)[1])
		}
		return names
	}
	for _, form := range decidesWith {
		list, asks := strings.CutSuffix(req.System, form)
		if !asks {
			continue
		}
		_, list, _ = strings.Cut(list, "You do not answer yet. You say who answers:")
		for line := range strings.Lines(list) {
			if line, ok := strings.CutPrefix(line, "- "); ok {
				name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
				names = append(names, name)
			}
		}
	}
	return names
}

// decides answers the question who answers. Inner scopes run side by side, so that the
// answer is a function of the request.
func (m *plannedModel) decides(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
	names := candidates(req)
	said := req.Messages
	h := fnv.New32a()
	_, _ = h.Write([]byte(m.name + said[len(said)-1].PlainText()))
	n := int(h.Sum32()>>8) + 7*len(said)
	name, own := names[n%len(names)], names[len(names)-1]
	likely := func(name string, p float64) []scripted.Item {
		others := make(map[string]float64)
		for _, other := range names {
			if other != name {
				others[other] = (1 - p) / float64(len(names)-1)
			}
		}
		if req.ResponseFormat == nil {
			return []scripted.Item{scripted.Likely(name, p, others)}
		}
		return []scripted.Item{scripted.Text(`{"agent": "`), scripted.Likely(name, p, others), scripted.Text(`"}`)}
	}
	items := []scripted.Item{scripted.Usage(1500, 6, 0)}
	switch n / 64 % 10 {
	case 0, 1:
		items = append(items, scripted.Text(`{"agent": "`+name+`"}`))
	case 2, 3, 4:
		items = append(items, likely(name, 0.95)...)
	case 5:
		items = append(items, likely(own, 0.8)...)
	case 6:
		items = append(items, likely(name, 0.25)...)
	case 7:
		items = []scripted.Item{scripted.Text("I would say\x00 nobody")}
	case 8:
		items = []scripted.Item{scripted.Text(`{"agent"`), scripted.Cut()}
	case 9:
		items = []scripted.Item{scripted.Status(500, 0)}
	}
	scripted.Always(m.name, scripted.Reply(items...)).Generate(ctx, req)(yield)
}

// decided holds the question who answers, and that it is asked, against the log: once in
// a run, before anything else. Answered says that the run has an answer.
func (w *world) decided(n *agent.Node, s sent, targets []string, answered bool) {
	names := candidates(s.req)
	switch asks := w.traits[s.agent].decides; {
	case names == nil:
		require.False(w.t, asks && !answered && len(targets) > 0, "%s at %d was not asked who answers", s.agent, s.seq)
	default:
		require.True(w.t, asks && !answered, "%s at %d was asked who answers", s.agent, s.seq)
		require.Equal(w.t, append(reachable(n, targets), s.agent), names, "%s at %d", s.agent, s.seq)
		require.Empty(w.t, offered(w.t, s.req))
		require.NotContains(w.t, s.req.System, "transfer_to_")
		w.happened["a question who answers"] = true
	}
}

// asksAbout reports whether the last words of a question who answers are about what the
// user said; of a long message they have the beginning and the end.
func asksAbout(asked, said string) bool {
	asked, said = strings.TrimSuffix(strings.TrimPrefix(asked, `Message: "`), "\nName:"), strings.TrimSpace(said)
	asked = strings.TrimSuffix(asked, `"`)
	if call, brief := strings.CutPrefix(asked, "route("); brief && json.Unmarshal([]byte(strings.TrimSuffix(call, ")")), &asked) != nil {
		return false
	}
	if len(said) > 2000 {
		return len(asked) > 1800 && strings.HasPrefix(said, asked[:900]) && strings.HasSuffix(said, asked[len(asked)-900:])
	}
	return asked == said
}

// reachable are the agents that a conversation can reach from a node by way of these of
// its targets, and not through the node itself or its other targets, in the tree's order.
func reachable(n *agent.Node, targets []string) (names []string) {
	passed := map[*agent.Node]bool{n: true}
	var walk func(*agent.Node)
	walk = func(m *agent.Node) {
		if passed[m] {
			return
		}
		passed[m] = true
		names = append(names, m.Agent.Name())
		for _, next := range m.Targets() {
			walk(next)
		}
	}
	for _, t := range n.Targets() {
		if !slices.Contains(targets, t.Agent.Name()) {
			passed[t] = true
		}
	}
	for _, t := range n.Targets() {
		walk(t)
	}
	var order []string
	root := n
	for root.Parent != nil {
		root = root.Parent
	}
	var inOrder func(*agent.Node)
	inOrder = func(m *agent.Node) {
		order = append(order, m.Agent.Name())
		for _, c := range m.Children() {
			inOrder(c)
		}
	}
	inOrder(root)
	order = append(order, agent.Human)
	slices.SortFunc(names, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	return names
}

// asksUser holds an event of the conversation against the rule that an agent asks the user whom they mean at most once in
// two turns, unless it had another run since.
func (w *world) asksUser(e *event.Event) {
	s := &w.story
	switch d := e.Data.(type) {
	case *event.Notice:
		if d.Code != event.NoticeAsksUser {
			return
		}
		if len(w.processes[0].Tree().Node(e.Agent).Routes()) > 0 {
			w.t.Fatalf("seq %d: the user is asked by an agent whose routes take the question on", e.Seq)
		}
		last := s.asked[e.Agent]
		if e.Scope != "" || last.run != "" && last.run != e.RunID && last.turn+1 >= s.turns {
			w.t.Fatalf("seq %d: the user is asked whom they mean, again or where there is none", e.Seq)
		}
		s.asked[e.Agent] = askedWhom{e.RunID, s.turns}
		w.happened["a user asked whom they mean"] = true
	case *event.HarnessEnd:
		if e.Scope == "" && s.asked[e.Agent].run != e.RunID {
			delete(s.asked, e.Agent)
		}
	}
}
