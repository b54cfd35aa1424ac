package agui

import (
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
)

// block is a text, or reasoning. The head has no type.
type block struct {
	head
	id, name  string
	reasoning bool
	shown     []byte
}

// words shows a delta of a block, or the block.
func (p *projection) words(b block, e *event.Event, text string) {
	i := slices.IndexFunc(p.open, func(o block) bool { return o.id == b.id })
	switch known := i >= 0; {
	case e.Partial && (p.lost || text == ""): // it comes when it is whole
		return
	case e.Partial && !known:
		i, p.open = len(p.open), append(p.open, b)
		p.show(&b)
		fallthrough
	case e.Partial:
		p.open[i].shown = append(p.open[i].shown, text...)
		p.say(&b, text)
		return
	case known:
		rest, begun := strings.CutPrefix(text, string(p.open[i].shown))
		if p.open = slices.Delete(p.open, i, i+1); begun && rest != "" {
			p.say(&b, rest)
		}
		if p.close(&b); !begun {
			p.restate()
		}
	case text != "":
		p.whole(&b, text)
	default:
		return
	}
	if !b.reasoning {
		set(&p.bears, e.RunID, b.id)
	}
}

func (p *projection) whole(b *block, text string) {
	p.show(b)
	p.say(b, text)
	p.close(b)
}

func (p *projection) show(b *block) {
	typ, role := "TEXT_MESSAGE_START", "assistant"
	if b.reasoning {
		typ, role = "REASONING_MESSAGE_START", "reasoning"
		p.emit(&itemEvent{head: b.of("REASONING_START"), Message: b.id})
	}
	p.emit(&itemEvent{head: b.of(typ), Message: b.id, Role: role, Name: b.name})
}

func (p *projection) say(b *block, text string) {
	typ := "TEXT_MESSAGE_CONTENT"
	if b.reasoning {
		typ = "REASONING_MESSAGE_CONTENT"
	}
	p.emit(&itemEvent{head: b.of(typ), Message: b.id, Delta: text})
}

func (p *projection) close(b *block) {
	typ := "TEXT_MESSAGE_END"
	if b.reasoning {
		typ = "REASONING_END"
		p.emit(&itemEvent{head: b.of("REASONING_MESSAGE_END"), Message: b.id})
	}
	p.emit(&itemEvent{head: b.of(typ), Message: b.id})
}

// closeSome closes the blocks that a function chooses, the last first, and returns how many.
func (p *projection) closeSome(which func(*block) bool) (n int) {
	for i := len(p.open) - 1; i >= 0; i-- {
		if b := p.open[i]; which(&b) {
			p.close(&b)
			p.open = slices.Delete(p.open, i, i+1)
			n++
		}
	}
	return n
}

// speaker is who says an event. A person has a name as soon as the desk has given it.
func (p *projection) speaker(e *event.Event) string {
	if e.Agent == agent.Human && p.person != "" {
		return p.person
	}
	return e.Agent
}

// discard takes back what was shown of an attempt at an answer, for which clients have but the whole conversation.
func (p *projection) discard(d *event.Discard) {
	if d.Usage != nil {
		p.spend(d.Usage)
	}
	if p.closeSome(func(b *block) bool { return slices.Contains(d.IDs, b.id) }) > 0 {
		p.restate()
	}
}

// restate tells the whole conversation, with what is being said.
func (p *projection) restate() {
	if p.history == nil {
		return
	}
	var all []*message
	all, p.err = p.history(p.at.Seq)
	for _, b := range p.open {
		role := "assistant"
		if b.reasoning {
			role = "reasoning"
		}
		all = append(all, &message{Run: b.Run, ID: b.id, Role: role, Name: b.name, Content: event.EncodeJSON(string(b.shown))})
	}
	p.snapshot(all)
}
