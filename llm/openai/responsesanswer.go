package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/llm"
)

// items is the state of the items of an answer of the Responses API.
type items struct {
	by     string // the sealer of the sealed items
	think  []sealedItem
	unused int     // the number of the last ones that no other item has followed
	list   []*item // in the order in which they came
}

type item struct {
	kind   string
	id, at string
	said   textPieces // its text or reasoning
	held   string     // the beginning of its text, while that may repeat an earlier message
	apart  bool       // its text does not repeat an earlier message
	call   *call
	argued bool // the event at the end of its arguments came
	done   bool // it is complete
	last   bool // it is in the complete response
}

const (
	messageItem   = "message"
	callItem      = "function_call"
	reasoningItem = "reasoning"
)

// of returns the item of an event: the one with its id, or with its position, or else the last one of its kind. Some
// gateways give all items the same id, so the position decides between items with the id, and an item that is complete
// gets nothing for another position. Before that it may: other gateways count an item differently at its beginning and
// end.
func (i *items) of(kind, id, at string) *item {
	var named, found *item
	for _, it := range i.list {
		switch {
		case it.kind != kind:
		case id != "" && it.id == id && (!it.done || at == it.at || at == "" || it.at == ""):
			if named == nil || it.at == at {
				named = it
			}
		case it.done && id != "", id != "" && it.id != "" && it.at == "":
		case at == it.at || at == "" || it.at == "":
			found = it
		}
	}
	if found = cmp.Or(named, found); found == nil {
		found = i.begin(kind, id, at)
	}
	return found
}

// added returns the item that an event adds, of which parts may have come before.
func (i *items) added(kind, id, at string) *item {
	for _, it := range i.list {
		if id != "" && it.id == id && it.kind == kind && !it.done && (it.at == at || it.at == "" || at == "") {
			return it
		}
	}
	return i.begin(kind, id, at)
}

func (i *items) begin(kind, id, at string) *item {
	it := &item{kind: kind, id: id, at: at}
	i.list = append(i.list, it)
	return it
}

// again returns the item that came before the complete response repeats it: the one that has its id and is equal to it,
// or else has its id, is equal to it, or may be its beginning.
func (i *items) again(w *responsesItem, text string) (found *item) {
	best := -1
	for _, it := range i.list {
		c, callID, alike := it.call, string(w.CallID), 0
		if w.ID != "" && it.id == w.ID {
			alike = 2
		}
		if c != nil && callID != "" && c.id == callID || it.kind == messageItem && it.said.all.String() == text {
			alike++
		}
		other := it.kind == callItem && (c == nil || c.name != "" && c.name != string(w.Name) ||
			c.id != "" && callID != "" && !sameJSON(joined(c.parts, c.grows), string(w.Arguments))) ||
			it.kind == messageItem && text != "" && !strings.HasPrefix(text, it.said.all.String())
		if !it.last && it.kind == w.Type && alike > best && (alike > 0 || !other) {
			found, best = it, alike
		}
	}
	if found == nil {
		found = i.begin(w.Type, w.ID, "")
	}
	return found
}

// usedReasoning returns the reasoning items that led to another item. The endpoint would refuse the others.
func (i *items) usedReasoning() []sealedItem { return i.think[:len(i.think)-i.unused] }

// The answer: an event of a stream, or a complete response, which has no type.
type (
	responsesEvent struct {
		failing
		At        flexText        `json:"output_index"`
		ID        flexText        `json:"item_id"`
		Delta     pieceText       `json:"delta"`
		Text      flexText        `json:"text"`
		Refusal   flexText        `json:"refusal"`
		Part      flexText        `json:"part"` // its text, or its refusal
		Name      flexText        `json:"name"`
		Arguments arguments       `json:"arguments"`
		LogProbs  json.RawMessage `json:"logprobs"`
		Item      *responsesItem  `json:"item"`
		Response  json.RawMessage `json:"response"`
		Output    json.RawMessage `json:"output"` // of a complete response
	}
	response struct {
		Model      string           `json:"model"`
		Status     string           `json:"status"`
		Output     []*responsesItem `json:"output"`
		Usage      json.RawMessage  `json:"usage"`
		Error      json.RawMessage  `json:"error"`
		Incomplete struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
	}
	responsesItem struct {
		Type      string          `json:"type"`
		Status    string          `json:"status"`
		Content   responsesTexts  `json:"content"`
		CallID    flexText        `json:"call_id"`
		Name      flexText        `json:"name"`
		Arguments arguments       `json:"arguments"`
		ID        string          `json:"id"`
		Summary   json.RawMessage `json:"summary"`
		Encrypted string          `json:"encrypted_content"`
	}
	responsesTexts []struct {
		Text     flexText        `json:"text"`
		Refusal  flexText        `json:"refusal"`
		LogProbs json.RawMessage `json:"logprobs"`
	}
)

// whole reports whether an event of no type of the API is a complete response.
func (ev *responsesEvent) whole() bool {
	var items []json.RawMessage
	listed := json.Unmarshal(ev.Output, &items) == nil && items != nil
	return listed && len(items) > 0 || ev.Type == "" && (listed || ev.Object == "response")
}

// UnmarshalJSON also reads a text in place of the parts.
func (l *responsesTexts) UnmarshalJSON(b []byte) error {
	if !reported(b) {
		return nil
	}
	type parts responsesTexts
	if b[0] == '"' {
		*l = make(responsesTexts, 1)
		return (*l)[0].Text.UnmarshalJSON(b)
	}
	return json.Unmarshal(b, (*parts)(l))
}

// responsesEvent processes one event of an answer of the Responses API.
func (a *attempt) responsesEvent(data []byte) error {
	r := &a.reading
	var ev responsesEvent
	if err := decode(data, &ev); err != nil {
		return a.client.badEvent(data, err)
	}
	if name := a.body.name; ev.Type == "" && strings.HasPrefix(name, "response.") {
		ev.Type = flexText(name) // some gateways leave the type to the name of the event
	}
	if ev.Type == "" && !ev.whole() {
		if inner := unwrapped(data, "output"); inner != nil {
			return a.response(inner, "completed")
		}
	}
	other := !strings.HasPrefix(string(ev.Type), "response.")
	failed := ev.failure(other, other && ev.Object != "response" && (ev.Type == "" || a.body.json))
	if failed != nil && (ev.Type == "" || ev.Type == "error" || failed.Message != "" || reported(ev.Error)) {
		r.refused = true
		return a.client.objectError(failed)
	}
	if other && ev.whole() {
		return a.response(data, "completed")
	}
	if ev.Type == "" {
		return a.client.badEvent(data, errors.New("it has no type"))
	}
	r.deltas = r.deltas || strings.HasSuffix(string(ev.Type), ".delta")
	switch ev.Type {
	case "response.created":
		return a.response(ev.Response, "")
	case "response.completed", "response.done", "response.incomplete", "response.failed":
		return a.response(ev.Response, strings.TrimPrefix(string(ev.Type), "response."))
	}
	if other {
		a.body.strange(data) // it keeps the connection open, or says what is wrong
	}
	a.responsesPart(&ev)
	return nil
}

// responsesPart processes an event about a part of an answer. It ignores events of other types.
func (a *attempt) responsesPart(ev *responsesEvent) {
	r, id, at := &a.reading, string(ev.ID), indexOf(ev.At)
	switch ev.Type {
	case "response.output_text.delta", "response.refusal.delta":
		it := r.items.of(messageItem, id, at)
		r.say(it, it.said.add(string(ev.Delta), false))
		r.addLogProbs(ev.LogProbs)
	case "response.output_text.done", "response.refusal.done", "response.content_part.done":
		if text := cmp.Or(ev.Text, ev.Refusal, ev.Part); text != "" {
			it := r.items.of(messageItem, id, at)
			r.say(it, it.said.whole(string(text), true))
		}
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta", "response.reasoning_summary.delta", "response.reasoning.delta":
		r.addText("", r.items.of(reasoningItem, id, at).said.add(string(ev.Delta), false))
	case "response.reasoning_summary_text.done", "response.reasoning_text.done":
		r.addText("", r.items.of(reasoningItem, id, at).said.whole(string(ev.Text), true))
	case "response.function_call_arguments.delta":
		r.called(r.items.of(callItem, id, at)).take(string(ev.Delta))
	case "response.function_call_arguments.done":
		it := r.items.of(callItem, id, at)
		it.argued = true
		r.called(it).fill("", string(ev.Name), cmp.Or(string(ev.Arguments), "{}"))
	case "response.output_item.added":
		if i := ev.Item; i != nil && i.Type == callItem {
			r.called(r.items.added(i.Type, i.ID, at)).fill(string(i.CallID), string(i.Name), string(i.Arguments))
		} else if i != nil && (i.Type == messageItem || i.Type == reasoningItem) {
			r.items.added(i.Type, i.ID, at)
		}
	case "response.output_item.done":
		if i := ev.Item; i != nil {
			a.item(i, r.items.of(i.Type, i.ID, at))
		}
	}
}

// called returns the call of an item.
func (r *reading) called(it *item) *call {
	if it.call == nil {
		r.leadsTo(len(r.calls.calls))
		it.call = r.calls.start()
		if held := r.leaks.nativeCall(); held != "" {
			r.chunks = append(r.chunks, llm.Chunk{Text: held})
		}
	}
	return it.call
}

// response processes the fields of the response as a whole. status is the one that it has if it names none, or "" if
// the response has only begun.
func (a *attempt) response(data []byte, status string) error {
	r := &a.reading
	var resp response
	if err := decode(data, &resp); err != nil {
		return a.client.badEvent(data, err)
	}
	r.model = cmp.Or(resp.Model, r.model)
	if status == "" {
		return nil
	}
	status = cmp.Or(resp.Status, status)
	if reported(resp.Error) || status == "failed" {
		r.refused = true
		return a.client.objectError(parseError(resp.Error))
	}
	for _, it := range r.items.list {
		it.last = false // some endpoints send the complete response twice
	}
	for _, i := range resp.Output {
		if i == nil {
			continue
		}
		it := r.items.again(i, i.text())
		it.last = true
		a.item(i, it) // for items without events of their own
	}
	if u := readUsage(resp.Usage); u != nil {
		r.usage = u
	}
	r.choice = true
	if why := resp.Incomplete.Reason; status != "completed" || slices.Contains([]ending{endLength, endFilter}, endingOf(why)) {
		a.finish(why)
	}
	switch status {
	case "queued", "in_progress":
		return a.client.badEvent(data, io.ErrUnexpectedEOF)
	case "incomplete":
		if r.end == endNone || r.end == endWell {
			a.finish("length")
		}
	default: // completed, or a status that ends nothing, such as cancelled
		a.finish(status)
	}
	return nil
}

// say adds text of a message. Some models write two messages: the second begins a paragraph, unless it repeats the first.
func (r *reading) say(it *item, s string) {
	if s == "" {
		return
	}
	if !it.apart {
		it.held += s
		first := true
		for _, e := range r.items.list {
			if e == it || e.kind != messageItem || !e.done || e.said.empty() {
				continue
			}
			if first = false; strings.HasPrefix(e.said.all.String(), it.held) {
				return
			}
		}
		if s, it.held, it.apart = it.held, "", true; !first {
			s = "\n\n" + s
		}
	}
	r.addText(s, "")
}

// endMessage adds what say has held of a message that has ended, unless it repeats an earlier one.
func (r *reading) endMessage(it *item) {
	r.say(it, it.said.end())
	if it.held != "" && !slices.ContainsFunc(r.items.list, func(e *item) bool { return e != it && e.kind == messageItem && e.said.all.String() == it.held }) {
		r.addText("\n\n"+it.held, "")
	}
	it.held = ""
}

func (r *reading) addLogProbs(raw json.RawMessage) {
	var list []wireLogProb
	if !r.probs || len(raw) == 0 || json.Unmarshal(raw, &list) != nil {
		return
	}
	if probs := readLogProbs(list); len(probs) > 0 {
		r.chunks = append(r.chunks, llm.Chunk{LogProbs: probs})
	}
}

// text returns the text of a message.
func (i *responsesItem) text() string {
	var all strings.Builder
	for _, part := range i.Content {
		all.WriteString(string(part.Text + part.Refusal))
	}
	return all.String()
}

// item processes a complete item, of which a part may have come before.
func (a *attempt) item(i *responsesItem, it *item) {
	r := &a.reading
	first := !it.done
	it.done, it.id = true, cmp.Or(it.id, i.ID)
	switch i.Type {
	case messageItem:
		if first {
			r.leadsTo(-1)
		}
		shown := !it.said.empty()
		r.say(it, it.said.whole(i.text(), true))
		for _, part := range i.Content {
			if first && !shown {
				r.addLogProbs(part.LogProbs)
			}
		}
	case callItem:
		r.called(it).fill(string(i.CallID), string(i.Name), string(i.Arguments))
		if i.Status == "incomplete" || i.Status == "in_progress" && it.call.empty() && !it.argued {
			a.finish("length") // whatever its response's status is
		}
	case reasoningItem:
		if first {
			r.addText("", it.said.end())
			r.addReasoning(i, it)
		}
	}
}

// addReasoning keeps a reasoning item in the form in which the endpoint needs it back, if it is encrypted. Otherwise
// the endpoint would look for it in its own storage.
func (r *reading) addReasoning(i *responsesItem, it *item) {
	var summary responsesTexts
	if json.Unmarshal(i.Summary, &summary) != nil || len(summary) == 0 {
		summary = i.Content // vLLM, llama.cpp
	}
	var all strings.Builder
	for _, s := range summary {
		all.WriteString(string(s.Text))
	}
	r.addText("", it.said.whole(all.String(), true))
	if i.Encrypted == "" {
		return
	}
	if len(i.Summary) == 0 || i.Summary[0] != '[' {
		i.Summary = json.RawMessage("[]")
	}
	raw, err := json.Marshal(struct {
		Type      string          `json:"type"`
		ID        string          `json:"id,omitempty"`
		Summary   json.RawMessage `json:"summary"`
		Encrypted string          `json:"encrypted_content"`
	}{"reasoning", i.ID, i.Summary, i.Encrypted})
	if err == nil {
		r.think, r.unused = append(r.think, sealedItem{-1, raw}), r.unused+1
	}
}

// leadsTo sets the call that follows the last reasoning items, or -1 for the text.
func (i *items) leadsTo(call int) {
	for ; i.unused > 0; i.unused-- {
		i.think[len(i.think)-i.unused].Call = call
	}
}
