package routing

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/human"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/router"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/workflowagent"
)

// plan is an agent to be made.
type plan struct {
	name, description string
	policy            agent.TransferPolicy
	returns           agent.ReturnPolicy
	routes            []agent.Route
	kids              []*plan
	router            bool
	rules             []string // of a router: to whom they lead
	fallback          string
	sticky            bool
	workflow, remote  bool
}

var toParent = agent.TransferPolicy{AllowTransferToParent: true}

func (p *plan) make(t require.TestingT) agent.Agent {
	var kids []agent.Agent
	for _, k := range p.kids {
		kids = append(kids, k.make(t))
	}
	switch {
	case p.remote:
		a, err := a2a.Remote(p.name, "http://127.0.0.1:1", a2a.WithDescription(p.description))
		require.NoError(t, err)
		return a
	case p.workflow:
		a, err := workflowagent.Sequential(p.name, p.description, kids)
		require.NoError(t, err)
		return a
	case p.router:
		handles := map[string]*router.Target{agent.Human: router.Human("asked for")}
		opts := []router.Option{router.Description(p.description)}
		for _, k := range kids {
			handles[k.Name()] = router.Specialist(k)
			opts = append(opts, router.Specialists(handles[k.Name()]))
		}
		for _, to := range p.rules {
			opts = append(opts, router.Rules(router.When(router.Keyword("word-"+to)).To(handles[to])))
		}
		opts = append(opts, router.Default(handles[p.fallback]))
		if p.sticky {
			opts = append(opts, router.Sticky())
		}
		a, err := router.New(p.name, opts...)
		require.NoError(t, err)
		return a
	}
	opts := []llmagent.Option{llmagent.WithDescription(p.description), llmagent.WithTransferPolicy(p.policy), llmagent.WithSubAgents(kids...), llmagent.WithRoutes(p.routes...)}
	if p.returns == agent.ReturnToParent {
		opts = append(opts, llmagent.WithReturn(agent.ReturnToParent))
	}
	a, err := llmagent.New(p.name, "Be kind.", offline.New(), opts...)
	require.NoError(t, err)
	return a
}

// lint returns what is found about a plan, as kind and sorted names.
func (p *plan) lint(t require.TestingT, opts ...agent.TreeOption) (found []string) {
	tree, err := agent.NewTree(p.make(t), opts...)
	require.NoError(t, err)
	for _, f := range Lint(tree, nil) {
		names := slices.Clone(f.Agents)
		slices.Sort(names)
		found = append(found, string(f.Kind)+" "+strings.Join(names, " "))
		require.NotEmpty(t, f.Message)
		require.Less(t, len(f.Message), 3000)
		require.True(t, strings.HasPrefix(f.String(), f.Agents[0]+": "))
	}
	slices.Sort(found)
	return found
}

// treeGen draws a tree of agents that hand back to their parents, whose siblings do different things.
func treeGen(t *rapid.T, sets []set) *plan {
	n := 0
	var level func(p *plan, depth int)
	level = func(p *plan, depth int) {
		s := sets[rapid.IntRange(0, len(sets)-1).Draw(t, "set")]
		count := rapid.IntRange(2, len(s.agents)).Draw(t, "agents")
		for _, a := range s.agents[:count] {
			kid := &plan{name: fmt.Sprintf("%s-%d", a.Name, n), description: a.Description, policy: toParent}
			n++
			if p.kids = append(p.kids, kid); depth < 2 && rapid.IntRange(0, 3).Draw(t, "deeper") == 0 {
				level(kid, depth+1)
			}
		}
	}
	root := &plan{name: "root", description: "Finds the right specialist"}
	level(root, 0)
	return root
}

func (p *plan) all() (list []*plan) {
	list = append(list, p)
	for _, k := range p.kids {
		list = append(list, k.all()...)
	}
	return list
}

// TestPlantedFaults: each fault that is planted in a tree is found, and nothing else changes; and the
// order of children decides nothing.
func TestPlantedFaults(t *testing.T) {
	sets := setsOf(t, "testdata/distinct.txt")
	rapid.Check(t, func(t *rapid.T) {
		root := treeGen(t, sets)
		before := root.lint(t)
		all := root.all()[1:]
		at := all[rapid.IntRange(0, len(all)-1).Draw(t, "at")]
		var parent *plan
		for _, p := range root.all() {
			if slices.Contains(p.kids, at) {
				parent = p
			}
		}
		want := slices.Clone(before)
		switch rapid.IntRange(0, 3).Draw(t, "fault") {
		case 0: // the same words in another order
			words := strings.Fields(at.description)
			rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "shuffle"), 1)).Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
			parent.kids = append(parent.kids, &plan{name: "again", description: strings.Join(words, " "), policy: toParent})
			twins := []string{"again", at.name}
			slices.Sort(twins)
			require.Contains(t, root.lint(t), "alike "+strings.Join(twins, " "))
			return // it changes how much the words of its siblings weigh
		case 1:
			at.description = rapid.SampledFrom([]string{"", " \n", "Helps users", "Hilft Kunden", at.name, "An assistant that answers questions.", "Refunds"}).Draw(t, "empty")
			got := root.lint(t)
			require.Contains(t, got, "says-nothing "+at.name)
			return // it was perhaps like another one before
		case 2: // and it offers nobody, so that those whom it offered may not be side by side any more
			at.policy = agent.TransferPolicy{}
			got := root.lint(t)
			require.Subset(t, append(want, "keeps "+at.name), got)
			require.Contains(t, got, "keeps "+at.name)
			want = got
		case 3: // a router below which one is lost
			lost := &plan{name: "lost", description: "Opening hours and holidays"}
			kept := &plan{name: "kept", description: "Directions and maps"}
			parent.kids = append(parent.kids, &plan{name: "rules", description: "Everything on visiting the shop in person", router: true, fallback: "kept", kids: []*plan{kept, lost}})
			want = []string{"unreachable lost"}
			require.Subset(t, root.lint(t), want)
			return
		}
		slices.Sort(want)
		require.Equal(t, want, root.lint(t))
		for _, p := range root.all() {
			slices.Reverse(p.kids)
		}
		require.Equal(t, want, root.lint(t), "the other way round")
	})
}

// TestKeeps: who keeps a conversation, and who only looks so.
func TestKeeps(t *testing.T) {
	bill := func(change ...func(*plan)) *plan {
		p := &plan{name: "billing", description: "Refunds, invoices, payments"}
		for _, c := range change {
			c(p)
		}
		return p
	}
	tech := &plan{name: "tech", description: "Network, router, slow connections", policy: toParent}
	desk := func(kids ...*plan) *plan { return &plan{name: "support", kids: kids} }
	for name, c := range map[string]struct {
		tree *plan
		want []string
		opts []agent.TreeOption
	}{
		"nobody to hand over to":    {desk(bill(), tech), []string{"keeps billing"}, nil},
		"to the parent":             {desk(bill(func(p *plan) { p.policy = toParent }), tech), nil, nil},
		"to peers":                  {desk(bill(func(p *plan) { p.policy.AllowTransferToPeers = true }), tech), nil, nil},
		"nobody else is there":      {desk(bill()), nil, nil},
		"the parent answers next":   {desk(bill(func(p *plan) { p.returns = agent.ReturnToParent }), tech), nil, nil},
		"a route":                   {desk(bill(func(p *plan) { p.routes = []agent.Route{agent.OnStop("tech")} }), tech), nil, nil},
		"a person gives it back":    {desk(bill(), tech), nil, []agent.TreeOption{agent.WithHuman(human.NewAgent(human.Log{}))}},
		"those below it do as well": {desk(bill(func(p *plan) { p.kids = []*plan{{name: "eu", description: "Taxes in Europe", policy: toParent}} }), tech), []string{"keeps billing"}, nil},
		"a remote agent":            {desk(bill(func(p *plan) { p.remote, p.policy = true, toParent }), tech), []string{"keeps billing"}, nil},
		"a workflow": {desk(bill(func(p *plan) {
			p.workflow, p.kids = true, []*plan{{name: "one", description: "Reads"}, {name: "two", description: "Writes"}}
		}), tech), nil, nil},
		"below a router": {&plan{name: "front", router: true, rules: []string{"billing"}, fallback: "tech", kids: []*plan{bill(), {name: "tech"}}}, nil, nil},
		"below a sticky router with a rule that leads away": {&plan{name: "front", router: true, sticky: true, rules: []string{"tech", "billing"}, fallback: "tech",
			kids: []*plan{bill(), {name: "tech", policy: agent.TransferPolicy{AllowTransferToPeers: true}}}}, nil, nil},
		"below a sticky router that leaves it there": {&plan{name: "front", router: true, sticky: true, rules: []string{"billing"}, fallback: "tech",
			kids: []*plan{bill(), {name: "tech", policy: agent.TransferPolicy{AllowTransferToPeers: true}}}}, []string{"keeps billing"}, nil},
	} {
		require.Equal(t, c.want, c.tree.lint(t, c.opts...), name)
	}
}

// TestUnreachable: who is below an agent that nothing leads to is named with it, and only there.
func TestUnreachable(t *testing.T) {
	lost := &plan{name: "lost", description: "Opening hours, holidays", kids: []*plan{{name: "deep", description: "Holidays of all countries", policy: toParent}}}
	front := &plan{name: "front", router: true, fallback: "kept", kids: []*plan{{name: "kept"}, lost}}
	require.Equal(t, []string{"unreachable deep lost"}, front.lint(t))
	front.sticky = true
	require.Equal(t, []string{"keeps kept", "unreachable deep lost"}, front.lint(t), "that it would keep the conversation is no news")
	front.kids[0].policy.AllowTransferToPeers, lost.policy.AllowTransferToPeers = true, true
	front.kids[0].description = "Directions, maps"
	require.Empty(t, front.lint(t))
}

// TestInside: what workflows run is looked at, and a conversation inside of them needs no way back.
func TestInside(t *testing.T) {
	inside := &plan{name: "editor", kids: []*plan{{name: "a", description: "Checks spelling and grammar"}, {name: "b", description: "Checks grammar and spelling"}, {name: "c"}}}
	flow := &plan{name: "flow", workflow: true, kids: []*plan{inside}}
	require.Equal(t, []string{"alike a b", "says-nothing c"}, flow.lint(t))
}

// TestHostile: descriptions that nobody means well change nothing but what is found.
func TestHostile(t *testing.T) {
	huge := strings.Repeat("refund\x1b[31m invoice\u202e ", 200_000)
	for _, d := range []string{huge, "\x00\x1b]0;x\x07", strings.Repeat("a", 1<<20), "\xff\xfe", strings.Repeat("退款", 100_000), strings.Repeat("\u0301", 10_000)} {
		tree, err := agent.NewTree((&plan{name: "support", kids: []*plan{{name: "a", description: d}, {name: "b", description: d}, {name: "c", description: "x" + d}}}).make(t))
		require.NoError(t, err)
		for _, f := range Lint(tree, nil) {
			require.Less(t, len(f.Message), 3000)
			require.False(t, strings.ContainsFunc(f.Message, func(r rune) bool { return r < ' ' || r == '\u202e' }), "%q", f.Message)
		}
	}
}

// TestExamples: the trees of this repository have nothing to be said about.
func TestExamples(t *testing.T) {
	var registered []tools.Tool
	for _, name := range []string{"list_charges", "list_orders", "refund_charge"} {
		tool, err := tools.Func(name, "A tool.", func(tools.Context, struct{}) (string, error) { return "", nil })
		require.NoError(t, err)
		registered = append(registered, tool)
	}
	for _, path := range []string{"helpdesk", "support/support", "router/desk", "router/desk/front.yaml", "retail/triage.yaml", "retail/teams/billing",
		"agentgraph/support-router.yaml", "agentgraph/content-pipeline.yaml", "agentgraph/parallel-analysis.yaml", "../cli/internal/tree/scaffold"} {
		files, err := agentfile.Load(filepath.Join("../../examples", path), agentfile.WithModel(offlineModel), agentfile.WithTools(registered...), agentfile.WithoutCredentials())
		require.NoError(t, err, path)
		require.Empty(t, Lint(files.Index(), nil), path)
		require.NoError(t, files.Close())
	}
	bench := &plan{name: "support", description: benchAgents(t)[0].Description}
	for _, a := range benchAgents(t)[1:] {
		bench.kids = append(bench.kids, &plan{name: a.Name, description: a.Description, policy: toParent})
	}
	require.Empty(t, bench.lint(t))
}

// TestPlaces: findings of files are sorted by their places.
func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"support.md": "---\nsubagents: [billing, tech, money]\n---\nHello.", "billing.md": "---\ndescription: Invoices and payments\ntransfer: {parent: true}\n---\n",
		"money.md": "---\ndescription: Payments and invoices\ntransfer: {parent: true}\n---\n", "tech.md": "---\n\nname: tech\ndescription: Helps users\n---\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	files, err := agentfile.Load(dir, agentfile.WithModel(offlineModel))
	require.NoError(t, err)
	var lines []string
	for _, f := range Lint(files.Index(), func(name string) (string, int) {
		s, _ := files.Source(name)
		return filepath.Base(s.File), s.Line
	}) {
		lines = append(lines, f.String())
	}
	require.Equal(t, []string{
		"billing.md:1: billing and money, to which support may transfer, are hard to tell apart: both descriptions have invoices, payments (likeness 1.00); say what only one of them is for",
		"tech.md:3: tech keeps the conversation: it may transfer to no agent, and what the user writes next goes to it as well, unless the runner begins each turn at the root; let it transfer to its parent or its peers, or let its parent answer next",
		"tech.md:3: tech has a description that would fit any agent, by which models choose: say in it what users ask it for",
	}, lines)

}

// TestFunctions: an agent that is a function may hand over to whom its policy allows.
func TestFunctions(t *testing.T) {
	run := func(context.Context, *agent.Invocation) iter.Seq2[*event.Event, error] { return nil }
	one, err := agent.New("one", "", run, agent.WithTransferPolicy(toParent))
	require.NoError(t, err)
	two, err := agent.New("two", "", run)
	require.NoError(t, err)
	root, err := agent.New("root", "", run, agent.WithSubAgents(one, two))
	require.NoError(t, err)
	tree, err := agent.NewTree(root)
	require.NoError(t, err)
	found := Lint(tree, nil)
	require.Len(t, found, 1, "no model is shown their descriptions")
	require.Equal(t, []string{"two"}, found[0].Agents)
}
