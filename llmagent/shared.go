package llmagent

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/transfer"
	"github.com/agentarbor/arbor/view"
)

// mark begins the instructions in a request of agents that share their requests.
const mark = "[Your instructions for this answer]"

// maxAfter is how many tokens may come after the instructions in a request, about.
const maxAfter = 300

// placed returns the messages of a request with the agent's instructions: after the user's message, or the transfer,
// that began the run. The user's message follows once more, because small models answer what they read last. So the
// requests of a run begin alike. In the next turn the instructions are elsewhere, and the endpoint computes anew what
// came after them: if that is much, they come at the end, alone. They also come at the end if the view shows the user's
// message differently, and after an answer or a text that could be taken for instructions. Within a run they only move
// to the end, so that the next request continues the messages before them.
func placed(instructions llm.Message, messages []llm.Message, said string) []llm.Message {
	again := llm.UserText(said)
	at, after := len(messages), llm.CountMessage(&again, nil)
	for ; at > 0 && messages[at-1].Role != llm.RoleUser && !transfers(messages[at-1]); at-- {
		m := &messages[at-1]
		if after += llm.CountMessage(m, nil); m.Role == llm.RoleAssistant && !slices.ContainsFunc(m.Parts, isCall) || instructs(m) {
			after = maxAfter + 1
		}
	}
	shown := slices.ContainsFunc(messages[:at], func(m llm.Message) bool { return m.Role == llm.RoleUser && m.PlainText() == said })
	if after > maxAfter || !shown || strings.TrimSpace(said) == "" || strings.Contains(said, mark) {
		return append(slices.Clip(messages), instructions)
	}
	for at < len(messages) && messages[at].Role == llm.RoleTool { // other results of the answer that transferred
		at++
	}
	return slices.Insert(slices.Clip(messages), at, instructions, again)
}

// instructs reports whether a message contains the mark.
func instructs(m *llm.Message) bool {
	return strings.Contains(m.PlainText(), mark) || slices.ContainsFunc(m.Parts, func(p llm.Part) bool {
		r, _ := p.(llm.ToolResult)
		return strings.Contains(r.Output, mark)
	})
}

func isCall(p llm.Part) bool { _, is := p.(llm.ToolCall); return is }

// transfers reports whether a message is the result of a transfer.
func transfers(m llm.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p llm.Part) bool {
		r, _ := p.(llm.ToolResult)
		return r.Name == agent.TransferTool && !r.IsError
	})
}

// sharedSystem ends the system text of agents that share their requests. %s is the list of the agents of the tree.
const sharedSystem = "These agents answer the user, one at a time:\n%s\nYou are one of them. The end of the conversation, after " + mark +
	", says which one, what you do and which tools you may call. The user does not see it."

// sharingGroup returns the agents that share their requests with the agent at n, including itself, in the order of the
// tree: those whose models have the same name. It returns nil if the agent shares its requests with no other.
func sharingGroup(n *agent.Node) (group []*agent.Node) {
	if !n.Tree().SharesRequests() {
		return nil
	}
	of := func(n *agent.Node) (model string, shares bool) {
		if a, ok := agent.As[*Agent](n.Agent); ok && !a.split {
			return a.model.Name(), true
		}
		return "", false
	}
	model, shares := of(n)
	for other := range n.Tree().Walk() {
		if same, ok := of(other); shares && ok && same == model {
			group = append(group, other)
		}
	}
	if len(group) < 2 {
		return nil
	}
	return group
}

// checkShared returns why an agent cannot share its requests, if the tree requires it to.
func checkShared(a *Agent, n *agent.Node) (problems []string) {
	group := sharingGroup(n)
	if group == nil {
		return nil
	}
	because := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf("agent %q cannot share its requests: ", a.name)+fmt.Sprintf(format, args...))
	}
	first, _ := agent.As[*Agent](group[0].Agent)
	history, common := view.For(n, a.history), view.For(group[0], first.history)
	switch {
	case !history.Whole():
		because("its history is %q, which hides some events", history)
	case common.Whole() && history.String() != common.String():
		because("its history is %q, and that of %q is %q", history, first.name, common)
	}
	if a.compaction != nil {
		because("it compacts its view")
	}
	if n.Edge.HideReason {
		because("its edge hides the reasons of transfers")
	}
	if n.SmallModels() {
		because("small models have one transfer tool per target")
	}
	if w := a.transferOptions; w.name != "" || w.description != "" || w.tools == transfer.ToolPerTarget {
		because("it sets its own transfer tools")
	}
	all := &template{}
	for _, other := range group {
		b, _ := agent.As[*Agent](other.Agent)
		for _, t := range b.tools {
			wrong := all.addShared(other, t.Info().ToolSpec)
			if wrong != "" && other == n {
				because("%s", wrong)
			}
		}
		if all.maxTools = min(all.maxTools, b.maxTools); other == group[0] {
			all.maxTools = b.maxTools
		}
	}
	if have := len(all.tools) + 1; have > all.maxTools && n == group[0] {
		because("together they have %d tools, one of them for transfers, and their endpoint accepts %d", have, all.maxTools)
	}
	return problems
}

// addShared adds a tool of an agent to the tools of the group. It returns why the tool cannot be added, or "".
func (o *template) addShared(n *agent.Node, t llm.ToolSpec) (wrong string) {
	name := n.Agent.Name()
	target, transfers := transfer.DefaultForm(transfer.Shared).TargetOf(n, t.Name)
	if n.Tree().Node(t.Name) != nil || transfers && (target == "" || n.Tree().Node(target) != nil) {
		return fmt.Sprintf("the name of its tool %q means a transfer to an agent of the tree", t.Name)
	}
	before := len(o.tools)
	o.add(t)
	added := &o.tools[before]
	i := slices.IndexFunc(o.tools[:before], func(s llm.ToolSpec) bool { return s.Name == t.Name })
	if i < 0 {
		o.owners = append(o.owners, name)
		return ""
	}
	if same := &o.tools[i]; same.Description != added.Description || !bytes.Equal(same.Parameters, added.Parameters) {
		wrong = fmt.Sprintf("its tool %q differs from the tool with this name of agent %q, and a request has one tool per name", t.Name, o.owners[i])
	}
	o.tools = o.tools[:before]
	return wrong
}

// sharedTemplate returns the part that is the same in the requests of all agents of the group during a turn, or nil if
// the agent shares its requests with no other.
func (x *execution) sharedTemplate(full *template) (*template, error) {
	if full.group == nil {
		return nil, nil
	}
	if o := full.shared.Load(); o != nil {
		return o, nil
	}
	o, sets := &template{maxTools: x.agent.maxTools}, false
	for _, n := range full.group {
		a, _ := agent.As[*Agent](n.Agent)
		k, _, err := a.withSets(x.ctx, n)
		if err != nil { // another agent requires a set that fails
			k = a.own
		}
		sets, o.maxTools = sets || len(a.sets) > 0, min(o.maxTools, a.maxTools)
		for _, t := range k.tools {
			if wrong := o.addShared(n, t.Info().ToolSpec); wrong != "" {
				return nil, &agent.RunError{Agent: a.name, Code: "shared_tools", Err: fmt.Errorf("agent %s cannot share its requests: %s", a.name, wrong)}
			}
		}
	}
	sent, err := tools.ClientToolsIn(x.inv.Metadata())
	if err != nil {
		return nil, err
	}
	if sent != nil {
		r, err := sent.Registry()
		if err != nil {
			return nil, err
		}
		for _, name := range r.Names() {
			if wrong := o.addShared(full.group[0], r.Get(name).Info().ToolSpec); wrong != "" {
				continue // omitted, as from the agent's own tools
			}
		}
	}
	tree := x.inv.Node().Tree()
	o.add(transfer.DefaultForm(transfer.Shared).SharedTool(tree))
	o.system = paragraphs(tree.Root().Properties.GlobalInstruction, fmt.Sprintf(sharedSystem, transfer.Lines(slices.Collect(tree.Walk()))))
	if !sets && sent == nil {
		full.shared.Store(o)
	}
	return o, nil
}

// withoutShared returns the tools of the user's client without those that have the name of a tool of another agent of
// the group, and notices about these. That agent sees all calls and results unchanged, and would read the client's
// answers as results of its own tool.
func (a *Agent) withoutShared(ctx context.Context, n *agent.Node, sent *tools.Registry) (*tools.Registry, []string, error) {
	owners := make(map[string]string)
	for _, other := range sharingGroup(n) {
		b, _ := agent.As[*Agent](other.Agent)
		if b == a {
			continue
		}
		from, _ := list(ctx, b)
		for _, r := range append(from, b.lists.held(from)...) {
			for _, name := range r.Names() {
				owners[name] = b.name
			}
		}
		for name := range b.own.byName {
			owners[name] = b.name
		}
	}
	var kept []tools.Tool
	var notices []string
	for _, name := range sent.Names() {
		if owner := owners[name]; owner == "" {
			kept = append(kept, sent.Get(name))
		} else {
			notices = append(notices, fmt.Sprintf("the tool %q is omitted: agent %q, which shares its requests with %q, has a tool with this name", name, owner, a.name))
		}
	}
	rest, err := tools.NewRegistry(kept...)
	return rest, notices, err
}

// shareRequest changes a request of an agent so that it differs from those of the group only in the agent's instructions. What
// the agent may do stays the same: its calls are checked against its own tools and targets.
func (x *execution) shareRequest(req *llm.Request, full, current *template) error {
	common, err := x.sharedTemplate(full)
	if common == nil || err != nil {
		return err
	}
	req.Allowed = make([]string, 0, len(current.tools))
	for _, t := range current.tools {
		req.Allowed = append(req.Allowed, t.Name)
	}
	can := "You may call no tool now."
	if len(req.Allowed) > 0 {
		can = "You may call only these tools now: " + strings.Join(req.Allowed, ", ") + "."
	}
	own := strings.TrimPrefix(strings.TrimPrefix(req.System, x.inv.Node().Tree().Root().Properties.GlobalInstruction), "\n\n")
	instructions := llm.Message{Role: llm.RoleSystem, Content: llm.Content{Text: mark + "\n" + paragraphs(own, can)}}
	req.System, req.Tools, req.Agent = common.system, common.tools, full.group[0].Path
	req.Messages = placed(instructions, req.Messages, x.inv.Message().PlainText())
	if x.run.Correction != "" {
		req.Messages = append(req.Messages, llm.UserText(x.run.Correction))
	}
	if len(req.Tools) > common.maxTools {
		return &agent.RunError{Agent: x.agent.name, Code: "too_many_tools", Err: fmt.Errorf("the agents that share their requests have %d tools together, and their endpoint accepts %d", len(req.Tools), common.maxTools)}
	}
	return nil
}
