package a2aserver

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/runner"
)

// question is a call that waits for an approval.
type question struct {
	relayID, callID, tool string
	params                json.RawMessage
}

// ask makes the parts of the message that asks for approvals: words for people, and
// one data part {callId, tool, params} a call for programs. The words show all of what
// a call would run with, each line of long arguments marked as one, because whoever
// answers sees nothing else.
func ask(pending []question) []*sdk.Part {
	var b strings.Builder
	for _, q := range pending {
		tool := visible.Line(q.tool)
		if line, whole := visible.Inline(q.params); whole && line == "" {
			fmt.Fprintf(&b, "The tool %s wants to run. ", tool)
		} else if whole {
			fmt.Fprintf(&b, "The tool %s wants to run with %s. ", tool, line)
		} else {
			fmt.Fprintf(&b, "The tool %s wants to run with %d bytes of arguments:\n", tool, len(q.params))
			for _, line := range visible.Arguments(q.params) {
				b.WriteString("│ " + line + "\n")
			}
		}
	}
	if len(pending) == 1 {
		b.WriteString("Answer yes to let it run, or no.")
	} else {
		b.WriteString("Answer each call with a data part {\"callId\", \"approved\"}.")
	}
	parts := []*sdk.Part{textPart(b.String())}
	for _, q := range pending {
		parts = append(parts, sdk.NewDataPart(map[string]any{"callId": q.callID, "tool": q.tool, "params": jsonValue(q.params)}))
	}
	return parts
}

// resolved tells of a decision as of the message that made it. The task goes on.
func (p *projection) resolved(e *event.Event, d *event.RelayResolved) []sdk.Event {
	text := d.Reason // the client's own words, if it used any
	switch {
	case text != "":
	case d.Approved:
		text = "approved"
	default:
		text = "denied"
	}
	p.say(&sdk.Message{ID: e.ID, Role: sdk.MessageRoleUser, TaskID: p.task.ID, ContextID: p.task.ContextID, Parts: sdk.ContentParts{textPart(text)}})
	return p.status(e, sdk.TaskStateWorking, nil)
}

// decisions reads a message as the answer to the calls that wait. Words answer the
// only one that does. It returns none for words that are neither yes nor no: who was
// not understood is asked again, because nothing may run on a guess.
func decisions(parts sdk.ContentParts, pending []question, by string) ([]runner.Decision, error) {
	waits := make(map[string]bool, len(pending))
	for _, q := range pending {
		waits[q.callID] = true
	}
	var list []runner.Decision
	var words strings.Builder
	for i, p := range parts {
		if p == nil {
			continue
		}
		words.WriteString(p.Text())
		answers, ok := p.Data().([]any)
		if !ok {
			answers = []any{p.Data()}
		}
		for _, a := range answers {
			m, ok := a.(map[string]any)
			if !ok {
				continue
			}
			id, _ := m["callId"].(string)
			approved, isBool := m["approved"].(bool)
			reason, _ := m["reason"].(string)
			switch {
			case !waits[id]:
				return nil, fmt.Errorf("part %d of the message: no call %.40q waits for an approval", i, id)
			case !isBool:
				return nil, fmt.Errorf("part %d of the message: \"approved\" is not true or false", i)
			}
			waits[id] = false // decided twice is refused above
			list = append(list, runner.Decision{CallID: id, Approved: approved, Reason: reason, By: by})
		}
	}
	if len(list) > 0 {
		return list, nil
	}
	if len(pending) != 1 {
		return nil, fmt.Errorf("%d calls wait for approvals: answer each with a data part {\"callId\", \"approved\"}", len(pending))
	}
	text := strings.TrimSpace(words.String())
	if approved, understood := live.YesOrNo(text); understood {
		return []runner.Decision{{CallID: pending[0].callID, Approved: approved, Reason: text, By: by}}, nil
	}
	return nil, nil
}
