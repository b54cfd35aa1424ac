package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"

	"github.com/agentarbor/arbor/llm"
)

// items is what is known of the items of an answer of the Responses API.
type items struct {
	by    string // who can read the sealed ones
	think []sealedItem
	loose int          // how many of them, the last ones, are in front of nothing yet
	done  map[int]bool // items that were whole, by their places
	shown map[int]bool // those of which deltas came
}

// seal returns the reasoning items as one text.
func (i *items) seal() string {
	whole := i.think[:len(i.think)-i.loose] // what has led to nothing would be refused
	if len(whole) == 0 {
		return ""
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(sealed{i.by, whole}) // of JSON that was read, so this cannot fail
	return string(bytes.TrimSpace(b.Bytes()))
}

// What comes back: an event of a stream, or a whole response, which has no type.
type (
	responsesEvent struct {
		failing
		At       int             `json:"output_index"`
		Delta    flexText        `json:"delta"`
		LogProbs json.RawMessage `json:"logprobs"`
		Item     *responsesItem  `json:"item"`
		Response json.RawMessage `json:"response"`
	}
	response struct {
		Model      string           `json:"model"`
		Status     string           `json:"status"`
		Output     []*responsesItem `json:"output"`
		Usage      *responsesUsage  `json:"usage"`
		Error      json.RawMessage  `json:"error"`
		Incomplete struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
	}
	responsesItem struct {
		Type    string `json:"type"`
		Content []struct {
			Type     string          `json:"type"`
			Text     flexText        `json:"text"`
			Refusal  flexText        `json:"refusal"`
			LogProbs json.RawMessage `json:"logprobs"`
		} `json:"content"`
		CallID    flexText        `json:"call_id"`
		Name      flexText        `json:"name"`
		Arguments flexText        `json:"arguments"`
		ID        string          `json:"id"`
		Summary   json.RawMessage `json:"summary"`
		Encrypted string          `json:"encrypted_content"`
	}
	responsesUsage struct {
		Input  float64 `json:"input_tokens"`
		Output float64 `json:"output_tokens"`
		Cached struct {
			Tokens float64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	}
)

// responsesEvent takes in one event of an answer of the Responses API.
func (a *attempt) responsesEvent(data []byte) error {
	r := &a.reading
	var ev responsesEvent
	if err := json.Unmarshal(data, &ev); err != nil {
		return a.client.badEvent(data, err)
	}
	if failed := ev.failure(ev.Type == "", ev.Type == "" && ev.Object != "response"); failed != nil {
		r.refused = true
		return a.client.objectError(failed)
	}
	if ev.Type == "" {
		if ev.Object == "response" {
			return a.response(data, true)
		}
		return a.client.badEvent(data, errors.New("it has no type"))
	}
	switch ev.Type {
	case "response.output_text.delta", "response.refusal.delta":
		r.mark(&r.shown, ev.At)
		r.say(string(ev.Delta), "")
		r.likely(ev.LogProbs)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		r.mark(&r.shown, ev.At)
		r.say("", string(ev.Delta))
	case "response.output_item.done":
		if ev.Item != nil {
			r.item(ev.Item, ev.At)
		}
	case "response.created", "response.completed", "response.incomplete", "response.failed":
		return a.response(ev.Response, ev.Type != "response.created")
	}
	return nil
}

// response takes in what is known of the response as a whole.
func (a *attempt) response(data []byte, over bool) error {
	r := &a.reading
	var resp response
	if err := json.Unmarshal(data, &resp); err != nil {
		return a.client.badEvent(data, err)
	}
	r.model = cmp.Or(resp.Model, r.model)
	if !over {
		return nil
	}
	if reported(resp.Error) || resp.Status == "failed" {
		r.refused = true
		return a.client.objectError(parseError(resp.Error))
	}
	for at, item := range resp.Output {
		if item != nil {
			r.item(item, at) // what no event of its own has brought
		}
	}
	if u := resp.Usage; u != nil && *u != (responsesUsage{}) {
		if counted, ok := (llm.Usage{InputTokens: count(u.Input), OutputTokens: count(u.Output), CachedTokens: count(u.Cached.Tokens)}).Plausible(); ok {
			r.usage = &counted
		}
	}
	r.choice = true
	switch reason := resp.Incomplete.Reason; resp.Status {
	case "queued", "in_progress":
		return a.client.badEvent(data, io.ErrUnexpectedEOF)
	case "incomplete":
		if a.finish(reason); r.end == endNone || r.end == endWell {
			a.finish("length")
		}
	default: // completed, or an end that is none, such as cancelled
		a.finish(resp.Status)
	}
	return nil
}

func (r *reading) mark(which *map[int]bool, at int) {
	if *which == nil {
		*which = map[int]bool{}
	}
	(*which)[at] = true
}

// say hands on words or thoughts, unless they may become a call that was written as words.
func (r *reading) say(text, reasoning string) {
	chunk := llm.Chunk{Text: r.leaks.words(text), Reasoning: reasoning}
	if chunk.Text == "" && text != "" && !r.begun {
		chunk.Model = r.model
	}
	if chunk.Text != "" || chunk.Reasoning != "" || text != "" && !r.begun {
		r.begun = true
		r.chunks = append(r.chunks, chunk)
	}
}

func (r *reading) likely(raw json.RawMessage) {
	var list []wireLogProb
	if !r.probs || len(raw) == 0 || json.Unmarshal(raw, &list) != nil {
		return
	}
	if probs := readLogProbs(list); len(probs) > 0 {
		r.chunks = append(r.chunks, llm.Chunk{LogProbs: probs})
	}
}

// item takes in a whole item, once.
func (r *reading) item(i *responsesItem, at int) {
	if r.done[at] {
		return
	}
	r.mark(&r.done, at)
	switch i.Type {
	case "message":
		r.leadsTo(-1)
		if r.shown[at] {
			return
		}
		for _, part := range i.Content {
			r.say(string(part.Text+part.Refusal), "")
			r.likely(part.LogProbs)
		}
	case "function_call":
		r.leadsTo(len(r.calls.calls))
		r.calls.add(&callPart{ID: i.CallID, Function: functionOut{Name: i.Name, Arguments: arguments(i.Arguments)}}, true)
		if held := r.leaks.native(); held != "" {
			r.chunks = append(r.chunks, llm.Chunk{Text: held})
		}
	case "reasoning":
		r.thinks(i, at)
	}
}

// thinks keeps a reasoning item as it has to be given back, if it is encrypted: without
// that the endpoint would look for it in its own memory.
func (r *reading) thinks(i *responsesItem, at int) {
	var summary []struct {
		Text flexText `json:"text"`
	}
	if !r.shown[at] && json.Unmarshal(i.Summary, &summary) == nil {
		for _, s := range summary {
			r.say("", string(s.Text))
		}
	}
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
		r.think, r.loose = append(r.think, sealedItem{-1, raw}), r.loose+1
	}
}

// leadsTo says which call the last reasoning items came in front of, -1 for the words.
func (i *items) leadsTo(call int) {
	for ; i.loose > 0; i.loose-- {
		i.think[len(i.think)-i.loose].Call = call
	}
}
