package agentfile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/workflowagent"
)

// workflowKeys is what a file says of a workflow. Its agents are in the definition's list
// of sub-agents.
type workflowKeys struct {
	kind        string                 // "" for other agents
	until       *agentgraph.Expression // nil: nothing but the limit and the exit tool
	keys        []string               // of the state, that until may ask for
	limit       int64
	concurrency int64
	collect     bool
}

var workflowKinds = map[string]func(string, string, []agent.Agent, ...workflowagent.Option) (agent.Agent, error){
	"sequential": workflowagent.Sequential, "parallel": workflowagent.Parallel, "loop": workflowagent.Loop}

// workflowTable describes the keys of workflows.
func workflowTable() []key {
	count := func(field func(*definition) *int64) func(*parser, *key, yamldoc.Node) {
		return func(p *parser, k *key, n yamldoc.Node) {
			if v, ok := p.integer(k, n); ok && p.atLeastOne(k, n, v) {
				*field(p.d) = v
			}
		}
	}
	return []key{
		{name: "kind", typ: "a text", example: "sequential", def: "none",
			meaning: "Makes the agent a [workflow](#workflows): `sequential`, `parallel` or `loop`.",
			read: func(p *parser, k *key, n yamldoc.Node) {
				v, ok := p.text(k, n)
				if p.d.workflow.kind = v; ok && workflowKinds[v] == nil {
					kinds := []string{"sequential", "parallel", "loop"}
					p.add(p.at(n), "%s must be sequential, parallel or loop, not %q%s", p.name, v, nearest.Hint(v, kinds))
				}
			}},
		{name: "agents", typ: "a list of names", example: "[research, write]", def: "required in a workflow",
			meaning: "Of a workflow: the agents that it runs, in this order, by name or by file, which may be a graph.",
			read:    children},
		{name: "collect", typ: "true or false", example: "true", def: "false",
			meaning: "Of a parallel workflow: if one agent fails, the others continue, and its output is `{error: …}`.",
			read:    boolean(func(d *definition, b bool) { d.workflow.collect = b })},
		{name: "concurrency", typ: "a whole number", example: "4", def: "no bound",
			meaning: "Of a parallel workflow: how many agents run at once.",
			read:    count(func(d *definition) *int64 { return &d.workflow.concurrency })},
		{name: "until", typ: "a text", example: "output.score > 7", def: "none",
			meaning: "Of a loop: the condition, after each round, that ends it.",
			read: func(p *parser, k *key, n yamldoc.Node) {
				if source, ok := p.text(k, n); ok {
					p.d.workflow.until, p.d.workflow.keys = p.condition(source, p.at(n))
				}
			}},
		{name: "limit", typ: "a whole number", example: "3", def: fmt.Sprint(workflowagent.DefaultLimit),
			meaning: "Of a loop: the most rounds.",
			read:    count(func(d *definition) *int64 { return &d.workflow.limit })},
	}
}

// isWorkflow reports whether the agent runs others in place of a model.
func (d *definition) isWorkflow() bool { return d.workflow.kind != "" }

// workflowOnly reports keys that mean nothing in a workflow, and those of workflows
// elsewhere.
func (p *parser) workflowOnly() {
	at, there := p.keys["kind"]
	kind := p.d.workflow.kind
	if !there || p.d.leaf() || p.d.router != nil {
		p.d.workflow = workflowKeys{}
		for _, k := range workflowTable() {
			if at, there := p.keys[k.name]; there && !p.d.leaf() && p.d.router == nil {
				p.add(at, "the key %q is for workflows, and there is no key kind", k.name)
			}
		}
		return
	}
	own := []string{"name", "description", "history", "guards", "budgets", "ignore", "mcp", "kind", "agents", "endpoint", "reasoning"}
	only := map[string]string{"collect": "parallel", "concurrency": "parallel", "until": "loop", "limit": "loop"}
	for _, k := range keys() {
		at, there := p.keys[k.name]
		of := only[k.name]
		switch {
		case !there || slices.Contains(own, k.name) || of == kind:
		case of != "":
			p.add(at, "the key %q is for %s, not for %s", k.name, of, kind)
		case k.name == "subagents":
			p.add(at, "the key %q does not go with kind: the agents of a workflow are listed under agents", k.name)
		case k.name == "transfer" || k.name == "routes":
			p.add(at, "the key %q does not go with kind: a workflow hands over to nobody; its parent answers next", k.name)
		default:
			p.add(at, "the key %q does not go with kind: a workflow has no model, and its agents have their own", k.name)
		}
	}
	if _, listed := p.keys["agents"]; !listed || len(p.d.subagents) == 0 && !p.d.unsure {
		p.add(at, "a workflow runs agents: list them with agents: [first, second]")
		p.d.unsure = true
	}
	p.d.listed = true
	for i := range p.d.subagents {
		if item := &p.d.subagents[i]; item.value == agent.Human {
			p.add(item.at, "a person is no agent of a workflow: let one of its agents ask, with a tool or an approval")
			item.void = true
		}
	}
	if p.d.body != "" {
		p.add(p.d.bodyAt, "the body must be empty: the key kind on line %d says what the agent is, and a workflow has no system prompt", at.line)
	}
}

// checkWorkflow reports what the agents of a workflow cannot do there.
func (l *loader) checkWorkflow(r *report, d *definition) {
	for _, e := range d.children {
		for _, where := range []string{"parent", "peers"} {
			if at, there := e.child.at["transfer."+where]; there && (where == "parent" && e.child.policy.AllowTransferToParent || where == "peers" && e.child.policy.AllowTransferToPeers) {
				r.add(e.child.file, at, "transfer.%s would allow nothing: %q runs in the workflow %q, whose agents can hand over to their own sub-agents only", where, e.child.name, d.name)
			}
		}
	}
}

// inWorkflow reports whether the agent is one of a workflow's: it has neither a parent nor
// peers to hand over to.
func (d *definition) inWorkflow() bool {
	return slices.ContainsFunc(d.parents, func(e *edge) bool { return e.parent.isWorkflow() })
}

func (l *loader) workflowAgent(r *report, d *definition, sources map[string]Source) (agent.Agent, error) {
	var agents []agent.Agent
	for _, e := range d.children {
		child := l.build(r, e.child, sources)
		if child == nil {
			return nil, nil // which is reported
		}
		agents = append(agents, child)
	}
	k := &d.workflow
	var opts []workflowagent.Option
	if k.collect {
		opts = append(opts, workflowagent.Collect())
	}
	if k.concurrency > 0 {
		opts = append(opts, workflowagent.WithConcurrency(int(k.concurrency)))
	}
	if k.limit > 0 {
		opts = append(opts, workflowagent.WithLimit(int(k.limit)))
	}
	if k.until != nil {
		opts = append(opts, workflowagent.Until(k.over))
	}
	if d.around {
		opts = append(opts, workflowagent.WithHistory(d.history))
	}
	return workflowKinds[k.kind](d.name, d.description, agents, opts...)
}

// over is the condition until in Go.
func (k *workflowKeys) over(_ context.Context, inv *agent.Invocation, output json.RawMessage) (bool, error) {
	input := inv.Input()
	if inv.Scope() == "" {
		input = event.EncodeJSON(inv.Message().PlainText())
	}
	return k.until.WithState(stateOf(inv, k.keys)).Test(agentgraph.OutputValue(output), agentgraph.OutputValue(input))
}
