package endpoint

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/llm"
)

// seal encrypts reasoning, so that only this handler can read it.
type seal struct{ cipher.AEAD }

func newSeal() seal {
	var key [16]byte
	_, _ = rand.Read(key[:])          // crypto/rand documents that it never fails
	block, _ := aes.NewCipher(key[:]) // the key has the right length
	aead, _ := cipher.NewGCMWithRandomNonce(block)
	return seal{aead}
}

func (s seal) close(text string) string {
	return base64.StdEncoding.EncodeToString(s.Seal(nil, nil, []byte(text), nil))
}

func (s seal) open(sealed string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err == nil {
		raw, err = s.Open(nil, nil, raw, nil)
	}
	if err != nil {
		return "", errors.New("it was not encrypted here, or was changed")
	}
	return string(raw), nil
}

type object = map[string]any

// items writes an answer as a response: streamed, or complete at its end.
type items struct {
	output
	seal     seal
	response object
	encrypts bool
	summary  bool
	number   int
	list     []object // the complete items
	open     object   // the incomplete item
	text     strings.Builder
	probs    []llm.LogProb
	usage    *llm.Usage
}

func newItems(w http.ResponseWriter, wire *wireRequest, s seal, id string) *items {
	return &items{output: output{w: w, streams: wire.Stream}, seal: s, encrypts: slices.Contains(wire.Include, "reasoning.encrypted_content"), summary: wire.Reasoning.Summary != "",
		list: []object{}, response: object{"id": "resp_" + id, "object": "response", "created_at": 0, "status": "in_progress", "model": wire.Model,
			"error": nil, "incomplete_details": nil, "store": false, "output": []object{}, "usage": nil}}
}

func (s *items) write(c llm.Chunk) {
	if c.Model != "" {
		s.response["model"] = c.Model
	}
	s.usage = cmp.Or(c.Usage, s.usage)
	if c.Reasoning != "" {
		s.begin("reasoning", object{"summary": []object{}})
		s.text.WriteString(c.Reasoning)
		if s.summary {
			s.event("response.reasoning_summary_text.delta", object{"output_index": len(s.list), "item_id": s.open["id"], "summary_index": 0, "delta": c.Reasoning})
		}
	}
	if c.Text != "" || len(c.LogProbs) > 0 {
		s.begin("message", object{"role": "assistant", "content": []object{}})
		s.text.WriteString(c.Text)
		s.probs = append(s.probs, c.LogProbs...)
		s.event("response.output_text.delta", object{"output_index": len(s.list), "item_id": s.open["id"], "content_index": 0, "delta": c.Text, "logprobs": probsOf(c.LogProbs)})
	}
	if call := c.Call; call != nil {
		s.end()
		s.begin("function_call", object{"call_id": call.ID, "name": call.Name, "arguments": ""})
		s.event("response.function_call_arguments.delta", object{"output_index": len(s.list), "item_id": s.open["id"], "delta": call.Arguments})
		s.open["arguments"] = call.Arguments
		s.end()
	}
}

func probsOf(list []llm.LogProb) []wireLogProb {
	if list == nil {
		return []wireLogProb{}
	}
	return wireLogProbList(list)
}

// begin opens an item, unless one of the same kind is open.
func (s *items) begin(kind string, fields object) {
	if s.open != nil && s.open["type"] == kind {
		return
	}
	s.end()
	s.open = object{"type": kind, "id": kind[:2] + "_" + s.response["id"].(string) + "_" + string(rune('a'+len(s.list)%26)), "status": "in_progress"}
	maps.Copy(s.open, fields)
	s.event("response.output_item.added", object{"output_index": len(s.list), "item": s.open})
}

// end closes the open item.
func (s *items) end() {
	if s.open == nil {
		return
	}
	text := s.text.String()
	switch s.open["status"] = "completed"; s.open["type"] {
	case "message":
		s.open["content"] = []object{{"type": "output_text", "text": text, "annotations": []object{}, "logprobs": probsOf(s.probs)}}
	case "reasoning":
		delete(s.open, "status")
		if s.summary {
			s.open["summary"] = []object{{"type": "summary_text", "text": text}}
		}
		if s.encrypts {
			s.open["encrypted_content"] = s.seal.close(text)
		}
	}
	s.event("response.output_item.done", object{"output_index": len(s.list), "item": s.open})
	s.list, s.open, s.probs = append(s.list, s.open), nil, nil
	s.text.Reset()
}

func (s *items) finish(reason llm.FinishReason) {
	s.end()
	s.response["output"], s.response["status"] = s.list, "completed"
	kind := "response.completed"
	if why := map[llm.FinishReason]string{llm.FinishLength: "max_output_tokens", llm.FinishContentFilter: "content_filter"}[reason]; why != "" {
		kind = "response.incomplete"
		s.response["status"], s.response["incomplete_details"] = "incomplete", object{"reason": why}
	}
	if u := s.usage; u != nil {
		s.response["usage"] = object{"input_tokens": u.InputTokens, "input_tokens_details": object{"cached_tokens": u.CachedTokens},
			"output_tokens": u.OutputTokens, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": u.InputTokens + u.OutputTokens}
	}
	if s.streams {
		s.event(kind, object{"response": s.response})
		return
	}
	reply(s.w, http.StatusOK, s.response)
}

// start sends the headers and the first event of a stream.
func (s *items) start() {
	if s.streams && !s.started {
		s.output.start()
		s.event("response.created", object{"response": s.response})
	}
}

// event sends an event of a stream.
func (s *items) event(kind string, v object) {
	if !s.streams {
		return
	}
	s.start()
	v["type"], v["sequence_number"] = kind, s.number
	s.number++
	s.output.event(kind, v)
}

func (s *items) report(e wireError) {
	s.response["status"], s.response["error"] = "failed", object{"code": cmp.Or(e.Code, e.Type), "message": e.Message}
	s.event("response.failed", object{"response": s.response})
}
