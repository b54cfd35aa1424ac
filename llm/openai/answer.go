package openai

import (
	"encoding/json"
	"io"
	"log/slog"
	"time"

	"github.com/agentarbor/arbor/llm"
)

// afterFinish is the longest silence after a finish reason: what is still to
// come is usage and [DONE], which some endpoints never send.
const afterFinish = 5 * time.Second

// read hands out the answer. Text and reasoning go as they come; calls, usage
// and the finish reason only when the answer has ended as it should.
func (a *attempt) read(yield func(llm.Chunk) error) error {
	var (
		ev     event
		calls  callList
		usage  *llm.Usage
		model  string
		finish string
		choice bool // the answer holds one
	)
	for {
		data, err := a.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			if finish == "" {
				return err
			}
			a.client.log.LogAttrs(a.ctx, slog.LevelDebug, "an answer broke off after its finish reason, and counts", slog.Any("error", err))
			break
		}
		ev.reset()
		if err := json.Unmarshal(data, &ev); err != nil {
			return a.client.badEvent(data, err)
		}
		if e := ev.failure(a.body.json); e != nil {
			return a.client.objectError(e)
		}
		if u := ev.usage(); u != nil {
			usage = u
		}
		if ev.Model != "" {
			model = string(ev.Model)
		}
		for i := range ev.Choices {
			c := &ev.Choices[i]
			if c.Index != 0 {
				continue // only one answer was asked for
			}
			choice = true
			for _, out := range [...]*output{&c.Delta, &c.Message} {
				chunk := llm.Chunk{Text: out.text(), Reasoning: out.reasoning()}
				if chunk.Text != "" || chunk.Reasoning != "" {
					if err := yield(chunk); err != nil {
						return err
					}
				}
				calls.addAll(out, out == &c.Message)
			}
			if c.FinishReason != "" {
				finish = string(c.FinishReason)
				a.watch.hurry(afterFinish)
			}
		}
	}
	switch {
	case finish == "" && !a.body.done:
		return a.client.truncated(nil)
	case !choice:
		return a.client.errorf(llm.CodeBadResponse, nil, "the answer holds no choices; does this endpoint speak the chat-completions protocol?")
	case finish == "error":
		return a.client.objectError(&apiError{Message: "finish_reason is error, without an explanation"})
	}
	for call := range calls.all() {
		if err := yield(llm.Chunk{Call: &call}); err != nil {
			return err
		}
	}
	return yield(llm.Chunk{Usage: usage, Model: model, Finish: finishReason(finish, len(calls.calls) > 0)})
}
