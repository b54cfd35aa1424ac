package conversation

import (
	"encoding/json"
	"slices"

	"github.com/agentarbor/arbor/event"
)

// Status is the progress of a view node or a call.
type Status string

// The values of a status.
const (
	StatusStreaming Status = "streaming" // not complete yet
	StatusComplete  Status = "complete"
	StatusError     Status = "error"
)

// The roles of view nodes.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleSummary   = "summary" // a text that replaces the messages before; see [Active.Summarize]
)

// ViewNode is one part of a message in a chat window: a message of the user, or one answer of a model with its calls
// and their results.
type ViewNode struct {
	// ID is the id of the first graph node that the view node shows.
	ID    string `json:"id"`
	RunID string `json:"runId"`
	// MessageID is the id of the message in the [Hypergraph]. The view nodes of an answer have the same MessageID, and
	// those of each of its agents the same RunID.
	MessageID string `json:"messageId"`
	Role      string `json:"role"`
	Agent     string `json:"agent,omitempty"`
	Text      string `json:"text,omitempty"`
	// Content is the user's content as it was received, if it is not just text.
	Content   json.RawMessage `json:"content,omitempty"`
	Reasoning string          `json:"reasoning,omitempty"`
	ToolCalls []ViewCall      `json:"toolCalls,omitempty"`
	// Branches are the runs inside this one that no call began, such as the children of a workflow.
	Branches [][]ViewNode `json:"branches,omitempty"`
	Status   Status       `json:"status"`
	Error    string       `json:"error,omitempty"`
	// Alternatives are the ids of the first nodes of the runs that can be shown here, including this one, from the
	// oldest to the newest; [Active.Switch] chooses one. Only the first view node of a run with alternatives has them.
	Alternatives []string `json:"alternatives,omitempty"`
}

// ViewCall is a call of a tool.
type ViewCall struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Input    json.RawMessage   `json:"input,omitempty"`
	Output   json.RawMessage   `json:"output,omitempty"`
	IsError  bool              `json:"isError,omitempty"`
	Progress []json.RawMessage `json:"progress,omitempty"`
	// Approval is "pending", "approved" or "denied" if the call needs an approval.
	Approval string `json:"approval,omitempty"`
	// Branches are the threads of the sub-agents inside the call. Each is a run with the runs that follow it.
	Branches [][]ViewNode `json:"branches,omitempty"`
	Status   Status       `json:"status"`
}

// ThreadOptions are options of [Thread]. The zero value shows everything.
type ThreadOptions struct {
	// HideReasoning leaves out the reasoning of models.
	HideReasoning bool
	// CollapseTools shows only the id, the name and the status of calls.
	CollapseTools bool
}

// Thread returns the conversation on the path for a chat window. An agent that has begun and not said anything yet has
// a view node without a text.
//
// The time is proportional to the result, however deeply agents nest. Note that many JSON parsers refuse more than some
// thousand levels.
func Thread(g *Graph, active Active, opts ThreadOptions) []ViewNode {
	p := path{g, active}
	t := threader{path: p, opts: opts, beginnings: p.beginnings(), messages: p.messages()}
	summary, before, steps := p.summarized()
	var out []ViewNode
	if len(before) > 0 {
		first := g.runAt(before[0].run)
		out = append(out, ViewNode{ID: g.at(first.first).id, RunID: first.id, MessageID: t.message(before[0].run), Role: RoleSummary, Text: summary, Status: StatusComplete})
	}
	out = append(out, t.thread(steps)...)
	// A list instead of recursion, because agents can nest deeply.
	for len(t.todo) > 0 {
		b := t.todo[len(t.todo)-1]
		t.todo = t.todo[:len(t.todo)-1]
		*b.to = append([]ViewNode{}, t.thread(p.following(b.run))...)
	}
	return out
}

type threader struct {
	path path
	opts ThreadOptions
	todo []nested

	beginnings beginnings
	messages   messages
}

// message returns the id of the message that contains a run.
func (t *threader) message(ri int32) string { return t.messages.id(t.messages.begin(ri)) }

// nested is a thread inside another one that is not made yet.
type nested struct {
	run int32
	to  *[]ViewNode
}

func (t *threader) thread(steps []step) []ViewNode {
	var out []ViewNode
	for _, s := range steps {
		nodes := t.step(s)
		for i := range nodes {
			nodes[i].MessageID = t.message(s.run)
		}
		if len(nodes) > 0 {
			nodes[0].Alternatives = t.alternatives(s.run)
		}
		out = append(out, nodes...)
	}
	return out
}

// alternatives returns the ids of the first nodes of a run and its alternatives, or nil without alternatives.
func (t *threader) alternatives(ri int32) []string {
	var runs []int32
	switch {
	case t.path.follows(ri):
		runs = t.path.followers(t.path.g.at(t.path.g.runAt(ri).parent).run)
	case t.path.g.runAt(ri).parent == none:
		runs = t.beginnings.after[t.beginnings.before[ri]]
	}
	if len(runs) < 2 {
		return nil
	}
	ids := make([]string, len(runs))
	for i, run := range runs {
		ids[i] = t.path.g.at(t.path.g.runAt(run).first).id
	}
	return ids
}

// draft is an unfinished view node.
type draft struct {
	ViewNode
	text, reasoning []byte
	inside          []int32   // the runs inside it that no call began
	inCalls         [][]int32 // by call: the runs inside it
}

// step returns the view nodes of a run. A result ends an answer: texts and calls after it belong to the next answer.
func (t *threader) step(s step) []ViewNode {
	g, r := t.path.g, t.path.g.runAt(s.run)
	collapsed := t.path.active.collapsed[r.id]
	var drafts []draft
	answered, ended := false, false
	calls := make(map[string][2]int) // node id → draft and call
	at := func(n *node) *draft {
		if len(drafts) == 0 || answered || drafts[len(drafts)-1].Role == RoleUser {
			ended = false
			drafts = append(drafts, draft{ViewNode: ViewNode{ID: n.id, RunID: r.id, Role: RoleAssistant, Agent: t.path.agentOf(r), Status: StatusComplete}})
			answered = false
		}
		return &drafts[len(drafts)-1]
	}
	callOf := func(id string) *ViewCall {
		for _, id := range []string{r.id + ":" + id, id} {
			if i, ok := calls[id]; ok {
				return &drafts[i[0]].ToolCalls[i[1]]
			}
		}
		return nil
	}
	for _, place := range g.run(s.run, s.cut) {
		n := g.at(place)
		switch n.body.kind {
		case event.TypeUser:
			drafts = append(drafts, draft{ViewNode: t.user(n, r.id)})
			ended = true
		case event.TypeText:
			d := at(n)
			d.text = append(d.text, n.text()...)
		case event.TypeReasoning:
			if !collapsed && !t.opts.HideReasoning {
				d := at(n)
				d.reasoning = append(d.reasoning, n.text()...)
			}
		case event.TypeToolCall:
			if collapsed {
				continue
			}
			d := at(n)
			d.ToolCalls, d.inCalls = append(d.ToolCalls, t.call(s, n)), append(d.inCalls, nil)
			calls[n.id] = [2]int{len(drafts) - 1, len(d.ToolCalls) - 1}
		case event.TypeToolResult:
			answered = true
		case event.TypeToolProgress, event.TypeRelay:
			if c := callOf(toolCallID(n)); c != nil {
				t.during(c, n)
			}
		case event.TypeError:
			d := at(n)
			d.Status = StatusError
			if f, ok := n.data().(*event.Failure); ok {
				d.Error = f.Message
			}
			ended = g.nextOf(place) == none
		case event.TypeHarnessEnd:
			ended = true
		}
		if inside := t.inside(place); len(inside) > 0 && !collapsed {
			if i, ok := calls[n.id]; ok {
				drafts[i[0]].inCalls[i[1]] = inside
			} else {
				d := at(n)
				d.inside = append(d.inside, inside...)
			}
		}
	}
	if len(drafts) == 0 && !ended && s.cut == none {
		return []ViewNode{{ID: g.at(r.first).id, RunID: r.id, Role: RoleAssistant, Agent: t.path.agentOf(r), Status: StatusStreaming}}
	}
	return t.finish(drafts, ended || s.cut != none)
}

// inside returns the runs inside a run whose parent is the node.
func (t *threader) inside(place int32) []int32 {
	return slices.DeleteFunc(t.path.spawnedBy(place), t.path.follows)
}

// later adds runs to the list of threads to make, and returns the slice that will contain the threads.
func (t *threader) later(runs []int32) [][]ViewNode {
	if len(runs) == 0 {
		return nil
	}
	threads := make([][]ViewNode, len(runs))
	for i, ri := range runs {
		t.todo = append(t.todo, nested{ri, &threads[i]})
	}
	return threads
}

// finish sets the states that depend on the end of the run. In an open run, the last view node and the open calls are
// streaming. In a run that is over, an open call without a pending approval has failed.
func (t *threader) finish(drafts []draft, ended bool) []ViewNode {
	out := make([]ViewNode, len(drafts))
	for i := range drafts {
		d := &drafts[i]
		out[i] = d.ViewNode
		v := &out[i]
		if v.Role == RoleAssistant {
			v.Text, v.Reasoning = string(d.text), string(d.reasoning)
		}
		v.Branches = t.later(d.inside)
		for j := range v.ToolCalls {
			c := &v.ToolCalls[j]
			switch {
			case c.Status != StatusStreaming && c.Approval == "pending":
				c.Approval = "" // the call ran, and the graph has no decision
			case c.Status == StatusStreaming && ended && c.Approval != "pending":
				c.Status = StatusError
			}
			if t.opts.CollapseTools {
				*c = ViewCall{ID: c.ID, Name: c.Name, Status: c.Status}
			} else {
				c.Branches = t.later(d.inCalls[j])
			}
		}
		if i == len(out)-1 && !ended && v.Status != StatusError {
			v.Status = StatusStreaming
		}
	}
	return out
}

func (t *threader) user(n *node, runID string) ViewNode {
	v := ViewNode{ID: n.id, RunID: runID, Role: RoleUser, Agent: n.body.agent, Status: StatusComplete}
	user, _ := n.data().(*event.User)
	if user == nil {
		return v
	}
	v.Text = user.Content.PlainText()
	if len(user.Content.Parts) > 0 {
		v.Content = lookup(n.payload(), "content")
	}
	return v
}

func (t *threader) call(s step, n *node) ViewCall {
	c := ViewCall{ID: n.id, Status: StatusStreaming}
	if call, ok := n.data().(*event.ToolCall); ok {
		c.Name, c.Input = call.Name, call.Input
	}
	if place := t.path.resultOf(s, n); place != none {
		c.Status = StatusComplete
		if r, ok := t.path.g.at(place).data().(*event.ToolResult); ok {
			c.Output, c.IsError = r.Output, r.IsError
			if r.IsError {
				c.Status = StatusError
			}
		}
	}
	return c
}

// during adds progress or an approval to a call.
func (t *threader) during(c *ViewCall, n *node) {
	switch d := n.data().(type) {
	case *event.ToolProgress:
		c.Progress = append(c.Progress, d.Content)
	case *event.Relay:
		if c.Approval = (Node{n: n}).State(); c.Approval == "" {
			c.Approval = "pending"
		}
	}
}

func toolCallID(n *node) string {
	switch d := n.data().(type) {
	case *event.ToolProgress:
		return d.ToolCallID
	case *event.Relay:
		return d.ToolCallID
	}
	return ""
}
