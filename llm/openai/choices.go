package openai

import "strconv"

// choices finds the one answer that was asked for among the choices of events. It is the
// first choice, with the calls of all: some endpoints give words and calls a choice each,
// and some count the chunks of one answer by the index.
type choices struct {
	last   int    // index of the choice before
	counts bool   // the index counts the chunks
	next   *aside // has the index that follows the last one: a chunk, or another answer
	other  aside  // of other answers, which count if the first has nothing
	calls  map[int]bool
}

// aside is what a choice says that may not count.
type aside struct{ text, reasoning, reason string }

func (o *aside) add(p *aside) {
	o.text += p.text
	o.reasoning += p.reasoning
	if p.reason != "" {
		o.reason = p.reason
	}
}

// ours reports whether the words and the finish reason of a choice count. alone says that it is
// the only one of its event, and calls that it has some.
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

// say takes in what counts after all.
func (a *attempt) say(s *aside) {
	r := &a.reading
	r.say(r.text.add(s.text, false), r.thought.add(s.reasoning, false))
	a.finish(s.reason)
}

// rest takes in what waits at the end of the answer.
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
