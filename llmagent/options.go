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

// Option configures an [Agent].
type Option func(*Agent)

// WithDescription sets the text by which other agents, and their models, choose this agent.
func WithDescription(d string) Option { return func(a *Agent) { a.description = d } }

// WithTools gives the agent's model tools, in this order.
func WithTools(t ...tools.Tool) Option { return func(a *Agent) { a.tools = append(a.tools, t...) } }

// WithToolset gives the agent's model the tools of sets, after those of WithTools and in the order of their names. The
// agent asks each set in every step, so a changed list applies from the next step on.
//
// The agent omits a tool whose name belongs to another tool of the agent, to an agent that it can transfer to, or to a
// transfer tool. A notice reports the omission, a set that fails, and a set with tools again if the set is a
// [fmt.Stringer]. The turn continues without the missing tools, unless the set's error wraps tools.ErrRequired, which
// ends the turn.
//
// A rule of the agent's policy matches nothing if no tool has its name or its argument. In that case the agent refuses
// calls of the tools of all sets until the rule matches again.
func WithToolset(sets ...tools.Set) Option {
	return func(a *Agent) { a.sets = append(a.sets, sets...) }
}

// WithSubAgents gives the agent children. Wrap a child in [agent.Via] to set options of the edge to it.
func WithSubAgents(children ...agent.Agent) Option {
	return func(a *Agent) { a.properties.Edges = append(a.properties.Edges, agent.EdgesOf(children)...) }
}

// WithTransferPolicy sets where the agent may transfer to in addition to its children. The zero value allows the
// children only.
func WithTransferPolicy(p agent.TransferPolicy) Option {
	return func(a *Agent) { a.properties.Policy = p }
}

// WithSmallModels is for models that run on a laptop. It applies to the agent and to all LLM agents below it, and
// changes how they see transfers:
//
//   - Each target has its own transfer tool.
//   - After a transfer, the target may transfer only to its children for the rest of its run.
//     ([agent.TransferPolicy.HoldOnArrival] alone ends after the first tool result.)
//   - A run begins with the question of [WithDecision], unless that question has just named the agent.
//
// An agent's own options for the tools and for the question take precedence.
func WithSmallModels() Option { return func(a *Agent) { a.properties.SmallModels = true } }

// WithTransferTools sets how the agent's model sees its targets: transfer.OneTool for all of them, or
// transfer.ToolPerTarget for one tool each. In the second case the tool transfer_to_NAME has the description of the
// agent NAME. The log records a call of either in the same way.
//
// Defaults to one tool, also if t is 0. With [WithSmallModels] the default is one tool per target if the names of
// these tools are legal, [WithTransferTool] sets no name, and the tool choice is not transfer_to_agent. If t is
// transfer.ToolPerTarget and a name is not legal, the tree cannot be built: names of targets may have at most 52
// characters, and must not make the name of another tool.
func WithTransferTools(t transfer.Tools) Option {
	return func(a *Agent) { a.transferOptions.tools = t }
}

// WithTransferInstruction replaces the instruction about transfers in the system text; "" removes it. The text may
// contain placeholders: transfer.TargetsPlaceholder becomes the list of the targets that the request offers,
// transfer.ToolPlaceholder the name of the tool, and transfer.SelfPlaceholder the agent's name and description. A request that
// offers no transfer does not contain the text.
// Defaults to the instructions of [transfer.DefaultForm].
func WithTransferInstruction(text string) Option {
	return func(a *Agent) { a.transferOptions.instruction = &text }
}

// WithTransferTool sets the name and description of the transfer tool in requests. An empty value keeps the default.
// The list of targets follows the description. With transfer.ToolPerTarget, the name is the prefix of all the tools'
// names, and each tool has the description. In the log the tool is always [agent.TransferTool].
func WithTransferTool(name, description string) Option {
	return func(a *Agent) { a.transferOptions.name, a.transferOptions.description = name, description }
}

// WithReturn sets which agent answers the user's next message after this agent has answered.
func WithReturn(p agent.ReturnPolicy) Option {
	return func(a *Agent) { a.properties.Return = p }
}

// WithRoutes gives the agent transfers that need no model; see [agent.OnStop].
func WithRoutes(routes ...agent.Route) Option {
	return func(a *Agent) { a.properties.Routes = append(a.properties.Routes, routes...) }
}

// WithGuards adds checks of what the agent receives and of what it says.
func WithGuards(guards ...agent.Guard) Option {
	return func(a *Agent) { a.properties.Guards = append(a.properties.Guards, guards...) }
}

// WithBudgets limits what the agent may spend and, if the agent is the root, what the whole tree may spend.
func WithBudgets(b agent.Budgets) Option {
	return func(a *Agent) { a.properties.Budgets = b }
}

// instructionFunc returns the instructions for one invocation.
type instructionFunc = func(ctx context.Context, inv *agent.Invocation) (string, error)

// WithInstructionFunc makes the instructions a function of the invocation, in place of the text given to [New]. An
// error of f ends the run. Several goroutines may call f at the same time.
func WithInstructionFunc(f func(ctx context.Context, inv *agent.Invocation) (string, error)) Option {
	return func(a *Agent) {
		if a.instructions = f; f == nil {
			a.problems = append(a.problems, errors.New("the instruction function is nil"))
		}
	}
}

// WithGlobalInstruction sets a text that precedes the instructions of this agent and of all LLM agents below it. The
// global instructions of agents above it come first. Use it for long text that all of them need: the requests of a
// tree then begin with the same text, and an endpoint with a prompt cache need not compute it again after a transfer.
// The agents of a graph and those of an agent tool are separate trees, and do not get the text.
func WithGlobalInstruction(text string) Option {
	return func(a *Agent) { a.properties.GlobalInstruction = text }
}

// WithSettings sets the parameters of the model's requests, such as temperature, token limit, tool choice, stop
// strings and response format. A tool choice that forces calls ("required" or the name of a tool) applies until the
// run has the results of its first calls. After that the model is free to answer.
func WithSettings(s llm.Settings) Option { return func(a *Agent) { a.settings = s } }

// WithHistory sets how much of the conversation the model sees.
// Defaults to view.Full.
func WithHistory(p view.Policy) Option { return func(a *Agent) { a.history = p } }

// WithToolPolicy sets rules that allow calls, deny them or require an approval, in addition to what the tools
// themselves require.
func WithToolPolicy(p *tools.Policy) Option { return func(a *Agent) { a.rules = p } }

// WithTransferApproval requires an approval for every transfer of the agent. See [tools.NeedsApproval] for by.
func WithTransferApproval(by ...tools.By) Option {
	return func(a *Agent) { a.askTransfer, a.transferBy = true, tools.Strictest(by...) }
}

// WithApprover sets who may approve the agent's calls and transfers if neither the tool, nor a rule, nor
// [WithTransferApproval] names anyone.
func WithApprover(by tools.By) Option { return func(a *Agent) { a.approver = by } }

// WithParallelTools limits how many tools of one answer run at the same time. 1 runs them one after the other.
// Defaults to 8.
func WithParallelTools(n int) Option { return func(a *Agent) { a.parallel = n } }

// DefaultMaxTools is the number of tools that OpenAI and most other endpoints accept in a request.
const DefaultMaxTools = 128

// WithMaxTools sets the number of tools that the agent's endpoint accepts in a request, including transfer tools. If
// there are more, one tool serves the transfers to all targets. If there are still too many, the tree cannot be built;
// if the tools of sets are too many, the turn ends with an error.
// Defaults to [DefaultMaxTools], also if n is 0.
func WithMaxTools(n int) Option { return func(a *Agent) { a.maxTools = cmp.Or(n, DefaultMaxTools) } }
