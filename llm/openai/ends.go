package openai

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/llm"
)

// ending is the meaning of a finish reason for an answer. If there are several reasons, the greatest value counts.
type ending int

const (
	endNone   ending = iota // there is no reason
	endWell                 // the answer is complete
	endLength               // the model reached a limit of tokens
	endFilter               // the endpoint withheld the rest
	endBroken               // any other reason: the endpoint stopped the answer
)

// endings contains all known finish reasons, in lower case and without any character but letters, so that END_TURN,
// endTurn and end-turn are equal.
var endings = sync.OnceValue(func() map[string]ending {
	list := make(map[string]ending)
	for end, words := range [...]string{
		endNone: "null none unspecified notfinished unfinished inprogress false",
		endWell: "stop stopped endturn endofturn eos eostoken eosfound endoftext endofsequence endofmessage stopsequence stoptoken stopstring stopstringfound stopword " +
			"end endid eot eotid eom messagestop complete completed finish finished done normal success succeeded " +
			"tool tools toolcall toolcalls tooluse function functions functioncall functioncalls",
		endLength: "limit truncated",
		endFilter: "contentfilter contentfiltered filtered filter safety sensitive recitation blocklist blocked prohibitedcontent spii imagesafety " +
			"guardrail guardrailintervened errortoxic refusal moderation contentpolicy contentpolicyviolation policyviolation inputfilter outputfilter safetyfilter imageprohibitedcontent",
	} {
		for word := range strings.FieldsSeq(words) {
			list[word] = ending(end)
		}
	}
	return list
})

// tokenLimit matches the letters of other finish reasons that name a limit of tokens.
var tokenLimit = lazyregexp.New(`length|maxlen|maxoutput|context(window|limit|overflow)|token.*(limit|max|exceed)|max.*token`)

// endingOf returns the meaning of a finish reason. It ignores what Gemini's endpoint appends after a colon.
func endingOf(reason string) ending {
	reason, _, _ = strings.Cut(strings.ToLower(reason), ":")
	word := strings.Map(func(r rune) rune {
		if r < 'a' || r > 'z' {
			return -1
		}
		return r
	}, reason)
	word = strings.TrimPrefix(strings.TrimPrefix(word, "finishreason"), "reason")
	end, ok := endings()[word]
	switch {
	case ok || word == "":
		return end
	case tokenLimit.Get().MatchString(word):
		return endLength
	}
	return endBroken
}

// finishReason returns the finish reason of a regular end. Endpoints differ in stop and tool_calls, so the presence of
// calls decides.
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

// endingHabit records whether the answers of a model of this endpoint have had finish reasons.
type endingHabit struct {
	gives   atomic.Bool
	without atomic.Int32 // the number of answers that ended with [DONE] but without a finish reason
}

// ended returns io.EOF after a regular end, and otherwise the error of the answer. [DONE] alone is a regular end if the
// endpoint never sends a finish reason: if it has left the field empty in two answers and has never set it.
func (a *attempt) ended() error {
	r := &a.reading
	a.flush()
	if err := a.strayed(); err != nil {
		return err
	}
	known := a.client.habit(r.asked)
	if r.thinking.inText && r.end == endWell {
		known.opens.CompareAndSwap(opensUnknown, opensWithMark)
	}
	habit := &known.endings
	switch {
	case r.end == endWell && slices.ContainsFunc(r.items.list, func(it *item) bool { return it.call != nil && !it.done && !it.call.whole() }):
		return a.client.truncated(errors.New("it ends within a call"), a.body.odd)
	case r.end == endBroken:
		r.refused = true
		return a.client.objectError(&goopenai.APIError{Code: "", Message: fmt.Sprintf("finish_reason is %s, without an explanation", r.reason)})
	case r.end != endNone:
		habit.gives.Store(true)
	case a.body.json && r.choice: // complete without a finish reason
	case a.client.responses, !a.body.done:
		return a.client.truncated(nil, a.body.odd)
	case habit.gives.Load(), r.none && habit.without.Add(1) < 2:
		return a.client.truncated(errors.New("it has no finish_reason, though it ends with [DONE]"), a.body.odd)
	}
	if !r.choice {
		return a.client.errorf(llm.CodeBadResponse, nil, "the answer has no choices: %s; does this endpoint support the chat-completions protocol?", a.client.excerpt(a.body.odd))
	}
	return io.EOF
}
