package conversation

import (
	"encoding/json"
	"slices"

	"github.com/agentarbor/arbor/event"
)

// Status says how far something has progressed.
type Status string

// The values of a status.
const (
	StatusStreaming Status = "streaming" // more is to come
	StatusComplete  Status = "complete"
	StatusError     Status = "error"
)

// The roles of view nodes.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleSummary   = "summary" // what replaces the messages before; see [Active.Summarize]
)

// ViewNode is one part of a message in a chat window: what the user said, or one
// response of a model with its calls and their results. Fields without a value are
// empty.
type ViewNode struct {
	// ID is that of the first graph node that it shows.
	ID    string `json:"id"`
	RunID string `json:"runId"`
	// MessageID is that of the message in the [Hypergraph]: an answer consists of the
	// view nodes that share one, and RunID tells the agents' parts of it apart.
	MessageID string `json:"messageId"`
	Role      string `json:"role"`
	Agent     string `json:"agent,omitempty"`
	Text      string `json:"text,omitempty"`
	// Content is the user's content as it was received, if it is not just text.
	Content   json.RawMessage `json:"content,omitempty"`
	Reasoning string          `json:"reasoning,omitempty"`
	ToolCalls []ViewCall      `json:"toolCalls,omitempty"`
	// Branches are the runs that began inside of this one without a call, such as
	// the children of a workflow.
	Branches [][]ViewNode `json:"branches,omitempty"`
	Status   Status       `json:"status"`
	Error    string       `json:"error,omitempty"`
	// Alternatives are, on a run's first view node and if there are several, the
	// first nodes of the runs that can be shown here, including this one, from
	// the oldest to the newest; [Active.Switch] chooses.
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
	// Approval is "pending", "approved" or "denied" if somebody is asked.
	Approval string `json:"approval,omitempty"`
	// Branches are what sub-agents do inside of the call, one list a run and those
	// that follow it.
	Branches [][]ViewNode `json:"branches,omitempty"`
	Status   Status       `json:"status"`
}

// ThreadOptions say what [Thread] leaves out. The zero value leaves out nothing.
type ThreadOptions struct {
	// HideReasoning leaves out what models thought.
	HideReasoning bool
	// CollapseTools keeps of calls their ids, names and status.
	CollapseTools bool
}

// Thread returns the conversation on the path as a chat window shows it. An
// agent that has begun and said nothing yet has a view node without words.
//
// It takes time in proportion to what it shows, however deeply agents nest. The
// JSON of a very deep thread is another matter: many parsers give up after some
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
	// Agents can nest deeply: a list of what is still to be done takes the place of
	// recursion.
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

// message returns the id of the message of which a run is a part.
func (t *threader) message(ri int32) string { return t.messages.id(t.messages.begin(ri)) }

// nested is a thread inside of another one that is still to be made.
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

// draft is a view node while it is made.
type draft struct {
	ViewNode
	text, reasoning []byte
	inside          []int32   // runs that began inside of it without a call
	inCalls         [][]int32 // and in each of its calls
}

// step returns the view nodes of a run. A result ends an answer: words and calls
// behind it are the next one.
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
		case KindUser:
			drafts = append(drafts, draft{ViewNode: t.user(n, r.id)})
			ended = true
		case KindText:
			d := at(n)
			d.text = append(d.text, n.text()...)
		case KindReasoning:
			if !collapsed && !t.opts.HideReasoning {
				d := at(n)
				d.reasoning = append(d.reasoning, n.text()...)
			}
		case KindToolCall:
			if collapsed {
				continue
			}
			d := at(n)
			d.ToolCalls, d.inCalls = append(d.ToolCalls, t.call(s, n)), append(d.inCalls, nil)
			calls[n.id] = [2]int{len(drafts) - 1, len(d.ToolCalls) - 1}
		case KindToolResult:
			answered = true
		case KindToolProgress, KindRelay:
			if c := callOf(toolCallID(n)); c != nil {
				t.during(c, n)
			}
		case KindError:
			d := at(n)
			d.Status = StatusError
			if f, ok := n.data().(*event.Failure); ok {
				d.Error = f.Message
			}
			ended = g.nextOf(place) == none
		case KindHarnessEnd:
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

// inside returns the runs that a node has begun inside of its own run.
func (t *threader) inside(place int32) []int32 {
	return slices.DeleteFunc(t.path.spawnedBy(place), t.path.follows)
}

// later notes that the threads of runs are still to be made, and returns the list
// in which they will be.
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

// finish sets what can be said only at the end: in a run that goes on, its last
// view node and its open calls are streaming; in one that is over, a call that
// nobody answered and nobody can decide about has failed.
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
				c.Approval = "" // it went on without a decision that was recorded
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

// during adds to a call what happens while it runs.
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
