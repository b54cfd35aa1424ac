package endpoint

import (
	"bytes"
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"iter"
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
	w        http.ResponseWriter
	seal     seal
	response object
	streams  bool
	encrypts bool
	summary  bool
	started  bool
	number   int
	output   []object // the complete items
	open     object   // the incomplete item
	text     strings.Builder
	probs    []llm.LogProb
	usage    *llm.Usage
}

func newItems(w http.ResponseWriter, wire *responsesRequest, s seal, id string) *items {
	return &items{w: w, seal: s, streams: wire.Stream, encrypts: slices.Contains(wire.Include, "reasoning.encrypted_content"), summary: wire.Reasoning.Summary != "",
		output: []object{}, response: object{"id": "resp_" + id, "object": "response", "created_at": 0, "status": "in_progress", "model": wire.Model,
			"error": nil, "incomplete_details": nil, "store": false, "output": []object{}, "usage": nil}}
}

// generate writes the answer of a model.
func (s *items) generate(chunks iter.Seq2[llm.Chunk, error]) {
	finish := llm.FinishReason("")
	for c, err := range chunks {
		if err != nil {
			s.fail(err)
			return
		}
		if c.Model != "" {
			s.response["model"] = c.Model
		}
		if c.Usage != nil {
			s.usage = c.Usage
		}
		if c.Reasoning != "" {
			s.begin("reasoning", object{"summary": []object{}})
			s.text.WriteString(c.Reasoning)
			if s.summary {
				s.event("response.reasoning_summary_text.delta", object{"output_index": len(s.output), "item_id": s.open["id"], "summary_index": 0, "delta": c.Reasoning})
			}
		}
		if c.Text != "" || len(c.LogProbs) > 0 {
			s.begin("message", object{"role": "assistant", "content": []object{}})
			s.text.WriteString(c.Text)
			s.probs = append(s.probs, c.LogProbs...)
			s.event("response.output_text.delta", object{"output_index": len(s.output), "item_id": s.open["id"], "content_index": 0, "delta": c.Text, "logprobs": probsOf(c.LogProbs)})
		}
		if call := c.Call; call != nil {
			s.end()
			s.begin("function_call", object{"call_id": call.ID, "name": call.Name, "arguments": ""})
			s.event("response.function_call_arguments.delta", object{"output_index": len(s.output), "item_id": s.open["id"], "delta": call.Arguments})
			s.open["arguments"] = call.Arguments
			s.end()
		}
		if c.Finish != "" {
			finish = c.Finish
		}
	}
	if finish == "" {
		s.cut()
	}
	s.end()
	s.finish(finish)
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
	s.open = object{"type": kind, "id": kind[:2] + "_" + s.response["id"].(string) + "_" + string(rune('a'+len(s.output)%26)), "status": "in_progress"}
	maps.Copy(s.open, fields)
	s.event("response.output_item.added", object{"output_index": len(s.output), "item": s.open})
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
	s.event("response.output_item.done", object{"output_index": len(s.output), "item": s.open})
	s.output, s.open, s.probs = append(s.output, s.open), nil, nil
	s.text.Reset()
}

func (s *items) finish(reason llm.FinishReason) {
	s.response["output"], s.response["status"] = s.output, "completed"
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

// start sends the headers and the first event.
func (s *items) start() {
	if s.started {
		return
	}
	s.started = true
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.WriteHeader(http.StatusOK)
	s.event("response.created", object{"response": s.response})
}

// event sends an event of a stream. If that fails, the client is gone, and the request's context cancels the model.
func (s *items) event(kind string, v object) {
	if !s.streams {
		return
	}
	s.start()
	v["type"], v["sequence_number"] = kind, s.number
	s.number++
	var b bytes.Buffer
	b.WriteString("event: " + kind + "\ndata: ")
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // all values have a JSON form, so this cannot fail
	b.WriteByte('\n')
	_, _ = s.w.Write(b.Bytes())
	_ = http.NewResponseController(s.w).Flush()
}

// cut breaks the connection in the middle of the answer.
func (s *items) cut() {
	if s.streams {
		s.start()
	} else { // the body ends before its Content-Length
		s.w.Header().Set("Content-Type", "application/json")
		s.w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(s.w, `{"object": `)
		_ = http.NewResponseController(s.w).Flush()
	}
	panic(http.ErrAbortHandler)
}

// fail sends a model's error as a real endpoint does.
func (s *items) fail(err error) {
	var e *llm.Error
	isModel := errors.As(err, &e)
	switch {
	case isModel && e.Code == llm.CodeTruncated:
		s.cut()
	case isModel && e.Code == llm.CodeBadResponse && e.Status == 0:
		if s.streams {
			s.start()
			_, _ = io.WriteString(s.w, "data: {\"type\": oops\n\n")
			return
		}
		s.w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(s.w, `{"object": oops`)
	case !s.started:
		failWith(s.w, err)
	case isModel && e.Code == llm.CodeUnreachable, !isModel && errors.Is(err, context.Canceled):
		s.cut()
	default:
		_, shape := errorShape(err)
		s.response["status"], s.response["error"] = "failed", object{"code": cmp.Or(shape.Code, shape.Type), "message": shape.Message}
		s.event("response.failed", object{"response": s.response})
	}
}
