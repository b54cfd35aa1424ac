package agui

import (
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// block sends the new text of a block. If an attempt at an answer was taken back, it sends the whole conversation,
// because the protocol has no event that removes a message.
func (p *projection) block(rec session.Record) {
	voided := false
	for _, b := range rec.Void {
		voided = p.closeBlock(b) || voided
	}
	_, ends := rec.Data.(*event.HarnessEnd)
	switch b := rec.Block; {
	case voided && !ends:
		p.resendAll()
	case b != nil && p.shows(b):
		if rec.Fresh {
			p.openBlock(b)
		}
		if rec.NewText != "" {
			p.appendBlock(b, rec.NewText)
		}
		if !rec.Partial {
			p.closeBlock(b)
		}
	}
}

// isReasoning reports whether a block is reasoning.
func isReasoning(b *session.Block) bool { return b.Type() == event.TypeReasoning }

// shows reports whether the client sees a block.
func (p *projection) shows(b *session.Block) bool { return p.reasoning || !isReasoning(b) }

func (p *projection) openBlock(b *session.Block) {
	typ, role, name := "TEXT_MESSAGE_START", "assistant", b.Speaker
	if isReasoning(b) {
		typ, role, name = "REASONING_MESSAGE_START", "reasoning", ""
		p.emit(&itemEvent{head: headOf(b.Event).of("REASONING_START"), Message: b.ID})
	}
	p.emit(&itemEvent{head: headOf(b.Event).of(typ), Message: b.ID, Role: role, Name: name})
}

func (p *projection) appendBlock(b *session.Block, text string) {
	typ := "TEXT_MESSAGE_CONTENT"
	if isReasoning(b) {
		typ = "REASONING_MESSAGE_CONTENT"
	}
	p.emit(&itemEvent{head: headOf(b.Event).of(typ), Message: b.ID, Delta: text})
}

// closeBlock ends a block, and reports whether the client sees it.
func (p *projection) closeBlock(b *session.Block) bool {
	if !p.shows(b) {
		return false
	}
	typ := "TEXT_MESSAGE_END"
	if isReasoning(b) {
		typ = "REASONING_END"
		p.emit(&itemEvent{head: headOf(b.Event).of("REASONING_MESSAGE_END"), Message: b.ID})
	}
	p.emit(&itemEvent{head: headOf(b.Event).of(typ), Message: b.ID})
	return true
}

// resendAll sends the whole conversation, with the incomplete blocks.
func (p *projection) resendAll() {
	if p.history == nil {
		return
	}
	var all []*message
	all, p.err = p.history(p.log.At.Seq)
	for _, b := range p.log.Blocks {
		m := &message{Run: headOf(b.Event).Run, ID: b.ID, Role: "assistant", Name: b.Speaker, Content: event.EncodeJSON(string(b.Shown))}
		if isReasoning(b) {
			m.Role, m.Name = "reasoning", ""
		}
		if p.shows(b) {
			all = append(all, m)
		}
	}
	p.snapshot(all)
}
