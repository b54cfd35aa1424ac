package openai

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/llm"
)

// sealed is the data that an endpoint needs back with an answer, in the form that the log stores next to the reasoning.
// It does not repeat the text of the reasoning, because guards may withhold that text.
type sealed struct {
	By    string       `json:"by"`
	Field string       `json:"field,omitempty"` // the field of the reasoning, or the mark that opened it
	Items []sealedItem `json:"items,omitempty"`
	Calls []string     `json:"calls,omitempty"` // the endpoint's ids of the calls, if it needs them back
}

// sealedItem came with a call or, if Call is -1, with the text: a reasoning item of the Responses API, an entry of
// reasoning_details or thinking_blocks, or the opaque fields of a call.
type sealedItem struct {
	Call int             `json:"call"`
	Item json.RawMessage `json:"item"`
}

// opaque are fields that some endpoints send with a call and need back unchanged.
type opaque struct {
	Extra     json.RawMessage `json:"extra_content,omitempty"`            // Gemini
	Provider  json.RawMessage `json:"provider_specific_fields,omitempty"` // LiteLLM
	Signature json.RawMessage `json:"thought_signature,omitempty"`        // gateways
	Thought   json.RawMessage `json:"thoughtSignature,omitempty"`         // others
}

// callExtras are the opaque fields of a call and of its function.
type callExtras struct {
	opaque
	Function *opaque `json:"function,omitempty"`
}

// take adds the fields that came later.
func (o *opaque) take(more *opaque) {
	for _, f := range []struct{ to, from *json.RawMessage }{{&o.Extra, &more.Extra}, {&o.Provider, &more.Provider}, {&o.Signature, &more.Signature}, {&o.Thought, &more.Thought}} {
		if reported(*f.from) {
			*f.to = bytes.Clone(*f.from)
		}
	}
}

func (o *opaque) empty() bool {
	return o.Extra == nil && o.Provider == nil && o.Signature == nil && o.Thought == nil
}

// sealer identifies a model of the endpoint. Only this model gets its sealed data back.
func (c *client) sealer(model string) string {
	sum := sha256.Sum256([]byte(c.where + " " + model))
	return hex.EncodeToString(sum[:8])
}

// unseal returns the sealed data of an answer of the same model, and the zero value for that of any other model.
func unseal(text, by string) (s sealed) {
	if text == "" || json.Unmarshal([]byte(text), &s) != nil || s.By != by {
		return sealed{}
	}
	return s
}

func (s *sealed) text() string {
	text, _ := plainjson.Marshal(s) // it was decoded from JSON, so this cannot fail
	return string(text)
}

// extras adds the fields that came with the calls to the map, by the index of the call, and returns the map.
func (s *sealed) extras(all map[int]callExtras) map[int]callExtras {
	for _, i := range s.Items {
		var x callExtras
		if i.Call >= 0 && json.Unmarshal(i.Item, &x) == nil {
			if all == nil {
				all = map[int]callExtras{}
			}
			all[i.Call] = x
		}
	}
	return all
}

// plainID is the longest id of a call that OpenAI accepts. A longer id contains data: LiteLLM puts signatures into it.
const plainID = 40

// counts is the beginning of the ids by which the templates of Kimi K2 count the calls of a conversation.
const counts = "functions."

// seal returns the data that the endpoint needs back with the answer, or "".
func (r *reading) seal(calls []llm.ToolCall) string {
	s := sealed{By: r.items.by, Field: cmp.Or(r.field, r.thinking.mark), Items: slices.Concat(r.items.usedReasoning(), r.details.items(r.thoughts))}
	for i := range calls {
		if x, ok := r.calls.extras[calls[i].ID]; ok {
			raw, _ := json.Marshal(x) // it was decoded from JSON
			s.Items = append(s.Items, sealedItem{i, raw})
		}
	}
	says := func(c llm.ToolCall) bool { return len(c.ID) > plainID || strings.HasPrefix(c.ID, counts) }
	if s.Items != nil || slices.ContainsFunc(calls, says) {
		for i := range calls {
			s.Calls = append(s.Calls, calls[i].ID)
		}
	}
	if s.Field == "" && s.Items == nil && s.Calls == nil {
		return ""
	}
	return s.text()
}

// thoughts writes reasoning to the field in which it came. It returns the text of the message, which may now begin with
// the reasoning.
func (g *giving) thoughts(out *wireMessage, s *sealed, thought, text string) string {
	if !g.has(quirkEcho) {
		return text
	}
	for _, e := range s.details(thought) {
		to := &out.ReasoningDetails
		if block.Get().Match(e) {
			to = &out.ThinkingBlocks
		}
		*to = append(*to, e)
	}
	for _, b := range thinkBlocks() {
		if b.open == s.Field && thought != "" {
			return strings.TrimSpace(b.open + "\n" + thought + "\n" + b.close[0] + "\n\n" + text)
		}
	}
	field := map[string]**string{"reasoning_content": &out.ReasoningContent, "reasoning": &out.Reasoning}[s.Field]
	if field == nil {
		return text
	}
	if *field != nil {
		thought = **field + thought
	}
	*field = &thought
	return text
}

// block matches an entry of thinking_blocks.
var block = lazyregexp.New(`"type":"(redacted_)?thinking"`)

// details are the entries of reasoning_details or thinking_blocks, joined from the parts of a stream.
type details struct {
	entries []*detail
	said    int // the bytes of all their texts, in the order in which they came
}

// detail is an entry. It does not contain its texts, because guards may withhold them, but their positions in the
// reasoning.
type detail struct {
	fields map[string]json.RawMessage
	texts  [len(detailTexts)]textPieces
	places [len(detailTexts)][]int // start, end, start, end
}

// detailTexts are the fields of an entry with a text that people read as reasoning. detailFields are the other fields
// that endpoints need back. No other field reaches the log, and no field that is longer than maxDetailField.
var (
	detailTexts  = [...]string{"text", "summary", "thinking"}
	detailFields = [...]string{"type", "id", "index", "format", "signature", "data"}
)

const maxDetailField = 1 << 20

// take adds a list of entries, and returns the new part of their texts. The list of a complete message (whole) repeats
// all entries, in addition to pieces (inAddition) or instead of them.
func (d *details) take(raw json.RawMessage, whole, inAddition bool) (text string) {
	if len(raw) == 0 {
		return ""
	}
	var list []map[string]json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return ""
	}
	var taken []*detail
	for _, more := range list {
		into := d.of(more, whole, taken)
		taken = append(taken, into)
		for _, name := range detailFields {
			if v := more[name]; len(v) <= maxDetailField && len(v) > 0 && (reported(v) || into.fields[name] == nil) {
				into.fields[name] = v
			}
		}
		for i, name := range detailTexts {
			var piece string
			if len(more[name]) == 0 || more[name][0] != '"' || json.Unmarshal(more[name], &piece) != nil {
				continue
			}
			if into.places[i] == nil {
				into.places[i] = []int{} // endpoints need an empty text, too
			}
			if f := &into.texts[i]; whole {
				piece = f.whole(piece, inAddition)
			} else {
				piece = f.add(piece, false)
			}
			text += d.place(into, i, piece)
		}
	}
	return text
}

// of returns the entry that a part belongs to: the one with its type and its index or, without an index, its id. Parts
// without both, such as LiteLLM's, belong to the entries in their order: a signature or data ends an entry, and no two parts
// of a list, of which taken came before, belong to one.
func (d *details) of(part map[string]json.RawMessage, whole bool, taken []*detail) *detail {
	key := "index"
	if len(part[key]) == 0 {
		key = "id"
	}
	unnamed := len(part[key]) == 0
	for i := range d.entries {
		e := d.entries[len(d.entries)-1-i]
		if whole && unnamed {
			e = d.entries[i]
		}
		f := e.fields
		switch {
		case !bytes.Equal(f["type"], part["type"]) || !bytes.Equal(f["index"], part["index"]) || !bytes.Equal(f[key], part[key]):
		case unnamed && (slices.Contains(taken, e) || !whole && (reported(f["signature"]) || reported(f["data"]))):
		default:
			return e
		}
	}
	e := &detail{fields: map[string]json.RawMessage{}}
	d.entries = append(d.entries, e)
	return e
}

// place records the position of a piece of a text in the reasoning, and returns the piece.
func (d *details) place(e *detail, i int, piece string) string {
	if piece == "" {
		return ""
	}
	from := d.said
	d.said += len(piece)
	if p := e.places[i]; len(p) > 0 && p[len(p)-1] == from {
		p[len(p)-1] = d.said
	} else {
		e.places[i] = append(p, from, d.said)
	}
	return piece
}

// end returns the texts that were held back.
func (d *details) end() (text string) {
	for _, e := range d.entries {
		for i := range detailTexts {
			text += d.place(e, i, e.texts[i].end())
		}
	}
	return text
}

// items returns the entries with the positions of their texts, or nil if the texts are not the whole reasoning, whose
// length is thoughts.
func (d *details) items(thoughts int) (list []sealedItem) {
	if d.said != thoughts {
		return nil
	}
	for _, e := range d.entries {
		for i, name := range detailTexts {
			if e.places[i] != nil {
				e.fields[name], _ = json.Marshal(e.places[i])
			}
		}
		raw, _ := json.Marshal(e.fields)
		list = append(list, sealedItem{-1, raw})
	}
	return list
}

// details returns the entries with their texts, or nil if the reasoning is not the one with which they came.
func (s *sealed) details(thought string) (list []json.RawMessage) {
	left := len(thought)
	for _, i := range s.Items {
		var e map[string]json.RawMessage
		if i.Call >= 0 || json.Unmarshal(i.Item, &e) != nil {
			continue
		}
		for _, name := range detailTexts {
			var places []int
			if len(e[name]) == 0 || json.Unmarshal(e[name], &places) != nil {
				continue
			}
			text := ""
			for p := range slices.Chunk(places, 2) {
				if len(p) < 2 || p[0] < 0 || p[1] < p[0] || p[1] > len(thought) {
					return nil
				}
				text += thought[p[0]:p[1]]
			}
			left -= len(text)
			e[name], _ = json.Marshal(text)
		}
		raw, _ := json.Marshal(e)
		list = append(list, raw)
	}
	if left != 0 {
		return nil
	}
	return list
}

// effort returns the reasoning effort to send.
func (f requestForm) effort(req *llm.Request) string {
	switch off := req.Thinking != nil && !*req.Thinking; {
	case off && f.thinking[0] == "":
		return "none"
	case off:
		return "" // endpoints refuse an effort next to the member that turns thinking off
	}
	return req.ReasoningEffort
}

// withThinking adds the members that turn the model's thinking on or off to the body of a request.
func (f requestForm) withThinking(body []byte, on *bool) []byte {
	if on == nil || f.thinking[0] == "" {
		return body
	}
	member := f.thinking[0]
	if *on {
		member = f.thinking[1]
	}
	return append(body[:len(body)-1], ","+member+"}"...)
}
