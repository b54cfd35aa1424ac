package openai

import "strconv"

// choices finds the answer among the choices of events. It is the first choice, with the calls of all choices: some
// endpoints put text and calls in different choices, and some use the index to count the chunks of one answer.
type choices struct {
	lastIndex   int            // the index of the previous choice
	indexCounts bool           // the index counts the chunks
	pending     *choiceContent // the choice with the index after the last one: a chunk, or another answer
	other       choiceContent  // other answers, used if the first is empty
	calls       map[int]bool
}

// choiceContent is the content of a choice that may not be part of the answer.
type choiceContent struct{ text, reasoning, reason string }

func (o *choiceContent) add(p *choiceContent) {
	o.text += p.text
	o.reasoning += p.reasoning
	if p.reason != "" {
		o.reason = p.reason
	}
}

// belongs reports whether the text and the finish reason of a choice are part of the answer. alone reports that it is
// the only choice of its event, and calls that it has calls.
func (a *attempt) belongs(c *choice, alone, calls bool) bool {
	r := &a.reading
	others := &r.choices
	n, _ := strconv.ParseFloat(string(c.Index), 64)
	at, before := int(n), others.lastIndex
	others.lastIndex = at
	if others.indexCounts && at == before+1 {
		return true
	}
	content := &choiceContent{c.Delta.text() + c.Message.text(), c.Delta.reasoning() + c.Message.reasoning(), string(c.FinishReason.flexText)}
	if next := others.pending; next != nil {
		others.pending = nil
		if at == before+1 && alone && r.end == endNone {
			others.indexCounts = true
			a.addChoice(next)
			return true
		}
		others.other.add(next)
	}
	switch {
	case at == 0:
		return true
	case calls:
		if others.calls == nil {
			others.calls = map[int]bool{}
		}
		others.calls[at] = true
	case at == before+1 && alone && r.end == endNone:
		others.pending = content
		return false
	}
	if others.calls[at] {
		a.finish(content.reason)
	}
	others.other.add(content)
	return false
}

// addChoice adds a choice that is part of the answer after all.
func (a *attempt) addChoice(s *choiceContent) {
	r := &a.reading
	r.addText(r.text.add(s.text, false), r.thought.add(s.reasoning, false))
	a.finish(s.reason)
}

// flush adds the choices that are still pending at the end of the answer.
func (a *attempt) flush() {
	r := &a.reading
	o := &r.choices
	if o.pending != nil && r.end == endNone {
		a.addChoice(o.pending)
	} else if o.pending != nil {
		o.other.add(o.pending)
	}
	if r.text.empty() && len(o.calls) == 0 {
		a.addChoice(&o.other)
	} else if r.text.empty() {
		r.addText(r.text.add(o.other.text, false), "")
	}
	r.addText(r.text.end(), r.thought.end())
	if held := r.details.end(); r.field == "" {
		r.addText("", r.thought.put(held))
	}
	for _, it := range r.items.list {
		if it.kind == messageItem {
			r.endMessage(it)
		} else {
			r.addText("", it.said.end())
		}
	}
	said, thought := r.thinking.split(validText(r.joiners[0].incomplete))
	more, last := r.thinking.end(r.end == endLength)
	r.emit(said+more, validText(r.joiners[1].incomplete)+thought+last, false)
}
