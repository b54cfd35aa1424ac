package view

import (
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// use is what is known of the tokens of the agent's last request.
type use struct {
	reported int // input tokens by the endpoint, 0 if unknown
	counted  int // what the view counted for its messages then
}

// Count makes the view count the tokens of its messages; nil is an estimate. It
// is for a view that has taken in no event yet.
func (v *View) Count(count llm.TokenCounter) {
	if count == nil {
		count = llm.EstimateTokens
	}
	v.shown.count = count
}

// Tokens returns how many tokens the messages have by the view's counter, 0
// without one, and what is known of the whole next request, system message and
// tools included: the input tokens that the endpoint reported for the last one,
// and the count of what came since. That is 0 if no request was reported, or
// if the view was trimmed or compacted since.
func (v *View) Tokens() (messages, request int) {
	v.Messages() // takes in an answer that is complete
	messages = v.shown.tokens
	if v.use.reported > 0 {
		request = v.use.reported + messages - v.use.counted
	}
	return messages, request
}

// usage takes in the event that closes an answer.
func (v *View) usage(u *event.Usage, seq int64, mine bool) {
	if !v.open.waits() && len(v.open.calls) > 0 {
		v.flush() // an earlier answer, to which this one added nothing
	}
	if mine && seq != v.dropped.at+1 { // else it is that of the model that summarised
		v.dropped.since++
		v.dropped.tries, v.run.Empty, v.run.Misfit, v.run.Answered = 0, false, false, true
		if reported := u.Counted().InputTokens; reported > 0 {
			v.use = use{reported: reported, counted: v.shown.tokens}
		}
	}
	if len(v.open.calls) == 0 {
		v.flush()
	}
}
