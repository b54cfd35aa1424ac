package replay

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
)

// answer is a model's answer to one request, as far as the log contains it.
type answer struct {
	seq    int64
	at     time.Time // of the write
	kind   answerKind
	before []llm.Chunk // attempts and notices before it

	reasoning event.Reasoning
	text      string // of a routing question, the name
	calls     []llm.ToolCall
	certainty float64 // of a routing question, below 0 if it is not known
	usage     *event.Usage
	finish    llm.FinishReason
	failed    *failure
	missing   string // the reason why it cannot be replayed
}

type answerKind int

const (
	answerText      answerKind = iota
	answerChoice               // a routing question
	answerSummary              // of the omitted messages
	answerShortened            // messages were omitted without a request for a summary
	answerEmpty                // discarded, because it was empty
	answerWrongForm            // discarded, because it did not have the required form
	answerCutCalls             // discarded, because it ended within a call
	answerBroken               // there was no answer
)

// failure is the recorded error of a model.
type failure struct {
	code, message string
	agent         string // the agent whose run failed
	retryable     bool
	limit         bool
}

func (f *failure) Error() string        { return f.message }
func (f *failure) Is(target error) bool { return f.limit && target == agent.ErrLimit }

// As sets target to an error with the same code.
func (f *failure) As(target any) bool {
	switch to := target.(type) {
	case **llm.Error:
		if slices.Contains(modelCodes, llm.ErrorCode(f.code)) {
			*to = &llm.Error{Code: llm.ErrorCode(f.code), Message: f.message, Retryable: f.retryable}
			return true
		}
	case **agent.RunError:
		if f.code != "" && !slices.Contains(modelCodes, llm.ErrorCode(f.code)) {
			*to = &agent.RunError{Agent: f.agent, Code: f.code, Err: errors.New(f.message)}
			return true
		}
	}
	return false
}

// modelCodes are the codes of errors of models.
var modelCodes = []llm.ErrorCode{llm.CodeUnreachable, llm.CodeTimeout, llm.CodeTruncated, llm.CodeUnauthorized, llm.CodeNotFound, llm.CodeBadRequest,
	llm.CodeContextLength, llm.CodeRateLimited, llm.CodeServer, llm.CodeBadResponse}

func failureOf(code, message string, retryable bool) *failure {
	return &failure{code: code, message: message, retryable: retryable}
}

// reader finds the answers in the events of a run.
type reader struct {
	*run
	next      *answer // the incomplete answer
	before    []llm.Chunk
	last      *answer // the last complete answer
	strayText *answer // the first text that is not an answer
}

// end is called after the last event of the log.
func (r *reader) end() {
	r.discardStray()
	if len(r.answers) == 0 && r.strayText != nil {
		r.answers = append(r.answers, r.strayText)
	}
}

// The beginnings of notices, and the texts between their parts.
const (
	undecided   = "who answers is not decided: "
	modelFailed = "the model failed: "
	asksUser    = "the user is asked whom they mean: "
	noSummary   = "without a summary: "
	noAnswer    = "the model's answer about the user's intent is incomplete"
	outputCut   = "output_truncated"
	malformed   = "malformed_tool_name"
)

func (r *reader) open(e *event.Event) *answer {
	if r.next == nil {
		r.next = &answer{seq: e.Seq, at: e.Time, certainty: -1}
	}
	return r.next
}

func (r *reader) add(a *answer) {
	a.before, r.before = append(a.before, r.before...), nil
	r.answers, r.next, r.last = append(r.answers, a), nil, a
}

func (r *reader) take(e *event.Event) {
	if r.next != nil && !r.next.at.Equal(e.Time) {
		r.discardStray()
	}
	switch d := e.Data.(type) {
	case *event.Reasoning:
		r.open(e).reasoning = *d
	case *event.Text:
		if a := r.open(e); a.kind != answerChoice { // otherwise it is the agent's own question
			a.text = d.Content
		}
	case *event.ToolCall:
		r.open(e).calls = append(r.open(e).calls, callOf(e.ID, d))
	case *event.Usage:
		a := r.open(e)
		a.usage, a.finish = d, llm.FinishStop
		if len(a.calls) > 0 {
			a.finish = llm.FinishToolCalls
		}
		r.add(a)
	case *event.Compaction:
		a := r.open(e)
		a.kind, a.text = answerSummary, d.Summary
	case *event.Notice:
		r.notice(e, d)
	case *event.Discard:
		r.discard(e, d)
	case *event.Failure:
		r.fail(e, d)
	case *event.Route:
		switch {
		case d.Failed != nil:
			r.fail(e, d.Failed)
		case r.last != nil && r.last.at.Equal(e.Time):
			r.last.kind, r.last.text, r.last.certainty = answerChoice, d.IntentLabel, d.IntentConfidence
		}
	case *event.HarnessEnd:
		r.discardStray()
		r.finish = d.FinishReason
		if r.last != nil && r.last.at.Equal(e.Time) {
			for id, call := range llmagent.SplitCalls(d.Output) { // for calls that another node makes
				r.last.calls, r.last.finish = append(r.last.calls, callOf(id, call)), llm.FinishToolCalls
			}
			switch d.FinishReason {
			case event.FinishReasonLength:
				r.last.finish = llm.FinishLength
			case event.FinishReasonContentFilter:
				r.last.finish = llm.FinishContentFilter
			case event.FinishReasonLimit:
				if r.last.failed != nil {
					r.last.failed.limit = true
				}
			}
		}
	}
}

// discardStray discards events that are not an answer: the texts of a function, or of an agent that asks no model. Logs
// that were converted from those of other programs have answers in this form.
func (r *reader) discardStray() {
	a := r.next
	if r.next = nil; a == nil {
		return
	}
	switch {
	case a.kind == answerSummary:
		a.kind = answerShortened
		r.add(a)
	case a.text != "" && r.strayText == nil:
		a.missing = "the log does not have it as the answer of a model"
		r.strayText = a
	}
}

func (r *reader) notice(e *event.Event, d *event.Notice) {
	switch d.Code {
	case event.NoticeDecided:
		a := r.open(e)
		a.kind = answerChoice
		a.text, _, _ = strings.Cut(d.Message, " answers, ")
		a.certainty = confidence(d.Message)
	case event.NoticeAsksUser:
		a := r.open(e)
		rest := strings.TrimPrefix(d.Message, asksUser)
		a.kind, a.certainty, a.text = answerChoice, confidence(rest), rest[:max(0, strings.LastIndex(rest, ", decided"))]
	case event.NoticeUndecided:
		a := r.open(e)
		a.kind = answerChoice
		why := strings.TrimPrefix(d.Message, undecided)
		if failed, ok := strings.CutPrefix(why, modelFailed); ok {
			a.kind, a.failed = answerBroken, failureOf("", failed, false)
			r.add(a)
		} else if name, ok := strings.CutSuffix(why, " needs an input, which the agent's own model has to give"); ok {
			a.text = name
		}
	case event.NoticeCompactionFailed:
		a := r.open(e) // of a compaction, or alone if nothing was omitted
		_, why, _ := strings.Cut(d.Message, noSummary)
		a.kind, a.failed = answerSummary, failureOf("", why, false)
		r.add(a)
	case "fallback":
		r.before = append(r.before, llm.Chunk{Notice: &llm.Notice{Code: d.Code, Message: d.Message}})
	}
}

func (r *reader) discard(e *event.Event, d *event.Discard) {
	a := &answer{seq: e.Seq, at: e.Time, usage: d.Usage, finish: llm.FinishStop, certainty: -1}
	switch {
	case d.Code == "canceled" || d.Code == event.CodeTripwire || d.Code == event.CodeAnticipated:
		return // no model was asked again
	case d.Code == event.CodeEmptyAnswer:
		if a.kind = answerEmpty; strings.HasSuffix(d.Message, "without text") { // but with calls, for a function that requires a text
			a.kind = answerCutCalls
		}
	case d.Code == event.CodeBadOutput:
		a.kind = answerWrongForm
	case d.Code == outputCut:
		a.kind, a.finish = answerCutCalls, llm.FinishLength
	case d.Message == noAnswer:
		a.kind, a.failed = answerBroken, failureOf(d.Code, "recorded", false)
	default:
		lost := &llm.Attempt{Code: llm.ErrorCode(d.Code), Message: d.Message}
		if u := d.Usage; u != nil {
			lost.Usage, lost.Model = &llm.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CachedTokens: u.CachedTokens}, u.Model
		}
		r.before = append(r.before, llm.Chunk{Lost: lost})
		return
	}
	r.add(a)
}

func (r *reader) fail(e *event.Event, d *event.Failure) {
	a := &answer{seq: e.Seq, at: e.Time, kind: answerBroken, failed: failureOf(d.Code, d.Message, d.Retryable), certainty: -1}
	a.failed.agent = e.Agent
	if d.Code == event.CodeTripwire && r.last != nil && r.last.at.Equal(e.Time) && r.last.text == "" && len(r.last.calls) == 0 {
		r.last.missing = "a guard refused its text, which is not in the log"
	}
	r.add(a)
}

// callOf returns a call in the form of a model.
func callOf(id string, d *event.ToolCall) llm.ToolCall {
	if d.Name == malformed {
		var was struct{ Name, Arguments string }
		if json.Unmarshal(d.Input, &was) == nil {
			return llm.ToolCall{ID: id, Name: was.Name, Arguments: was.Arguments}
		}
	}
	return llm.ToolCall{ID: id, Name: d.Name, Arguments: string(d.Input)}
}

const withConfidence = "with a confidence of "

// confidence reads the confidence of a choice, -1 if it is not known.
func confidence(message string) float64 {
	i := strings.LastIndex(message, withConfidence)
	if i < 0 {
		return -1
	}
	number, _, _ := strings.Cut(message[i+len(withConfidence):], ":")
	sure, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return -1
	}
	return sure
}

// asked returns the answer as one to the routing question, which a transfer records as a call.
func (a *answer) asked() *answer {
	if a.kind != answerText || len(a.calls) != 1 || a.calls[0].Name != agent.TransferTool {
		return a
	}
	var to struct {
		Name   string `json:"agent_name"`
		Reason string `json:"reason"`
	}
	if json.Unmarshal([]byte(a.calls[0].Arguments), &to) != nil || !strings.HasPrefix(to.Reason, "decided") {
		return a
	}
	chosen := *a
	chosen.kind, chosen.text, chosen.certainty, chosen.calls = answerChoice, to.Name, confidence(to.Reason), nil
	if _, name, ok := strings.Cut(to.Reason, ": for "); ok {
		chosen.text = name
	}
	return &chosen
}

// yieldTo yields the answer as the model did. continues reports that the run may continue after a failure.
func (a *answer) yieldTo(yield func(llm.Chunk, error) bool, continues bool) {
	before := a.before
	whole := a.failed != nil && a.kind == answerBroken && len(before) > 0 && before[len(before)-1].Lost != nil &&
		string(before[len(before)-1].Lost.Code) == a.failed.code
	if whole && continues { // the caller records the last attempt itself
		before = before[:len(before)-1]
	}
	for _, c := range before {
		if !yield(c, nil) {
			return
		}
	}
	if a.failed != nil {
		yield(llm.Chunk{}, a.failed)
		return
	}
	var last llm.Chunk
	if a.finish != "" {
		last.Finish = a.finish
	}
	if u := a.usage; u != nil {
		last.Usage, last.Model = &llm.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CachedTokens: u.CachedTokens}, u.Model
	}
	switch a.kind {
	case answerChoice:
		name := cmp.Or(a.text, "-")
		last.Text = name
		if a.certainty >= 0 && a.text != "" { // a first token that is not a name prevents the weighing of the text
			last.LogProbs = []llm.LogProb{{Token: " "}, {Token: name, LogProb: math.Log(max(a.certainty, 1e-9))}}
		}
	case answerWrongForm:
		last.Text = "(the log does not have what did not fit)"
	case answerCutCalls:
		last.Call = &llm.ToolCall{ID: "cut", Name: "cut", Arguments: "{"}
	case answerEmpty:
	default:
		last.Reasoning, last.Sealed, last.Text = a.reasoning.Content, a.reasoning.Sealed, a.text
		for i := range a.calls {
			if !yield(llm.Chunk{Call: &a.calls[i]}, nil) {
				return
			}
		}
	}
	yield(last, nil)
}
