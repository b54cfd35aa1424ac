package view

import (
	"encoding/json"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/pack"
	"github.com/agentarbor/arbor/llm"
)

// Restore makes a view that has taken in no event what it was when parts of it were stored: those that
// [View.Snapshot] has returned, in the order of their numbers and without those in whose place others
// came. It reports false, and leaves the view empty, if the parts are none of a view like this
// one: of the same agent, policy and tree.
func (v *View) Restore(parts []string) bool {
	if v.seq > 0 || v.SnapshotName() == "" || len(parts) == 0 {
		return false
	}
	fresh := View{agent: v.agent, node: v.node, scope: v.scope, policy: v.policy, hideReason: v.hideReason, shown: shown{count: v.shown.count}}
	print, readers := v.fingerprint(), make([]*viewReader, len(parts))
	total := 0
	for i, data := range parts {
		r := &viewReader{Reader: pack.NewReader(data)}
		if r.Int() != viewForm || r.Text() != string(print[:]) {
			return false
		}
		r.generation, r.first, r.n = r.Int(), r.Int(), r.Count()
		readers[i] = r
		if r.Err() != nil || r.generation != readers[0].generation {
			return false
		}
		total += r.n
	}
	s := &fresh.shown
	s.generation = readers[0].generation
	room := total + min(total/8+8, afterwards)
	s.msgs, s.marks = make([]llm.Message, 0, room), make([]mark, 0, room)
	fresh.kept.generation = s.generation
	for _, r := range readers {
		if r.first < 0 || r.first > len(s.msgs) {
			return false
		}
		size := r.Left()
		s.msgs, s.marks = s.msgs[:r.first], s.marks[:r.first] // what another process had stored there
		for range r.n {
			m, k := r.message()
			if r.Err() != nil || k != s.measure(&m, mark{seq: k.seq, turn: k.turn}) { // it was counted by other means
				return false
			}
			s.msgs, s.marks = append(s.msgs, m), append(s.marks, k)
		}
		fresh.kept.parts = append(fresh.kept.parts, keptPart{r.first, size - r.Left()})
	}
	marks := s.marks
	s.marks = marks[:0]
	for i, k := range marks {
		if i > 0 && k.seq < marks[i-1].seq {
			return false
		}
		s.addMark(k)
	}
	fresh.kept.end = s.settled()
	last := readers[len(readers)-1]
	last.state(&fresh)
	if last.Done() != nil {
		return false
	}
	*v = fresh
	return true
}

// afterwards is for how many messages behind a long snapshot there is room: those of the events that came after it, and of
// the turn that reads it. To grow a long list once more would take as much memory as all the rest.
const afterwards = 128

type viewReader struct {
	*pack.Reader
	generation, first, n int

	room []llm.Part // for the parts of the next messages
}

func (r *viewReader) message() (m llm.Message, k mark) {
	k = mark{seq: r.Position(), tokens: int32(r.Int64()), turn: r.Bool()}
	role := r.Int()
	if role < 0 || role >= len(roles) {
		r.Fail()
		return m, k
	}
	m.Role, m.Text = roles[role], r.Text()
	n := r.Count()
	if n == 0 {
		return m, k
	}
	if n > len(r.room) {
		r.room = make([]llm.Part, max(min(n, 64), min(256, r.Left()/64)))
	}
	taken := min(n, len(r.room))
	m.Parts, r.room = r.room[:0:taken], r.room[taken:]
	for range n {
		if m.Parts = append(m.Parts, r.part()); r.Err() != nil {
			break
		}
	}
	return m, k
}

func (r *viewReader) part() llm.Part {
	switch r.Int() {
	case textPart:
		return llm.TextPart{Text: r.Text()}
	case mediaPart:
		return llm.Media{Kind: llm.MediaKind(r.Text()), MediaType: r.Text(), Data: r.Bytes(), URL: r.Text(), Name: r.Text(), Digest: r.Text()}
	case callPart:
		return llm.ToolCall{ID: r.Text(), Name: r.Text(), Arguments: r.Text()}
	case resultPart:
		return llm.ToolResult{CallID: r.Text(), Name: r.Text(), Output: r.Text(), IsError: r.Bool()}
	case reasoningPart:
		return llm.Reasoning{Text: r.Text(), Sealed: r.Text()}
	}
	r.Fail()
	return llm.TextPart{}
}

// raw reads JSON.
func (r *viewReader) raw() json.RawMessage {
	there, data := r.Bool(), r.Text()
	if !there {
		return nil
	}
	return json.RawMessage(data)
}

func payloadOf[T event.Data](r *viewReader) (d T) {
	if r.Bool() {
		d = pack.PayloadOf[T](r.Reader)
	}
	return d
}

func (r *viewReader) state(v *View) {
	v.seq = r.Position()
	a := &v.open
	a.agent, a.text, a.reasoning, a.sealed, a.show, a.last = r.Text(), r.Text(), r.Text(), r.Text(), r.Bool(), r.Position()
	for range r.Items() {
		a.calls = append(a.calls, r.call())
	}
	v.asks, v.asked, v.entered = r.Bool(), r.Bool(), r.Bool()
	v.handed = payloadOf[*event.Transfer](r)
	v.arrival.to, v.arrival.from, v.arrival.bounced = r.Text(), r.Text(), r.Bool()
	v.arrival.spoken, v.arrival.wordless = r.Bool(), r.Int()
	for range r.Items() {
		v.arrival.returned = append(v.arrival.returned, r.Text())
	}
	v.run.Handed = payloadOf[*event.Transfer](r)
	v.run.Refused = r.Int()
	v.run.From, v.run.Reason = r.Text(), r.Text()
	v.run.Limited, v.run.Answered, v.run.Called, v.run.Decided, v.run.Empty, v.run.Misfit = r.Bool(), r.Bool(), r.Bool(), r.Bool(), r.Bool(), r.Bool()
	for range r.Items() {
		v.run.Failures = append(v.run.Failures, Failure{Name: r.Text(), Input: r.Text(), Error: r.Text(), Answers: r.Int(), last: r.Position()})
	}
	v.use.reported, v.use.counted, v.dropped.tries, v.dropped.failed, v.dropped.since = r.Int(), r.Int(), r.Int(), r.Int(), r.Int()
	v.dropped.upTo, v.dropped.at, v.dropped.summary = r.Position(), r.Position(), r.Text()
	for range r.Items() {
		v.said.last = append(v.said.last, Exchange{Said: r.Text(), By: r.Text()})
	}
}

func (r *viewReader) call() call {
	c := call{Call: Call{ID: r.Text(), Name: r.Text(), RunID: r.Text(), relay: r.Text()}, wire: r.Text()}
	c.Seq, c.Answered = r.Position(), r.Position()
	c.Input, c.result = r.raw(), r.raw()
	c.Asked, c.input, c.isError, c.settled, c.hidden = r.Bool(), r.Bool(), r.Bool(), r.Bool(), r.Bool()
	c.Answer = payloadOf[*event.RelayResolved](r)
	for range r.Items() {
		if d := payloadOf[*event.RelayResolved](r); d != nil {
			c.Answers = append(c.Answers, d)
		} else {
			r.Fail()
		}
	}
	for range r.Items() {
		if d := payloadOf[*event.File](r); d != nil {
			c.files = append(c.files, d)
		} else {
			r.Fail()
		}
	}
	return c
}
