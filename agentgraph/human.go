package agentgraph

import (
	"encoding/json"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
)

// ApprovalTool is the tool name of the call that asks a person to approve a node. Its input is {agent, question,
// input}: the node's id, the question, and the input that the node would get. The graph makes the call, not a model,
// and no tool with this name runs.
const ApprovalTool = "approve_agent"

// codeDenied is the failure code of a node that a person denied.
const codeDenied = "denied"

// question is an approval request that the graph made.
type question struct {
	node    int
	call    string // the id of the call
	relay   string
	verdict *event.RelayResolved
	settled bool // the call has a result
}

// needsApproval reports whether a node needs an approval that it does not have yet, and adds such a node to those that
// wait.
func (f *flow) needsApproval(i int) bool {
	n := &f.nodes[i]
	if f.plan.nodes[i].Human == nil || n.approved {
		return false
	}
	n.phase = PhaseAsking
	f.awaitingApproval = append(f.awaitingApproval, i)
	return true
}

// decide applies a person's decision about a node.
func (f *flow) decide(i int, verdict *event.RelayResolved) {
	at := slices.Index(f.awaitingApproval, i)
	if at < 0 || f.stopped != nil {
		return
	}
	f.awaitingApproval = slices.Delete(f.awaitingApproval, at, at+1)
	if verdict.Approved {
		f.nodes[i].approved = true
		f.begin(i)
		return
	}
	f.refuse(i, textOf(verdict))
}

// textOf returns a person's decision as text.
func textOf(verdict *event.RelayResolved) string {
	switch {
	case verdict.Approved:
		return "approved"
	case verdict.Reason != "":
		return "denied: " + verdict.Reason
	}
	return "denied"
}

// refuse fails a node that must not run.
func (f *flow) refuse(i int, why string) {
	n := &f.nodes[i]
	f.fail(&failure{node: i, edge: -1, code: codeDenied, message: why, after: n.cause, input: n.input})
}

// parent returns the event that caused the failure, as the parent of a run.
func (fail *failure) parent() string {
	if fail.after != "" {
		return fail.after
	}
	return endOf(fail.cause)
}

// applyApproval applies an event of the graph's own run that is about approvals.
func (rp *replay) applyApproval(e *event.Event) {
	find := func(ok func(q *question) bool) *question {
		if i := slices.IndexFunc(rp.questions, func(q *question) bool { return ok(q) }); i >= 0 {
			return rp.questions[i]
		}
		return nil
	}
	switch d := e.Data.(type) {
	case *event.ToolCall:
		var input approvalInput
		if d.Name != ApprovalTool || json.Unmarshal(d.Input, &input) != nil {
			return
		}
		if node, ok := rp.flow.index[input.Agent]; ok {
			rp.questions = append(rp.questions, &question{node: node, call: e.ID})
		}
	case *event.Relay:
		if q := find(func(q *question) bool { return q.call == d.ToolCallID }); q != nil {
			q.relay = e.ID
		}
	case *event.RelayResolved:
		if q := find(func(q *question) bool { return q.relay == d.RelayID && q.verdict == nil }); q != nil {
			q.verdict = d
			rp.flow.decide(q.node, d)
			rp.advance()
		}
	case *event.ToolResult:
		if q := find(func(q *question) bool { return q.call == e.ID }); q != nil {
			q.settled = true
		}
	case *event.Notice:
		if d.Code == event.NoticeForked {
			rp.failForked()
		}
	}
}

// approved reports whether a person approved exactly what the node would run with: the same question and the same
// input.
func (r *run) approved(i int) bool {
	n := &r.flow.plan.nodes[i]
	digest := tools.Digest(tools.Info{ToolSpec: llm.ToolSpec{Name: ApprovalTool}}, n.Human.By.Needs(), event.EncodeJSON(approvalInput{n.ID, n.Human.Ask, r.flow.nodes[i].input}))
	return slices.ContainsFunc(r.questions, func(q *question) bool { return q.node == i && q.verdict != nil && q.verdict.Digest == digest })
}

// failForked is called where a fork begins. It fails the approved nodes that have not ended: they run in the original
// session, and an approval is for one run only.
func (rp *replay) failForked() {
	rp.index()
	for _, q := range rp.questions {
		if q.verdict == nil || !q.verdict.Approved {
			continue
		}
		for _, open := range []map[string]*call{rp.begun, rp.due} {
			for key, c := range open {
				if c.node != q.node || c.standIn >= 0 || c.rescue {
					continue
				}
				delete(open, key)
				if rp.flow.resumed(c); !c.begun {
					rp.flow.started(c)
				}
				rp.flow.refuse(c.node, "not executed here: "+agent.NotInFork)
				rp.advance()
			}
		}
	}
}

type approvalInput struct {
	Agent    string          `json:"agent"`
	Question string          `json:"question,omitempty"`
	Input    json.RawMessage `json:"input"`
}

// answer yields the results of the approval calls that a person has decided. It returns false if the consumer stopped.
func (r *run) answer(yield func(*event.Event, error) bool) bool {
	for _, q := range r.questions {
		if q.verdict == nil || q.settled {
			continue
		}
		result := &event.ToolResult{Name: ApprovalTool, Output: event.EncodeJSON(textOf(q.verdict)), IsError: !q.verdict.Approved}
		if !yield(&event.Event{ID: q.call, Data: result}, nil) {
			return false
		}
	}
	return true
}

// suspend makes the approval requests of the waiting nodes when nothing else is left to do, and ends the run until an
// answer arrives. It reports whether nodes wait, for approvals or for what their agents asked.
func (r *run) suspend(yield func(*event.Event, error) bool) bool {
	f := r.flow
	if f.stopped != nil {
		f.awaitingApproval = nil
	}
	if len(f.awaitingApproval) == 0 && len(f.pausedCalls) == 0 {
		return false
	}
	slices.Sort(f.awaitingApproval)
	for _, i := range f.awaitingApproval {
		if slices.ContainsFunc(r.questions, func(q *question) bool { return q.node == i && q.verdict == nil && !q.settled }) {
			continue
		}
		n := &f.plan.nodes[i]
		input := event.EncodeJSON(approvalInput{n.ID, n.Human.Ask, f.nodes[i].input})
		call := &event.Event{Data: &event.ToolCall{Name: ApprovalTool, Input: input}, More: true}
		if !yield(call, nil) {
			return true
		}
		relay := &event.Event{Data: &event.Relay{Kind: "permission", ToolCallID: call.ID, Tool: ApprovalTool, Params: input, By: n.Human.By.Needs()}, More: true}
		if !yield(relay, nil) {
			return true
		}
	}
	yield(&event.Event{Data: &event.Finish{Reason: event.FinishReasonInputRequired}}, nil)
	return true
}
