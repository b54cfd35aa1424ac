package openai

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/agentarbor/arbor/llm"
)

// ending is what a finish reason says about an answer. Of several the greatest counts.
type ending int

const (
	endNone   ending = iota // no reason came
	endWell                 // the answer is whole
	endLength               // the model reached a limit of tokens
	endFilter               // the endpoint withheld the rest
	endBroken               // any other reason: the endpoint gave the answer up
)

// endings is the closed list of finish reasons, in lower case and without anything but
// letters: END_TURN, endTurn and end-turn are one.
var endings = sync.OnceValue(func() map[string]ending {
	list := make(map[string]ending)
	for end, words := range [...]string{
		endNone: "null none unspecified notfinished unfinished inprogress false",
		endWell: "stop stopped endturn endofturn eos eostoken eosfound endoftext endofsequence endofmessage stopsequence stoptoken stopstring stopword end " +
			"complete completed finish finished done normal success toolcall toolcalls tooluse functioncall functioncalls",
		endLength: "length limit lengthlimit maxtoken maxtokens maxlength maxlen maxtokensreached maxoutput maxoutputtokens maxnewtokens maxcompletiontokens " +
			"tokenlimit modellength modelcontextwindowexceeded contextwindowexceeded contextlength contextlengthexceeded",
		endFilter: "contentfilter contentfiltered filtered filter safety sensitive recitation blocklist blocked prohibitedcontent spii imagesafety " +
			"guardrail guardrailintervened errortoxic refusal moderation contentpolicy contentpolicyviolation",
	} {
		for word := range strings.FieldsSeq(words) {
			list[word] = ending(end)
		}
	}
	return list
})

// endingOf reads a finish reason. Gemini's endpoint says more after a colon.
func endingOf(reason string) ending {
	reason, _, _ = strings.Cut(strings.ToLower(reason), ":")
	word := strings.Map(func(r rune) rune {
		if r < 'a' || r > 'z' {
			return -1
		}
		return r
	}, reason)
	word = strings.TrimPrefix(strings.TrimPrefix(word, "finishreason"), "reason")
	if end, ok := endings()[word]; ok || word == "" {
		return end
	}
	return endBroken
}

// finishReason says how an answer ended that ended well. Endpoints disagree on stop and
// tool_calls; what counts is whether calls are there.
func (e ending) finishReason(calls bool) llm.FinishReason {
	switch {
	case e == endLength:
		return llm.FinishLength
	case e == endFilter:
		return llm.FinishContentFilter
	case calls:
		return llm.FinishToolCalls
	}
	return llm.FinishStop
}

// endingHabit is whether a model of this endpoint gives finish reasons, as far as its
// answers so far tell.
type endingHabit struct {
	gives   atomic.Bool
	without atomic.Int32 // how many answers came to [DONE] without one
}

// ended returns io.EOF if the answer has ended as it should, else what is wrong with it.
// [DONE] alone ends an answer well if the endpoint never gives a finish reason: one that
// has a field for it has left it empty twice, and never filled it.
func (a *attempt) ended() error {
	r := &a.reading
	a.rest()
	if err := a.strayed(); err != nil {
		return err
	}
	known := a.client.habit(r.asked)
	if r.thinking.over && r.end == endWell {
		known.opens.CompareAndSwap(opensUnknown, opensWithMark)
	}
	habit := &known.endings
	switch {
	case r.end == endBroken:
		r.refused = true
		return a.client.objectError(&goopenai.APIError{Code: "", Message: fmt.Sprintf("finish_reason is %s, without an explanation", r.reason)})
	case r.end != endNone:
		habit.gives.Store(true)
	case a.body.json && r.choice: // whole by itself
	case a.client.responses, !a.body.done:
		return a.client.truncated(nil, a.body.odd)
	case habit.gives.Load(), r.none && habit.without.Add(1) < 2:
		return a.client.truncated(errors.New("it has no finish_reason, though it ends with [DONE]"), a.body.odd)
	}
	if !r.choice {
		return a.client.errorf(llm.CodeBadResponse, nil, "the answer holds no choices; does this endpoint speak the chat-completions protocol?")
	}
	return io.EOF
}
