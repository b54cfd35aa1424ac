package agui

import (
	"encoding/base64"
	"iter"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// replay applies the events of a log up to a position, and returns the messages of a client that has received all of
// them.
func (p *projection) replay(log iter.Seq2[*event.Event, error], upTo int64) ([]*message, error) {
	all := []*message{}
	for e, err := range log {
		if err != nil {
			return nil, err
		}
		if e.Seq > upTo {
			break
		}
		for _, out := range p.apply(session.Position{Seq: e.Seq}, e) {
			all = applyMessage(all, out)
		}
		if d, ok := e.Data.(*event.User); ok {
			all = append(all, userMessageOf(e, d))
		}
	}
	p.usage, p.hasState = nil, false
	return all, nil
}

// applyMessage applies an event to messages as clients do. Texts are complete, because logs have no deltas.
func applyMessage(all []*message, out any) []*message {
	e, ok := out.(*itemEvent)
	if !ok {
		return all
	}
	i := inLastTurn(all, func(m *message) bool {
		return m.has(e.Call) || e.CallName != "" && m.ID == e.Parent && m.Role == "assistant"
	})
	switch {
	case e.Role != "":
		return append(all, &message{Run: e.Run, ID: e.Message, Role: e.Role, Name: e.Name})
	case e.CallName != "":
		if i < 0 {
			i, all = len(all), append(all, &message{Run: e.Run, ID: e.Parent, Role: "assistant"})
		}
		made := call{ID: e.Call, Type: "function"}
		made.Function.Name = e.CallName
		all[i].Calls = append(all[i].Calls, made)
	case e.Content != nil:
		for i++; i > 0 && i < len(all) && all[i].Role == "tool"; {
			i++
		}
		if i == 0 { // no message has the call
			i = len(all)
		}
		all = slices.Insert(all, i, &message{Run: e.Run, ID: e.Message, Role: "tool", Call: e.Call, Content: event.EncodeJSON(*e.Content), Metadata: e.Metadata})
	case e.Call != "" && e.Delta != "":
		all[i].Calls[len(all[i].Calls)-1].Function.Arguments = e.Delta
	case e.Delta != "":
		all[len(all)-1].Content = event.EncodeJSON(e.Delta)
	}
	return all
}

func (m *message) has(id string) bool {
	return id != "" && slices.ContainsFunc(m.Calls, func(c call) bool { return c.ID == id })
}

// inLastTurn returns the index of the last matching message of the last turn, or -1.
func inLastTurn(all []*message, which func(*message) bool) int {
	for i, m := range slices.Backward(all) {
		if m.Role == "user" {
			break
		}
		if which(m) {
			return i
		}
	}
	return -1
}

// messagesKey is the metadata key of a user event for the ids of the page's messages that it contains.
const messagesKey = "arbor.messages"

// idsOf returns the ids of the user's messages in an event. The last one is the id of the event's message.
func idsOf(e *event.Event, d *event.User) (ids []string) {
	kept, _ := d.Metadata[messagesKey].([]any)
	for _, id := range kept {
		if id, ok := id.(string); ok {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		ids = append(ids, e.ID)
	}
	return ids
}

// userMessageOf returns the message of a user event.
func userMessageOf(e *event.Event, d *event.User) *message {
	ids := idsOf(e, d)
	m := &message{ID: ids[len(ids)-1], Role: "user", Content: event.EncodeJSON(d.Content.Text)}
	parts := []part{}
	for _, p := range d.Content.Stored().Parts {
		shown := part{Type: "text"}
		switch p := p.(type) {
		case llm.TextPart:
			shown.Text = &p.Text
		case llm.Media:
			shown.Type, shown.Source = string(p.Kind), &source{"url", p.URL, p.MediaType}
			if p.URL == "" {
				shown.Source = &source{"data", base64.StdEncoding.EncodeToString(p.Data), p.MediaType}
			}
			if strings.HasPrefix(p.MediaType, "video/") {
				shown.Type = "video"
			} else if p.Kind == llm.MediaFile {
				shown.Type = "document"
			}
		}
		parts = append(parts, shown)
	}
	if len(parts) > 0 {
		m.Content = event.EncodeJSON(parts)
	}
	return m
}

// maxSnapshot is the number of bytes from which a snapshot takes no further messages: clients reject a frame of 10 MiB.
const maxSnapshot = 5 << 20

// snapshot sends messages. If they are too many for one frame, it sends the newest ones and the number of the others.
func (p *projection) snapshot(all []*message) {
	from, size := len(all), 0
	for from > 0 && size < maxSnapshot {
		from--
		size += len(all[from].Content) + 256
		for _, c := range all[from].Calls {
			size += len(c.Function.Arguments) + 128
		}
	}
	p.emit(&messagesEvent{head{Type: "MESSAGES_SNAPSHOT"}, all[from:]})
	if from > 0 {
		p.emit(&customEvent{head{Type: "CUSTOM"}, "arbor.clipped", map[string]int{"messages": from}})
	}
}
