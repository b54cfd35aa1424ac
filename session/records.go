package session

import (
	"iter"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// Record is an event and the earlier events that it refers to. Its fields are valid until the reader reads the next
// event.
type Record struct {
	*event.Event

	// Call is the tool call that a result, progress, a question or a file belongs to. For the start of a run in an
	// inner scope it is the call that opened the scope. It is nil if the reader has not read the call.
	Call *event.Event
	// Question is the question that an answer refers to, or nil if the reader has not read it.
	Question *event.Event
	// Failure is the last error of the run that ends with this event, or nil.
	Failure *event.Failure

	// Block is the block of text or reasoning that the event extends or completes. It is nil for other events, for an
	// empty text, and for a delta that follows a missing one, because the complete block follows later. If a run of
	// the conversation ends with an output that it did not stream as text, the output is a block too. See
	// [event.Answer].
	Block *Block
	// Fresh reports that a block starts with this event.
	Fresh bool
	// NewText is the part of the block's text that earlier records did not have. WholeText is the text of the block if
	// the block is complete, and "" otherwise.
	NewText, WholeText string
	// Void are blocks that were shown in part and are void now, the last one first: a retry discarded them, their run
	// ended, or the complete text starts differently.
	Void []*Block
}

// Block is a block of text or reasoning. The embedded event is the first one of the block that the reader has read.
type Block struct {
	*event.Event
	// Speaker is the name of the agent or of the person whose text it is.
	Speaker string
	// Shown is the text of the deltas so far.
	Shown []byte
}

// Reader creates the records of a session's events, of all scopes and in order. A caller may start with the user
// event of any turn. The reader keeps only open calls and the current turn, so it does not grow with the log. The
// zero value is ready to use. A Reader is not safe for concurrent use.
type Reader struct {
	// At is the position of the last event.
	At Position
	// Answer is the turn's answer to the user.
	Answer event.Answer
	// Asked are all questions of the turn, and Questions the open ones, in the order in which they were asked.
	Asked, Questions []*event.Event
	// Blocks are the blocks that were shown in part, in the order in which they started.
	Blocks []*Block

	hole   bool                      // a delta between this stored event and the next one is missing
	person string                    // the name of the person who has the conversation
	calls  map[string]*event.Event   // the calls without a result, by id
	failed map[string]*event.Failure // the last error, by run
}

// Records yields a record for each event. If events yields an error, Records yields it and ends.
func Records(events iter.Seq2[*event.Event, error]) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var r Reader
		for e, err := range events {
			var rec Record
			if err == nil {
				rec = r.Next(e)
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// Next returns the record of the next event.
func (r *Reader) Next(e *event.Event) Record {
	return r.NextAt(Position{Seq: e.Seq}, e)
}

// NextAt is [Reader.Next] for a follower of the session. The reader needs the position to detect missing deltas.
func (r *Reader) NextAt(at Position, e *event.Event) Record {
	r.move(at, e)
	rec := Record{Event: e}
	if e.Scope == "" {
		before := r.Answer.Text
		r.Answer.Apply(e)
		if _, ends := e.Data.(*event.HarnessEnd); ends && r.Answer.Text != before {
			rec.Block, rec.Fresh = &Block{Event: e, Speaker: e.Agent}, true
			rec.NewText, rec.WholeText = r.Answer.Text, r.Answer.Text
		}
	}
	switch d := e.Data.(type) {
	case *event.User:
		r.Answer, r.Asked, r.Questions = event.Answer{}, nil, nil
		clear(r.failed)
	case *event.HarnessStart:
		rec.Call = r.calls[e.ParentID]
	case *event.Text:
		r.text(&rec, d.Content)
	case *event.Reasoning:
		r.text(&rec, d.Content)
	case *event.Discard:
		r.void(&rec, func(b *Block) bool { return slices.Contains(d.IDs, b.ID) })
	case *event.ToolCall:
		put(&r.calls, e.ID, e)
	case *event.ToolProgress:
		rec.Call = r.calls[d.ToolCallID]
	case *event.File:
		rec.Call = r.calls[d.ToolCallID]
	case *event.ToolResult:
		rec.Call = r.calls[e.ID]
		delete(r.calls, e.ID)
		r.closeQuestions(func(q *event.Event) bool { return q.Data.(*event.Relay).ToolCallID == e.ID })
	case *event.Relay:
		rec.Call = r.calls[d.ToolCallID]
		r.Asked, r.Questions = append(r.Asked, e), append(r.Questions, e)
	case *event.RelayResolved:
		r.closeQuestions(func(q *event.Event) bool { return q.ID == d.RelayID })
		if i := slices.IndexFunc(r.Asked, func(q *event.Event) bool { return q.ID == d.RelayID }); i >= 0 {
			rec.Question = r.Asked[i]
		}
	case *event.HandoffStatus:
		r.handoff(e, d)
	case *event.Failure:
		put(&r.failed, e.RunID, d)
	case *event.HarnessEnd:
		rec.Failure = r.failed[e.RunID]
		delete(r.failed, e.RunID)
		r.void(&rec, func(b *Block) bool { return b.RunID == e.RunID })
		if e.Scope == "" && d.FinishReason != event.FinishReasonInputRequired {
			r.Questions = nil
		}
	}
	return rec
}

// Speaker returns the name of the event's agent. For a person it returns the person's name if the desk has sent it.
func (r *Reader) Speaker(e *event.Event) string {
	if e.Agent == agent.Human && r.person != "" {
		return r.person
	}
	return e.Agent
}

// Pending returns the payloads of the open questions.
func (r *Reader) Pending() (pending []*event.Relay) {
	for _, q := range r.Questions {
		pending = append(pending, q.Data.(*event.Relay))
	}
	return pending
}

// move records the position. The deltas between two stored events are numbered from 1.
func (r *Reader) move(at Position, e *event.Event) {
	switch {
	case !e.Partial:
		r.At, r.hole = at, false
	case at.Part > 0:
		next := int64(1)
		if at.Seq == r.At.Seq {
			next = r.At.Part + 1
		} else {
			r.hole = false
		}
		r.At, r.hole = at, r.hole || at.Part != next
	}
}

// text adds a text to its block.
func (r *Reader) text(rec *Record, text string) {
	e := rec.Event
	i := slices.IndexFunc(r.Blocks, func(b *Block) bool { return b.ID == e.ID })
	known := i >= 0
	if e.Partial && r.hole || text == "" && (e.Partial || !known) {
		return
	}
	rec.Fresh, rec.NewText = !known, text
	if known {
		rec.Block = r.Blocks[i]
	} else {
		rec.Block = &Block{Event: e, Speaker: r.Speaker(e)}
	}
	switch b := rec.Block; {
	case e.Partial:
		if b.Shown = append(b.Shown, text...); !known {
			r.Blocks = append(r.Blocks, b)
		}
		return
	case known:
		r.Blocks = slices.Delete(r.Blocks, i, i+1)
		rest, goesOn := strings.CutPrefix(text, string(b.Shown))
		if rec.NewText = rest; !goesOn {
			rec.Void, rec.Fresh = []*Block{b}, true
		}
	}
	rec.WholeText = text
}

// void removes blocks that were shown in part, and reports them in the record.
func (r *Reader) void(rec *Record, which func(*Block) bool) {
	for _, b := range slices.Backward(r.Blocks) {
		if which(b) {
			rec.Void = append(rec.Void, b)
		}
	}
	r.Blocks = slices.DeleteFunc(r.Blocks, which)
}

// closeQuestions removes the questions that are no longer open.
func (r *Reader) closeQuestions(which func(q *event.Event) bool) {
	if len(r.Questions) > 0 {
		r.Questions = slices.DeleteFunc(slices.Clone(r.Questions), which)
	}
}

// handoff records the name of the person who has the conversation.
func (r *Reader) handoff(e *event.Event, d *event.HandoffStatus) {
	switch {
	case event.HandoffOver(d.Status):
		r.person = ""
	case e.Scope == "" && d.TargetAgent != "":
		r.person = d.TargetAgent
	}
}

// Arrivals computes from a log which prompt tokens transfers cost. The zero value is ready for the first event of a
// log. It is not safe for concurrent use.
type Arrivals struct {
	// Agent is the agent whose model answered last in the user's conversation, or "" before the first answer.
	Agent string
}

// Apply applies the next event. If the event is the usage of an answer in the user's conversation and another agent
// gave the previous answer, Apply returns this usage and the number of prompt tokens that the endpoint did not take
// from its cache. Otherwise it returns nil and 0.
func (a *Arrivals) Apply(e *event.Event) (u *event.Usage, anew int) {
	if e.Partial || e.Scope != "" {
		return nil, 0
	}
	switch d := e.Data.(type) {
	case *event.Usage:
		u = d
	case *event.Discard:
		if d.Code != event.CodeAnticipated { // this request was sent before the transfer was committed
			u = d.Usage
		}
	}
	if u == nil {
		return nil, 0
	}
	last := a.Agent
	if a.Agent = e.Agent; last == "" || last == e.Agent {
		return nil, 0
	}
	n := u.Counted()
	return u, max(0, n.InputTokens-n.CachedTokens)
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[key] = v
}
