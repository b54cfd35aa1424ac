package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"iter"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
)

var errNobody = errors.New("nobody is left to route to")

// router makes a router: what it chooses depends on what the user has said, or on who
// was active before if it is sticky.
func (w *world) router(name string, sticky bool, kids []agent.Agent) agent.Agent {
	w.traits[name] = traits{}
	return must.Get(agent.New(name, "A router.", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
		return func(yield func(*event.Event, error) bool) {
			to, err := w.choose(ctx, inv, sticky)
			if err != nil {
				yield(nil, err)
				return
			}
			w.happen("a router that chooses")
			path, kind := to.GraphPath(), event.TransferTypeBotToBot
			if to.Virtual() {
				path, kind = append(inv.Node().GraphPath(), to.Agent.Name()), event.TransferTypeBotToHuman
			}
			decision, _ := json.Marshal(to.Agent.Name())
			w.chosen = append(w.chosen, choice{inv.RunID(), to.Agent.Name()})
			if w.hash(inv)%16 == 0 {
				w.happen("a turn cancelled when a router has decided")
				w.interrupt()
			}
			if yield(&event.Event{More: true, Data: &event.Route{From: name, To: to.Agent.Name(), Reason: "by the words", GraphPath: path}}, nil) {
				yield(&event.Event{Data: &event.Transfer{To: to.Agent.Name(), RouteDecision: decision, GraphPath: path, TransferType: kind}}, nil)
			}
		}
	}, agent.WithSubAgents(kids...), func(p *agent.Properties) { p.Router = true }))
}

// choose returns who is to answer: nobody who has handed back in this turn.
func (w *world) choose(ctx context.Context, inv *agent.Invocation, sticky bool) (*agent.Node, error) {
	var below []*agent.Node
	var walk func(*agent.Node)
	walk = func(n *agent.Node) {
		for _, kid := range n.Children() {
			below = append(below, kid)
			walk(kid)
		}
	}
	if walk(inv.Node()); inv.Node().Human() != nil {
		below = append(below, inv.Node().Human())
	}
	active, back := "", make(map[string]bool)
	for e, err := range inv.Session().Events(ctx, 0) {
		if err != nil {
			return nil, err
		}
		d, ok := e.Data.(*event.Transfer)
		if !ok || e.Scope != "" || d.Outcome != event.TransferCommitted {
			continue
		}
		if active = d.To; e.TurnID == inv.TurnID() {
			back[d.From] = true // also who gave it to another
		}
	}
	first, asks := int(w.hash(inv)%uint32(len(below))), w.hash(inv)%3 > 0
	for i, n := range below {
		if sticky && n.Agent.Name() == active && !n.Virtual() {
			first = i
			w.happen("a router that sticks to who was active")
		}
	}
	for i := range below {
		n := below[(first+i)%len(below)]
		name := n.Agent.Name()
		if back[name] || inv.Node().InputFor(n) != nil || asks && inv.Runtime().CheckTransfer(ctx, inv, name) != nil {
			continue
		}
		return n, nil
	}
	return nil, errNobody
}

func (w *world) hash(inv *agent.Invocation) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(inv.Message().PlainText() + inv.TurnID()))
	return h.Sum32()
}

// choice is what a router has decided in a run, before it says so.
type choice struct{ run, to string }

// checkDecided: what routers have decided in this action is in the log, whatever came of it.
func (w *world) checkDecided() {
	for _, made := range w.chosen {
		require.True(w.t, slices.ContainsFunc(w.log, func(e *event.Event) bool {
			d, ok := e.Data.(*event.Route)
			return ok && e.RunID == made.run && d.To == made.to
		}), "the decision of run %s for %s is lost", made.run, made.to)
	}
}

// checkAway holds the i-th event of the log against what becomes of an agent that cannot start: it fails
// if a router has chosen it, or if it was to go on for another one.
func (w *world) checkAway(i int) {
	e := w.log[i]
	if !w.away[e.Agent] || e.Scope != "" {
		return
	}
	start := slices.IndexFunc(w.log, func(other *event.Event) bool { return other.RunID == e.RunID })
	if start < 2 {
		return
	}
	if by, ok := w.log[start-2].Data.(*event.Transfer); !ok || by.To != e.Agent || by.TransferType != event.TransferTypeBotToBot {
		return
	}
	switch d := e.Data.(type) {
	case *event.HarnessStart, *event.HarnessEnd, *event.Route, *event.Transfer, *event.Notice:
	case *event.Failure:
		require.Contains(w.t, append([]string{"target_not_ready"}, endsTurn...), d.Code, "seq %d", e.Seq) // a guard, for example, may end the turn first
		w.happen("an agent that was chosen and cannot start")
	default:
		w.t.Fatalf("seq %d: %s has run, and cannot start", e.Seq, e.Agent)
	}
}

// endsTurn are the codes of errors after which nobody goes on.
var endsTurn = []string{"limit", "budget", "transfer_limit", "tripwire", "unknown_usage", "canceled"}

// checkRouted holds the i-th event of the log against the rules of decisions: each is
// followed by its transfer, only routers transfer in a router's name, and an agent goes on
// for one that has failed if its edge says so, and only then.
func (w *world) checkRouted(i int) {
	e, s := w.log[i], &w.story
	tree := w.processes[0].Tree()
	w.checkRuled(i)
	w.checkAway(i)
	switch d := e.Data.(type) {
	case *event.Route:
		if i+1 == len(w.log) {
			w.t.Fatalf("seq %d: a decision without its transfer", e.Seq)
		}
		to, ok := w.log[i+1].Data.(*event.Transfer)
		if !ok || to.To != d.To || to.From != d.From || to.Outcome != event.TransferCommitted {
			w.t.Fatalf("seq %d: the decision for %s is not followed by its transfer", e.Seq, d.To)
		}
		if e.Scope != "" {
			return
		}
		from := tree.Node(d.From)
		if d.Failed == nil {
			require.True(w.t, from.Properties.Router, "seq %d: %s decides, and is no router", e.Seq, d.From)
			return
		}
		w.happened["an agent that goes on for one that failed"] = true
		require.NotContains(w.t, endsTurn, d.Failed.Code, "seq %d: somebody goes on after that", e.Seq)
		if d.Failed.Code == "target_not_ready" {
			w.happen("an agent that goes on for one that cannot start")
		}
		next := from.OnError()
		require.True(w.t, next != nil && next.Agent.Name() == d.To, "seq %d: %s goes on for %s", e.Seq, d.To, d.From)
		if w.stoppedAt > 0 && e.Seq > w.stoppedAt {
			w.t.Fatalf("seq %d: %s goes on for %s after the turn was stopped at %d", e.Seq, d.To, d.From, w.stoppedAt)
		}
	case *event.Transfer:
		if d.Routed() && e.Scope == "" && d.Outcome == event.TransferCommitted && !tree.Node(e.Agent).Properties.Router {
			w.t.Fatalf("seq %d: %s hands over as a router does", e.Seq, e.Agent)
		}
	case *event.Failure:
		if e.Scope != "" || tree.Node(e.Agent) == nil {
			return
		}
		to := tree.Node(e.Agent).OnError()
		for _, code := range endsTurn {
			if d.Code == code {
				return
			}
		}
		if to == nil || w.stopped || w.limits.Transfers > 0 && s.transfers >= w.limits.Transfers || s.repeats(e, to.Agent.Name()) {
			return
		}
		w.t.Fatalf("seq %d: %s does not go on for %s: %s", e.Seq, to.Agent.Name(), e.Agent, d.Message)
	}
}

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
