package view

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/pack"
	"github.com/agentarbor/arbor/llm"
)

// viewForm is the version of the bytes of a view. Whoever changes what Apply keeps, or what it shows of an
// event, changes it: views that were stored before are made anew from their logs then.
const viewForm = 3

// SnapshotName is the name under which the view can be stored beside the log; "" if it cannot be. One
// whose policy has functions cannot, nor one of an inner scope, which is short.
func (v *View) SnapshotName() string {
	if v.scope != "" || v.policy.keep != nil || v.policy.redact != nil || len(v.outside) > 0 {
		return ""
	}
	return pack.Name("view", v.agent)
}

// kept is what is known of the parts of the view that are stored: where each of them begins, in messages, and how
// large it is, and where the next one begins.
type kept struct {
	generation int
	parts      []keptPart
	end        int
}

type keptPart struct{ first, size int }

// Snapshot returns what [View.Restore] needs in addition to the parts that were returned before: a part and its
// number, in place of the parts from that number on. Parts are of messages that only grow at their end, so that
// a long view costs what came since; small parts are joined now and then. With anew the part is all
// there is. It does not change what the view shows. The error is that of an event without a JSON form.
func (v *View) Snapshot(anew bool) (part int64, data []byte, err error) {
	s, k := &v.shown, &v.kept
	if anew || k.generation != s.generation || k.end > len(s.msgs) {
		*k = kept{generation: s.generation}
	}
	first := k.end
	messages := appendMessages(nil, s, first, len(s.msgs))
	for len(k.parts) > 0 && k.parts[len(k.parts)-1].size <= len(messages) {
		last := k.parts[len(k.parts)-1]
		k.parts = k.parts[:len(k.parts)-1]
		messages = append(appendMessages(make([]byte, 0, last.size+len(messages)), s, last.first, first), messages...)
		first = last.first
	}
	k.parts, k.end = append(k.parts, keptPart{first, len(messages)}), s.settled()
	print := v.fingerprint()
	data = pack.Text(pack.Int(make([]byte, 0, len(messages)+256), viewForm), print[:])
	data = pack.Int(pack.Int(pack.Int(data, s.generation), first), len(s.msgs)-first)
	data = append(data, messages...)
	data, err = v.appendState(data)
	return int64(first), data, err
}

// settled is how many messages every view has that has read the same log: the last group may still be an open answer to one
// that nobody has looked at.
func (s *shown) settled() int {
	n := len(s.marks)
	for i := n - 1; i >= 0 && s.marks[i].seq == s.marks[len(s.marks)-1].seq; i-- {
		n = i
	}
	return n
}

// fingerprint is a sum of all that decides, besides the log, what the view shows.
func (v *View) fingerprint() [sha256.Size]byte {
	p := v.policy
	b := pack.Int(pack.Text(pack.Text(nil, v.agent), v.scope), p.turns)
	b = pack.Int(b, p.facts)
	for _, is := range []bool{p.hideFacts, p.hideOther, p.files, p.lines, v.hideReason, v.shown.count != nil} {
		b = pack.Bool(b, is)
	}
	var names func(n *agent.Node)
	names = func(n *agent.Node) { // whose tags nobody's words may begin with
		b = pack.Text(b, n.Agent.Name())
		for _, kid := range n.Children() {
			names(kid)
		}
	}
	names(outermost(v.node))
	if call := v.node.Properties.TransferCall; call != nil { // how it shows transfers that were refused
		for _, to := range append(targets(v.node), "an agent that there is not", "unknown") {
			name, arguments := call(v.node, event.EncodeJSON(map[string]string{"agent_name": to, "reason": "r"}))
			b = pack.Text(pack.Text(b, name), arguments)
		}
	}
	return sha256.Sum256(b)
}

func targets(n *agent.Node) (names []string) {
	for _, t := range n.Targets() {
		names = append(names, t.Agent.Name())
	}
	return names
}

// The kinds of parts of messages.
const (
	textPart = iota
	mediaPart
	callPart
	resultPart
	reasoningPart
)

var roles = [...]llm.Role{llm.RoleUser, llm.RoleAssistant, llm.RoleTool}

func appendMessages(b []byte, s *shown, from, to int) []byte {
	for i := from; i < to; i++ {
		m, k := &s.msgs[i], &s.marks[i]
		b = pack.Bool(pack.Int(pack.Int(b, k.seq), int64(k.tokens)), k.turn)
		b = pack.Text(pack.Int(b, slices.Index(roles[:], m.Role)), m.Text)
		b = pack.Int(b, len(m.Parts))
		for _, p := range m.Parts {
			switch p := p.(type) {
			case llm.TextPart:
				b = pack.Text(pack.Int(b, textPart), p.Text)
			case llm.Media:
				b = pack.Text(pack.Text(pack.Int(b, mediaPart), p.Kind), p.MediaType)
				b = pack.Text(pack.Text(pack.Text(pack.Text(b, p.Data), p.URL), p.Name), p.Digest)
			case llm.ToolCall:
				b = pack.Text(pack.Text(pack.Text(pack.Int(b, callPart), p.ID), p.Name), p.Arguments)
			case llm.ToolResult:
				b = pack.Text(pack.Text(pack.Text(pack.Int(b, resultPart), p.CallID), p.Name), p.Output)
				b = pack.Bool(b, p.IsError)
			case llm.Reasoning:
				b = pack.Text(pack.Text(pack.Int(b, reasoningPart), p.Text), p.Sealed)
			}
		}
	}
	return b
}

// stateWriter appends the small rest of a view.
type stateWriter struct {
	b   []byte
	err error
}

func (w *stateWriter) texts(texts ...string) {
	for _, s := range texts {
		w.b = pack.Text(w.b, s)
	}
}

func (w *stateWriter) bools(all ...bool) {
	for _, is := range all {
		w.b = pack.Bool(w.b, is)
	}
}

func (w *stateWriter) ints(all ...int) {
	for _, n := range all {
		w.b = pack.Int(w.b, n)
	}
}

// raw appends JSON, telling none from nothing.
func (w *stateWriter) raw(j json.RawMessage) {
	w.bools(j != nil)
	w.texts(string(j))
}

func payload[T event.Data](w *stateWriter, d *T, there bool) {
	if w.bools(there); there && w.err == nil {
		w.b, w.err = pack.Payload(w.b, *d)
	}
}

func (v *View) appendState(b []byte) ([]byte, error) {
	w := &stateWriter{b: pack.Int(b, v.seq)}
	a := &v.open
	w.texts(a.agent, a.text, a.reasoning, a.sealed)
	w.bools(a.show)
	w.b = pack.Int(w.b, a.last)
	w.ints(len(a.calls))
	for i := range a.calls {
		w.call(&a.calls[i])
	}
	w.bools(v.asks, v.asked, v.entered)
	payload(w, &v.handed, v.handed != nil)
	w.texts(v.arrival.to, v.arrival.from)
	w.bools(v.arrival.bounced, v.arrival.spoken)
	w.ints(v.arrival.wordless)
	w.ints(len(v.arrival.returned))
	w.texts(v.arrival.returned...)
	r := &v.run
	payload(w, &r.Handed, r.Handed != nil)
	w.ints(r.Refused)
	w.texts(r.From, r.Reason)
	w.bools(r.Limited, r.Answered, r.Called, r.Decided, r.Empty, r.Misfit)
	w.ints(len(r.Failures))
	for _, f := range r.Failures {
		w.texts(f.Name, f.Input, f.Error)
		w.ints(f.Answers)
		w.b = pack.Int(w.b, f.last)
	}
	w.ints(v.use.reported, v.use.counted, v.dropped.tries, v.dropped.failed, v.dropped.since)
	w.b = pack.Int(pack.Int(w.b, v.dropped.upTo), v.dropped.at)
	w.texts(v.dropped.summary)
	w.ints(len(v.said.last))
	for _, x := range v.said.last {
		w.texts(x.Said, x.By)
	}
	return w.b, w.err
}

func (w *stateWriter) call(c *call) {
	w.texts(c.ID, c.Name, c.RunID, c.relay, c.wire)
	w.b = pack.Int(pack.Int(w.b, c.Seq), c.Answered)
	w.raw(c.Input)
	w.raw(c.result)
	w.bools(c.Asked, c.input, c.isError, c.settled, c.hidden)
	payload(w, &c.Answer, c.Answer != nil)
	w.ints(len(c.Answers))
	for i := range c.Answers {
		payload(w, &c.Answers[i], true)
	}
	w.ints(len(c.files))
	for i := range c.files {
		payload(w, &c.files[i], true)
	}
}
