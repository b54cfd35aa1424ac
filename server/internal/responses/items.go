package responses

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// item returns the id of an item of the response, by which [ResponseOf] finds the response.
func (id ID) item(name string) string { return name + "@" + id.own() + "." + id.Session }

// question is a question, with the id of its mcp_approval_request.
type question struct {
	*event.Relay
	item string
}

// ResponseOf returns the id of the response that an item's id names.
func ResponseOf(item string) (id ID, ok bool) {
	_, rest, ok := strings.Cut(item, "@")
	if ok {
		id, ok = ParseID("resp_" + rest)
	}
	return id, ok
}

// ReadApproval returns the id of the call to approve, and that of the question's event, from the id of an
// mcp_approval_request. The part of the id after that of the call may be missing; question is "" then.
func ReadApproval(id string) (call, question string, ok bool) {
	id, _, _ = strings.Cut(id, "@")
	call, ok = strings.CutPrefix(id, approvalPrefix)
	call, question, _ = strings.Cut(call, ":")
	return call, question, ok && call != ""
}

// approvalPrefix is the prefix of the ids of requests for an approval. The ids of the call and of the question follow.
const approvalPrefix = "mcpr_"

// Find returns the item with an id in the lists, or nil.
func Find(id string, lists ...[]*Item) *Item {
	for _, list := range lists {
		for _, item := range list {
			if item.ID == id {
				return item
			}
		}
	}
	return nil
}

// addInput adds the item of an event that the response answers.
func (r *Response) addInput(e *event.Event) {
	switch d := e.Data.(type) {
	case *event.User:
		r.Input = append(r.Input, &Item{Type: "message", ID: r.ID.item("msg_in"), Status: "completed", Role: "user", Content: textsOf(d.Unclaimed())})
	case *event.RelayResolved:
		asked, ok := r.relays[d.RelayID]
		if !ok {
			return
		}
		item := &Item{Type: "mcp_approval_response", ID: r.ID.item("mcpa_" + asked.ToolCallID), Approve: &d.Approved, Reason: d.Reason,
			Request: asked.item}
		var text string
		if json.Unmarshal(d.Content, &text) != nil {
			text = string(d.Content)
		}
		call := front.AsCall(r.user, d.RelayID, asked.Relay)
		if call != asked.Relay {
			text = string(event.EncodeJSON(map[string]any{"approved": d.Approved, "reason": d.Reason}))
		}
		switch {
		case call.Client:
			item = &Item{Type: "function_call_output", ID: r.ID.item("fco_" + call.ToolCallID), Status: "completed", CallID: call.ToolCallID, Output: &text}
		case asked.Kind == event.RelayInput && d.Approved:
			item = &Item{Type: "message", ID: r.ID.item("msg_in-" + asked.ToolCallID), Status: "completed", Role: "user", Content: &[]Text{{Type: "input_text", Text: text}}}
		}
		r.Input = append(r.Input, item)
	}
}

// textsOf returns the content of a user's message in the form of the protocol.
func textsOf(c llm.Content) *[]Text {
	all := []Text{}
	if c.Text != "" || len(c.Parts) == 0 {
		all = append(all, Text{Type: "input_text", Text: c.Text})
	}
	for _, part := range c.Parts {
		switch p := part.(type) {
		case llm.TextPart:
			all = append(all, Text{Type: "input_text", Text: p.Text})
		case llm.Media:
			all = append(all, mediaOf(p))
		}
	}
	return &all
}

// mediaOf returns the part of an image or a file. The digest identifies bytes that are stored outside the log.
func mediaOf(m llm.Media) Text {
	url := m.URL
	if len(m.Data) > 0 {
		url = "data:" + m.MediaType + ";base64," + base64.StdEncoding.EncodeToString(m.Data)
	}
	t := Text{Type: "input_file", FileID: m.Digest, FileName: m.Name}
	switch {
	case m.Kind == llm.MediaImage:
		t = Text{Type: "input_image", FileID: m.Digest, ImageURL: url, Detail: "auto"}
	case len(m.Data) > 0:
		t.FileData = url
	default:
		t.FileURL = m.URL
	}
	return t
}

// Items yields the items of a session in their order, or in reverse if back is true. id contains the session and the
// path of its agent. If it contains a turn, the first items are those of this turn; the error is live.ErrNoTurn if the
// session does not have it.
func Items(ctx context.Context, turns *live.Turns, key session.Key, id ID, back bool) iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		first, last := int64(1), int64(0)
		added, _, err := AddedTo(ctx, turns, key, id)
		if id.Turn == beforeFirst {
			last = 1
		} else if id.Turn != "" && err == nil {
			var rep *live.Report
			if rep, err = turns.Report(ctx, key, id.Turn); err == nil {
				first, last = rep.First, rep.First+1
			}
		}
		if err != nil {
			yield(nil, err)
			return
		}
		give := func(items []*Item, err error) bool {
			if err != nil {
				yield(nil, err)
				return false
			}
			if back {
				slices.Reverse(items)
			}
			for _, item := range items {
				if !yield(item, nil) {
					return false
				}
			}
			return true
		}
		if back {
			for e, err := range session.Backward(ctx, turns.Store(), key, last) {
				if err != nil {
					yield(nil, err)
					return
				}
				if _, begins := e.Data.(*event.User); begins {
					items, _, err := itemsAt(ctx, turns.Store(), key, id, e.Seq, added)
					if !give(items, err) {
						return
					}
				}
			}
			give(added.After(beforeFirst), nil)
			return
		}
		goes := first > 1 || give(added.After(beforeFirst), nil)
		for next := first; goes && next > 0; {
			var items []*Item
			items, next, err = itemsAt(ctx, turns.Store(), key, id, next, added)
			goes = give(items, err)
		}
	}
}

// itemsAt returns the items of the first turn that starts at a position or later with those that were added after it,
// and the position of the next turn, or 0 after the last one.
func itemsAt(ctx context.Context, store session.Store, key session.Key, id ID, at int64, added Added) (items []*Item, next int64, err error) {
	var events []*event.Event
	for e, err := range store.Load(ctx, key, at-1) {
		if err != nil {
			return nil, 0, err
		}
		_, begins := e.Data.(*event.User)
		if begins && len(events) > 0 {
			next = e.Seq
			break
		}
		if begins || len(events) > 0 {
			events = append(events, e)
		}
	}
	if len(events) == 0 {
		return nil, 0, nil
	}
	id.Turn, id.Seq = events[0].TurnID, 0
	for over := true; over; { // each response of the turn
		r, rep := New(id, ""), &live.Report{}
		over = false
		for _, e := range events {
			rep.Apply(e)
			if over = errors.Is(r.Apply(session.Entry{Event: e}, rep), ErrOver); over {
				id.Seq = e.Seq
				break
			}
		}
		items = append(append(items, r.Input...), r.Output...)
	}
	return append(items, added.After(id.Turn)...), next, nil
}
