package routing

import (
	"context"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/internal/asked"
	"github.com/agentarbor/arbor/internal/bm25"
	"github.com/agentarbor/arbor/internal/choice"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools/transfer"
)

// Why is a decision with information from a tree.
type Why struct {
	Decision
	// When is the condition of the router's rule that decided.
	When string `json:"when,omitempty"`
	// Targets are the possible choices: the targets that the agent's model saw, or those of a router. Other agents of
	// the tree were not offered.
	Targets []Target `json:"targets"`
	// Question reports whether the model was asked the routing question, and not for an answer; the agent is then among
	// the targets.
	Question bool `json:"question,omitempty"`
	// Request is the request to the model at the decision, and Tokens its size; nil if the agent has no model, or sent
	// no request. The model is that of the tree.
	Request *asked.Request `json:"request,omitempty"`
	Tokens  int            `json:"tokens,omitempty"`
	// Missing says why there is no more information, "" if nothing is missing.
	Missing string `json:"missing,omitempty"`
}

// Target is a possible choice, with the words of the user that its name or description also contains, and their weight
// by BM25.
type Target struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Shares      []string `json:"shares"`
	Score       float64  `json:"score"`
}

// Explain adds to a decision what the tree of a runner says about it. The current tree may differ from the one that
// decided. It asks no model. The error is the store's, or that of building the request.
func Explain(ctx context.Context, r *runner.Runner, key session.Key, d *Decision) (*Why, error) {
	w := &Why{Decision: *d, Targets: []Target{}}
	n := r.Tree().Node(d.Agent)
	rules, isRouter := (*router.Router)(nil), false
	if n != nil {
		rules, isRouter = agent.As[*router.Router](n.Agent)
	}
	switch {
	case d.Scope != "":
		w.Missing = "it was made in an inner conversation, of a tool or a graph, whose requests cannot be made again"
		return w, nil
	case n == nil:
		w.Missing = "the tree has no agent " + d.Agent + " any more"
		return w, nil
	case isRouter:
		if d.Rule != nil && *d.Rule >= 0 && *d.Rule < len(rules.Rules()) {
			w.When = rules.Rules()[*d.Rule].When
		}
		w.weigh(slices.DeleteFunc(append(slices.Clone(n.Children()), r.Tree().Node(agent.Human)), func(n *agent.Node) bool { return n == nil }))
		w.Missing = "a router asks no model who answers"
		return w, nil
	case d.Kind == ByRoute || d.Kind == ByFailure:
		w.weigh(n.Targets())
		w.Missing = "no model was called: the tree determines which agent is next"
		return w, nil
	}
	p, err := r.PreviewAt(ctx, key, d.At, d.Agent)
	if err != nil {
		return nil, err
	}
	if p == nil {
		w.weigh(n.Targets())
		w.Missing = "the agent has no model of its own"
		return w, nil
	}
	var offered []*agent.Node
	offered, w.Question = offeredIn(p.Request, r.Tree(), n)
	w.weigh(offered)
	request := asked.RequestOf(p.Model, p.Request)
	w.Request, w.Tokens = &request, p.Tokens
	return w, nil
}

// offeredIn returns the targets of a request: those of its tools, or those of the routing question.
func offeredIn(req *llm.Request, tree *agent.Tree, n *agent.Node) (targets []*agent.Node, question bool) {
	for _, t := range n.Targets() {
		if slices.ContainsFunc(req.Tools, func(s llm.ToolSpec) bool { return slices.Contains(s.Aliases, t.Agent.Name()) }) {
			targets = append(targets, t)
		}
	}
	if len(req.Tools) > 0 || !listedIn(req.System, n) {
		return targets, false
	}
	all := slices.Collect(tree.Walk())
	if person := n.Human(); person != nil {
		all = append(all, person)
	}
	for _, t := range all {
		if listedIn(req.System, t) {
			targets = append(targets, t)
		}
	}
	return targets, true
}

// listedIn reports whether the routing question contains an agent, in a line of its own or in the brief table.
func listedIn(system string, n *agent.Node) bool {
	system = "\n" + system + "\n"
	return strings.Contains(system, "\n"+transfer.Lines([]*agent.Node{n})+"\n") ||
		strings.Contains(system, "\nagents = {\n") && strings.Contains(system, "\n    \""+n.Agent.Name()+"\": ")
}

// weigh sets the targets, and the words that they share with the user's message.
func (w *Why) weigh(nodes []*agent.Node) {
	said, query := read(w.Said), bm25.Split(cut(w.Said))
	texts := make([][]bm25.Word, len(nodes))
	for i, n := range nodes {
		texts[i] = bm25.Split(n.Agent.Name() + " " + cut(n.Agent.Description()))
	}
	scores := bm25.Scores(query, texts)
	for i, n := range nodes {
		t := Target{n.Agent.Name(), n.Agent.Description(), []string{}, scores[i]}
		own := read(n.Agent.Name() + " " + n.Agent.Description())
		t.Shares = append(t.Shares, said.shared(own)...)
		w.Targets = append(w.Targets, t)
	}
}

// Choice is how often the samples of a decision chose an agent.
type Choice struct {
	Name  string `json:"name"` // the agent's own name if it would answer, "" for none
	Times int    `json:"times"`
	// Low and High are the bounds of the share of all samples with this choice: the Wilson score interval with a
	// confidence of 95 %.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Confidence is the average probability of the name among all names, by the log probabilities of the answers; nil
	// if the endpoint returns none, or was not asked for them.
	Confidence *float64 `json:"confidence,omitempty"`
}

// Tally counts the choices of samples of a decision. The order is: the targets as they were offered, the agent itself,
// and "" for answers that name no agent. It includes only choices that occurred, and no errors.
func (w *Why) Tally(s *asked.Samples) (choices []Choice) {
	var names []string
	for _, t := range w.Targets {
		names = append(names, t.Name)
	}
	times, sure, known, of := make(map[string]int), make(map[string]float64), make(map[string]int), 0
	for i := range s.Samples {
		a := &s.Samples[i]
		if a.Error != nil {
			continue
		}
		name := w.Agent
		switch {
		case w.Question:
			written := ""
			name, written = choice.Read(a.Words(), names)
			p, ok := choice.Confidence(a.LogProbs, name, written, names)
			if name == "" {
				name, p = choice.Likeliest(a.LogProbs, names, nil)
				ok = name != ""
			}
			if ok {
				sure[name], known[name] = sure[name]+p, known[name]+1
			}
		case a.Transfer != nil:
			name = a.Transfer.To
		}
		of++
		if times[name]++; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range append(names, "") {
		if times[name] == 0 {
			continue
		}
		share := eval.Wilson(times[name], of)
		c := Choice{Name: name, Times: times[name], Low: share.Low, High: share.High}
		if n := known[name]; n > 0 {
			mean := sure[name] / float64(n)
			c.Confidence = &mean
		}
		choices = append(choices, c)
		delete(times, name)
	}
	return choices
}
