package agentfile

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/workflowagent"
)

// workflowKeys contains the keys of a workflow in a file. Its agents are the definition's sub-agents.
type workflowKeys struct {
	kind        string                 // "" for other agents
	until       *agentgraph.Expression // nil if only the limit and the exit tool end the loop
	keys        []string               // the state keys in until
	limit       int
	concurrency int
	collect     bool
}

var workflowKinds = map[string]func(string, string, []agent.Agent, ...workflowagent.Option) (agent.Agent, error){
	"sequential": workflowagent.Sequential, "parallel": workflowagent.Parallel, "loop": workflowagent.Loop}

// workflowTable returns the keys of workflows.
func workflowTable(p *parser) []yamldoc.Key {
	w := &p.d.workflow
	return []yamldoc.Key{
		yamldoc.Custom("kind", "a text", "sequential", func(k *yamldoc.Key, n yamldoc.Node) {
			v, ok := p.String(k, n)
			if w.kind = v; ok && workflowKinds[v] == nil {
				kinds := []string{"sequential", "parallel", "loop"}
				p.Add(n, "%s must be sequential, parallel or loop, not %q%s", p.Name, v, nearest.Hint(v, kinds))
			}
		}),
		yamldoc.Custom("agents", "a list of names", "[research, write]", p.children),
		yamldoc.Flag("collect", &w.collect),
		yamldoc.Int("concurrency", "4", &w.concurrency),
		yamldoc.Custom("until", "a text", "output.score > 7", func(k *yamldoc.Key, n yamldoc.Node) {
			if source, ok := p.String(k, n); ok {
				w.until, w.keys = p.condition(source, n)
			}
		}),
		yamldoc.Int("limit", "3", &w.limit),
	}
}

// isWorkflow reports whether the agent runs other agents instead of a model.
func (d *definition) isWorkflow() bool { return d.workflow.kind != "" }

// workflowOnly reports keys that are not allowed in a workflow, and workflow keys in other agents.
func workflowOnly(p *parser) {
	at, present := p.keys["kind"]
	kind := p.d.workflow.kind
	if !present || p.d.leaf() || p.d.router != nil {
		p.d.workflow = workflowKeys{}
		for _, k := range workflowTable(p) {
			if at, present := p.keys[k.Name]; present && !p.d.leaf() && p.d.router == nil {
				p.add(at, "the key %q is for workflows, and there is no key kind", k.Name)
			}
		}
		return
	}
	own := []string{"name", "description", "history", "guards", "budgets", "ignore", "mcp", "kind", "agents", "endpoint", "reasoning"}
	only := map[string]string{"collect": "parallel", "concurrency": "parallel", "until": "loop", "limit": "loop"}
	for _, k := range p.Top {
		at, present := p.keys[k.Name]
		of := only[k.Name]
		switch {
		case !present || slices.Contains(own, k.Name) || of == kind || of != "" && workflowKinds[kind] == nil:
		case of != "":
			p.add(at, "the key %q is for %s, not for %s", k.Name, of, kind)
		case k.Name == "subagents":
			p.add(at, "the key %q does not go with kind: the agents of a workflow are listed under agents", k.Name)
		case k.Name == "transfer" || k.Name == "routes":
			p.add(at, "the key %q does not go with kind: a workflow transfers to no agent; its parent answers next", k.Name)
		default:
			p.add(at, "the key %q does not go with kind: a workflow has no model, and its agents have their own", k.Name)
		}
	}
	if _, listed := p.keys["agents"]; !listed || len(p.d.subagents) == 0 && !p.d.incomplete {
		p.add(at, "a workflow runs agents: list them with agents: [first, second]")
		p.d.incomplete = true
	}
	p.d.listed = true
	for i := range p.d.subagents {
		if item := &p.d.subagents[i]; item.value == agent.Human {
			p.add(item.at, "a person cannot be an agent of a workflow: let one of its agents ask, with a tool or an approval")
			item.unusable = true
		}
	}
	p.noBody("kind", "the key kind on line %d says what the agent is, and a workflow has no system prompt")
}

// checkWorkflow reports transfer keys without effect in the agents of a workflow.
func (l *loader) checkWorkflow(r *report, d *definition) {
	for _, e := range d.children {
		for _, where := range []string{"parent", "peers"} {
			if at, present := e.child.at["transfer."+where]; present && (where == "parent" && e.child.policy.AllowTransferToParent || where == "peers" && e.child.policy.AllowTransferToPeers) {
				r.add(e.child.file, at, "transfer.%s has no effect: %q runs in the workflow %q, whose agents can transfer to their own sub-agents only", where, e.child.name, d.name)
			}
		}
	}
}

// inWorkflow reports whether the agent runs in a workflow, so that it cannot transfer to a parent or peers.
func (d *definition) inWorkflow() bool {
	return slices.ContainsFunc(d.parents, func(e *edge) bool { return e.parent.isWorkflow() })
}

func (l *loader) workflowAgent(r *report, d *definition, sources map[string]Source) (agent.Agent, error) {
	var agents []agent.Agent
	for _, e := range d.children {
		child := l.build(r, e.child, sources)
		if child == nil {
			return nil, nil // already reported
		}
		agents = append(agents, child)
	}
	k := &d.workflow
	var opts []workflowagent.Option
	if k.collect {
		opts = append(opts, workflowagent.Collect())
	}
	if k.concurrency > 0 {
		opts = append(opts, workflowagent.WithConcurrency(k.concurrency))
	}
	if k.limit > 0 {
		opts = append(opts, workflowagent.WithLimit(k.limit))
	}
	if k.until != nil {
		opts = append(opts, workflowagent.Until(k.over))
	}
	if d.historySet {
		opts = append(opts, workflowagent.WithHistory(d.history))
	}
	return workflowKinds[k.kind](d.name, d.description, agents, opts...)
}

// over evaluates the condition until.
func (k *workflowKeys) over(_ context.Context, inv *agent.Invocation, output json.RawMessage) (bool, error) {
	input := inv.Input()
	if inv.Scope() == "" {
		input = event.EncodeJSON(inv.Message().PlainText())
	}
	return k.until.WithState(stateOf(inv, k.keys)).Test(agentgraph.OutputValue(output), agentgraph.OutputValue(input))
}
