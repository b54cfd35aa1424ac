package openai

import "strconv"

// choices finds the answer among the choices of events. It is the first choice, with the calls of all choices: some
// endpoints put text and calls in different choices, and some use the index to count the chunks of one answer.
type choices struct {
	last   int    // the index of the previous choice
	counts bool   // the index counts the chunks
	next   *aside // the choice with the index after the last one: a chunk, or another answer
	other  aside  // other answers, used if the first is empty
	calls  map[int]bool
}

// aside is the content of a choice that may not be part of the answer.
type aside struct{ text, reasoning, reason string }

func (o *aside) add(p *aside) {
	o.text += p.text
	o.reasoning += p.reasoning
	if p.reason != "" {
		o.reason = p.reason
	}
}

// ours reports whether the text and the finish reason of a choice are part of the answer. alone reports that it is the
// only choice of its event, and calls that it has calls.
func (a *attempt) ours(c *choice, alone, calls bool) bool {
	r := &a.reading
	o := &r.choices
	n, _ := strconv.ParseFloat(string(c.Index), 64)
	at, before := int(n), o.last
	o.last = at
	if o.counts && at == before+1 {
		return true
	}
	said := &aside{c.Delta.text() + c.Message.text(), c.Delta.reasoning() + c.Message.reasoning(), string(c.FinishReason.flexText)}
	if next := o.next; next != nil {
		o.next = nil
		if at == before+1 && alone && r.end == endNone {
			o.counts = true
			a.say(next)
			return true
		}
		o.other.add(next)
	}
	switch {
	case at == 0:
		return true
	case calls:
		if o.calls == nil {
			o.calls = map[int]bool{}
		}
		o.calls[at] = true
	case at == before+1 && alone && r.end == endNone:
		o.next = said
		return false
	}
	if o.calls[at] {
		a.finish(said.reason)
	}
	o.other.add(said)
	return false
}

// say adds a choice that is part of the answer after all.
func (a *attempt) say(s *aside) {
	r := &a.reading
	r.say(r.text.add(s.text, false), r.thought.add(s.reasoning, false))
	a.finish(s.reason)
}

// rest adds the choices that are still pending at the end of the answer.
func (a *attempt) rest() {
	r := &a.reading
	o := &r.choices
	if o.next != nil && r.end == endNone {
		a.say(o.next)
	} else if o.next != nil {
		o.other.add(o.next)
	}
	if r.text.empty() && len(o.calls) == 0 {
		a.say(&o.other)
	} else if r.text.empty() {
		r.say(r.text.add(o.other.text, false), "")
	}
	r.say(r.text.end(), r.thought.end())
	if held := r.details.end(); r.field == "" {
		r.say("", r.thought.put(held))
	}
	for _, it := range r.items.list {
		if it.kind == messageItem {
			r.say(it.said.end(), "")
		} else {
			r.say("", it.said.end())
		}
	}
	said, thought := r.thinking.split(mended(r.halves[0].held))
	more, last := r.thinking.end(r.end == endLength)
	r.hand(said+more, mended(r.halves[1].held)+thought+last, false)
}
