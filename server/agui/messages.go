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

// past brings the projection to a position of a log, and returns the messages of a client who was sent all up to there.
func (p *projection) past(log iter.Seq2[*event.Event, error], upTo int64) ([]*message, error) {
	all := []*message{}
	for e, err := range log {
		if err != nil {
			return nil, err
		}
		if e.Seq > upTo {
			break
		}
		for _, out := range p.apply(session.Position{Seq: e.Seq}, e) {
			all = fold(all, out)
		}
		if d, ok := e.Data.(*event.User); ok {
			all = append(all, said(e, d))
		}
	}
	p.usage, p.stands = nil, false
	return all, nil
}

// fold takes in an event as clients do. Words are whole, because logs have no deltas.
func fold(all []*message, out any) []*message {
	e, ok := out.(*itemEvent)
	if !ok {
		return all
	}
	i := inTurn(all, func(m *message) bool {
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
		if i == 0 { // nobody has made the call
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

// inTurn finds a message of the last turn, -1 if there is none.
func inTurn(all []*message, which func(*message) bool) int {
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

// messagesKey is where the metadata of a user event has the ids of the messages that its words were in.
const messagesKey = "arbor.messages"

// idsOf returns the ids of the user's words, as pages know them. The last one stands for all of them.
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

// said is a message of what the user said.
func said(e *event.Event, d *event.User) *message {
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

// maxSnapshot is how many bytes of messages a snapshot has before the last: clients give up on a frame of 10 MiB.
const maxSnapshot = 5 << 20

// snapshot tells messages: the newest, if they are too many for one frame.
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
