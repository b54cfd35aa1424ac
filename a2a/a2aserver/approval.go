package a2aserver

import (
	"cmp"
	"fmt"
	"iter"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// askParts returns the parts of the message that asks for answers: one text part for people, and one data part {callId,
// tool, params, digest} per call for programs. For a call that asks for input, the data part also contains the message
// and the schema. The text contains all arguments of a call and marks each line of a long argument as part of it,
// because it is the only thing that the person who answers sees.
func askParts(pending []*event.Relay) []*sdk.Part {
	var b strings.Builder
	for _, q := range pending {
		b.WriteString(live.Question(q))
	}
	switch {
	case len(pending) > 1:
		b.WriteString("Answer each call with a data part {\"callId\", \"approved\", \"digest\"}, or {\"callId\", \"content\"} where it asks something.")
	case pending[0].Kind == event.RelayInput:
		b.WriteString("Answer in words, or with a data part {\"callId\", \"content\"}; {\"callId\", \"approved\": false} declines.")
	default:
		b.WriteString("Answer yes to let it run, or no.")
	}
	parts := []*sdk.Part{textPart(b.String())}
	for _, q := range pending {
		data := map[string]any{"callId": q.ToolCallID, "tool": q.Tool, "params": jsonValue(q.Params), "digest": q.Digest}
		if q.Kind == event.RelayInput {
			data["message"] = q.Message
			if q.Schema != nil {
				data["schema"] = jsonValue(q.Schema)
			}
		}
		parts = append(parts, sdk.NewDataPart(data))
	}
	return parts
}

// onDecision returns the update for a decision, and records the decision as the message that made it. The task
// continues.
func (p *projection) onDecision(e *event.Event, d *event.RelayResolved) []sdk.Event {
	text := d.Reason // the client's own text, if it sent any
	switch {
	case text != "":
	case d.Content != nil:
		text = event.OutputText(d.Content)
	case d.Approved:
		text = "approved"
	default:
		text = "denied"
	}
	p.addMessage(&sdk.Message{ID: e.ID, Role: sdk.MessageRoleUser, TaskID: p.task.ID, ContextID: p.task.ContextID, Parts: sdk.ContentParts{textPart(text)}})
	return p.status(e, sdk.TaskStateWorking, nil)
}

// decisions reads a message as answers to the pending calls, and never to a question that a call asks later. A data part
// must have the digest of the question if the log shows that its call has asked for something else before. Text
// answers the only pending call. If that call waits for an approval and the text is neither yes nor no, decisions
// returns none, so that the server asks again and runs nothing on a guess.
func decisions(parts sdk.ContentParts, pending []*event.Relay, log *session.Reader) ([]runner.Decision, error) {
	waits := make(map[string]*event.Relay, len(pending))
	for _, q := range pending {
		waits[q.ToolCallID] = q
	}
	var list []runner.Decision
	for i, m := range answersOf(parts) {
		id, _ := m["callId"].(string)
		approved, isBool := m["approved"].(bool)
		reason, _ := m["reason"].(string)
		content, answered := m["content"]
		q := waits[id]
		asks := q != nil && q.Kind == event.RelayInput
		digest, _ := m["digest"].(string)
		d := runner.Decision{CallID: id, Approved: approved, Reason: reason, Digest: digest}
		switch {
		case q == nil:
			return nil, fmt.Errorf("part %d of the message: no call %.40q waits for an answer", i, id)
		case asks && answered:
			d.Approved, d.Content = true, event.EncodeJSON(content)
		case asks && (approved || !isBool):
			return nil, fmt.Errorf("part %d of the message: call %.40q asks for \"content\"", i, id)
		case !isBool:
			return nil, fmt.Errorf("part %d of the message: \"approved\" is not true or false", i)
		}
		if err := live.CheckNamed(log, d); err != nil {
			return nil, fmt.Errorf("part %d of the message: %w", i, err)
		}
		d.Digest = cmp.Or(digest, q.Digest)
		delete(waits, id) // the checks above refuse a second decision
		list = append(list, d)
	}
	if len(list) > 0 {
		return list, nil
	}
	if len(pending) != 1 {
		return nil, fmt.Errorf("%d calls wait for answers: answer each with a data part {\"callId\", \"approved\", \"digest\"} or {\"callId\", \"content\"}", len(pending))
	}
	var words strings.Builder
	for _, p := range parts {
		if p != nil {
			words.WriteString(p.Text())
		}
	}
	text, q := strings.TrimSpace(words.String()), pending[0]
	if q.Kind == event.RelayInput {
		if text == "" {
			return nil, nil
		}
		return []runner.Decision{{CallID: q.ToolCallID, Approved: true, Content: live.Content(q, text), Digest: q.Digest}}, nil
	}
	if approved, understood := live.YesOrNo(text); understood {
		return []runner.Decision{{CallID: q.ToolCallID, Approved: approved, Reason: text, Digest: q.Digest}}, nil
	}
	return nil, nil
}

// answersOf returns the answers in the data parts of a message, each with the number of its part. A data part is one
// answer or a list.
func answersOf(parts sdk.ContentParts) iter.Seq2[int, map[string]any] {
	return func(yield func(int, map[string]any) bool) {
		for i, p := range parts {
			if p == nil {
				continue
			}
			answers, ok := p.Data().([]any)
			if !ok {
				answers = []any{p.Data()}
			}
			for _, a := range answers {
				if m, ok := a.(map[string]any); ok && !yield(i, m) {
					return
				}
			}
		}
	}
}

// haveDigests reports whether a message has answers, and each names its question's digest.
func haveDigests(parts sdk.ContentParts) (all bool) {
	for _, a := range answersOf(parts) {
		if digest, _ := a["digest"].(string); digest == "" {
			return false
		}
		all = true
	}
	return all
}
