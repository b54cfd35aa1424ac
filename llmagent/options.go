package llmagent

import (
	"cmp"
	"context"
	"errors"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// Option configures an Agent.
type Option func(*Agent)

// WithDescription sets the description by which other agents choose this one.
func WithDescription(d string) Option { return func(a *Agent) { a.description = d } }

// WithTools gives the agent's model tools, in this order.
func WithTools(t ...tools.Tool) Option { return func(a *Agent) { a.tools = append(a.tools, t...) } }

// WithToolset gives the agent's model the tools of sets, after those of WithTools and in
// the order of their names. The agent asks a set in every step, so a change of its list
// applies from the next step on.
//
// The agent leaves out a tool whose name is taken by another tool of the agent, by an agent
// that it can transfer to or by the tools for transfers, and a notice says so. A notice also
// says if a set fails, and if a set that is a [fmt.Stringer] has tools again. The turn
// continues without those tools, unless the set's error wraps tools.ErrRequired: that ends it. If
// a rule of the agent's policy then matches nothing, because no tool has its name or its argument,
// the agent refuses calls of the tools of all sets until that is mended.
func WithToolset(sets ...tools.Set) Option {
	return func(a *Agent) { a.sets = append(a.sets, sets...) }
}

// WithSubAgents gives the agent children. Wrap one in agent.Via to put options
// on the edge to it.
func WithSubAgents(children ...agent.Agent) Option {
	return func(a *Agent) { a.properties.Edges = append(a.properties.Edges, agent.EdgesOf(children)...) }
}

// WithTransferPolicy allows transfers to the parent and to peers.
func WithTransferPolicy(p agent.TransferPolicy) Option {
	return func(a *Agent) { a.properties.Policy = p }
}

// WithSmallModels is for models that run on a laptop. It applies to the agent and to all LLM agents
// below it, and changes how they are shown transfers: each target has a tool of its own, an
// agent that a transfer has started is offered only its children for the rest of its run
// (agent.TransferPolicy.HoldOnArrival alone ends when a tool has answered), and each run begins with the question of
// [WithDecision]. An agent's own options for the tools and for the question take precedence.
func WithSmallModels() Option { return func(a *Agent) { a.properties.SmallModels = true } }

// WithTransferTools sets whether the agent's model is offered its targets by one tool,
// transfer.OneTool, or by one tool for each, transfer.ToolPerTarget: transfer_to_NAME, with
// the description of the agent NAME. In the log a call of either is the same.
//
// Defaults to one tool, also if t is 0. With [WithSmallModels] it defaults to one for each if the names
// of these tools are legal, WithTransferTool sets no name and the tool choice is not transfer_to_agent.
// Names of targets may then have 52 characters, and must not make the name of another tool. If t is
// transfer.ToolPerTarget and a name is not legal, the tree cannot be built.
func WithTransferTools(t transfer.Tools) Option { return func(a *Agent) { a.wording.tools = t } }

// WithTransferInstruction replaces all that the system text says about transfers; "" leaves it out. Defaults to the
// instructions of [transfer.DefaultForm]. In the text, transfer.TargetsHere
// becomes the list of the targets that the request offers, transfer.ToolHere the
// name of the tool, and transfer.SelfHere the agent's name and description. A request
// that offers no transfer does not contain the text.
func WithTransferInstruction(text string) Option {
	return func(a *Agent) { a.wording.instruction = &text }
}

// WithTransferTool gives the transfer tool another name and description in requests; an
// empty one changes nothing. With transfer.ToolPerTarget the names of all the tools
// begin with the name, and each has the description. The targets follow the description.
// In the log the tool is always agent.TransferTool.
func WithTransferTool(name, description string) Option {
	return func(a *Agent) { a.wording.name, a.wording.description = name, description }
}

// WithReturn sets which agent answers the next message after this agent has answered.
func WithReturn(p agent.ReturnPolicy) Option {
	return func(a *Agent) { a.properties.Return = p }
}

// WithRoutes gives the agent routes to other agents that need no model: agent.OnStop.
func WithRoutes(routes ...agent.Route) Option {
	return func(a *Agent) { a.properties.Routes = append(a.properties.Routes, routes...) }
}

// WithGuards checks what the agent receives and what it says.
func WithGuards(guards ...agent.Guard) Option {
	return func(a *Agent) { a.properties.Guards = append(a.properties.Guards, guards...) }
}

// WithBudgets limits what the agent may spend, and what the whole tree may spend if the agent is its root.
func WithBudgets(b agent.Budgets) Option {
	return func(a *Agent) { a.properties.Budgets = b }
}

// instructionFunc returns the system prompt for one invocation.
type instructionFunc = func(ctx context.Context, inv *agent.Invocation) (string, error)

// WithInstructionFunc makes the system prompt a function of the invocation, in place of the
// text given to New. An error of the function ends the run.
func WithInstructionFunc(f func(ctx context.Context, inv *agent.Invocation) (string, error)) Option {
	return func(a *Agent) {
		if a.instructions = f; f == nil {
			a.problems = append(a.problems, errors.New("the instruction function is nil"))
		}
	}
}

// WithGlobalInstruction sets the text that precedes the own instructions of this agent
// and of all LLM agents below it; global instructions of agents above it come before that text. Use
// it for long text that all of them need. The requests of a tree
// then begin with the same text, and an endpoint with a prompt cache need not compute it
// again after a transfer. The agents of a graph and those of an agent tool
// are trees of their own, and do not get it.
func WithGlobalInstruction(text string) Option {
	return func(a *Agent) { a.properties.GlobalInstruction = text }
}

// WithSettings tunes the generation: temperature, token limit, tool choice, stop
// strings, response format. A tool choice that forces calls, required or the name of a
// tool, applies until the run has the results of its first calls. After that
// the model is free to answer.
func WithSettings(s llm.Settings) Option { return func(a *Agent) { a.settings = s } }

// WithHistory sets how much of the conversation the model sees.
// Defaults to view.Full.
func WithHistory(p view.Policy) Option { return func(a *Agent) { a.history = p } }

// WithToolPolicy decides by rules which calls run, need an approval, or are
// denied, in addition to what the tools themselves demand.
func WithToolPolicy(p *tools.Policy) Option { return func(a *Agent) { a.rules = p } }

// WithTransferApproval makes every transfer of the agent need an approval. By says who may
// give it, as that of [tools.NeedsApproval] does.
func WithTransferApproval(by ...tools.By) Option {
	return func(a *Agent) { a.askTransfer, a.transferBy = true, tools.Strictest(by...) }
}

// WithApprover sets who may approve the agent's calls and transfers for which neither the tool, nor a
// rule, nor [WithTransferApproval] says so.
func WithApprover(by tools.By) Option { return func(a *Agent) { a.approver = by } }

// WithParallelTools limits how many tools of one answer run at the same time; 1 runs them one after the other.
// Defaults to 8.
func WithParallelTools(n int) Option { return func(a *Agent) { a.parallel = n } }

// DefaultMaxTools is the number of tools that OpenAI and most other endpoints accept in a request.
const DefaultMaxTools = 128

// WithMaxTools sets how many tools the agent's endpoint accepts in a request, including those for transfers. Above that
// number, one tool serves the transfers to all targets. If there are still too many, the tree cannot be built. If the
// tools of sets are too many, the turn ends with an error.
// Defaults to [DefaultMaxTools], also if n is 0.
func WithMaxTools(n int) Option { return func(a *Agent) { a.maxTools = cmp.Or(n, DefaultMaxTools) } }
