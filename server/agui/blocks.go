package agui

import (
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// words shows what is new of a block. When an attempt at an answer is taken back, clients get the whole
// conversation: they have nothing else for it.
func (p *projection) words(rec session.Record) {
	taken := false
	for _, b := range rec.Void {
		taken = p.close(b) || taken
	}
	_, ends := rec.Data.(*event.HarnessEnd)
	switch b := rec.Block; {
	case taken && !ends:
		p.restate()
	case b != nil && p.shows(b):
		if rec.Fresh {
			p.show(b)
		}
		if rec.News != "" {
			p.say(b, rec.News)
		}
		if !rec.Partial {
			p.close(b)
		}
	}
}

// thinks reports whether a block is reasoning.
func thinks(b *session.Block) bool { return b.Type() == event.TypeReasoning }

// shows reports whether the client sees a block.
func (p *projection) shows(b *session.Block) bool { return p.reasoning || !thinks(b) }

func (p *projection) show(b *session.Block) {
	typ, role, name := "TEXT_MESSAGE_START", "assistant", b.Speaker
	if thinks(b) {
		typ, role, name = "REASONING_MESSAGE_START", "reasoning", ""
		p.emit(&itemEvent{head: headOf(b.Event).of("REASONING_START"), Message: b.ID})
	}
	p.emit(&itemEvent{head: headOf(b.Event).of(typ), Message: b.ID, Role: role, Name: name})
}

func (p *projection) say(b *session.Block, text string) {
	typ := "TEXT_MESSAGE_CONTENT"
	if thinks(b) {
		typ = "REASONING_MESSAGE_CONTENT"
	}
	p.emit(&itemEvent{head: headOf(b.Event).of(typ), Message: b.ID, Delta: text})
}

// close ends a block, and reports whether the client saw it.
func (p *projection) close(b *session.Block) bool {
	if !p.shows(b) {
		return false
	}
	typ := "TEXT_MESSAGE_END"
	if thinks(b) {
		typ = "REASONING_END"
		p.emit(&itemEvent{head: headOf(b.Event).of("REASONING_MESSAGE_END"), Message: b.ID})
	}
	p.emit(&itemEvent{head: headOf(b.Event).of(typ), Message: b.ID})
	return true
}

// restate tells the whole conversation, with what is being said.
func (p *projection) restate() {
	if p.history == nil {
		return
	}
	var all []*message
	all, p.err = p.history(p.log.At.Seq)
	for _, b := range p.log.Blocks {
		m := &message{Run: headOf(b.Event).Run, ID: b.ID, Role: "assistant", Name: b.Speaker, Content: event.EncodeJSON(string(b.Shown))}
		if thinks(b) {
			m.Role, m.Name = "reasoning", ""
		}
		if p.shows(b) {
			all = append(all, m)
		}
	}
	p.snapshot(all)
}
