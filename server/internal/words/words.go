// Package words tells what a turn says, piece by piece as it is said, for doors whose clients read words and
// nothing else: what was missed of a block is made good, and what was taken back is told. It imports agent, event and
// session, and writes nothing.
package words

import (
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// Piece is what an entry of a turn means to somebody who reads its answer.
type Piece struct {
	Kind  Kind
	Block string // the id of the block of words that it belongs to
	Agent string // who says it: an agent's name, or that of a person
	Text  string
}

// Kind is what happens to a block.
type Kind int

// The kinds of pieces.
const (
	// Opened: a block of words begins.
	Opened Kind = iota
	// Said: the text is what comes next in the block.
	Said
	// Closed: the block is complete; the text is all of it.
	Closed
	// Voided: the words of the block that were said are taken back.
	Voided
)

// Reader makes pieces of the entries of one turn, in their order: the words of the conversation, word by word
// where they are streamed, and a line for each file. Each block is opened once, and then closed or voided, the
// last one first; its words are together the text of its end. The zero value is at the turn's beginning, or at
// any entry at which no block was shown in part. It is not safe for concurrent use.
type Reader struct {
	open   []block // that were shown in part, oldest first
	at     session.Position
	lost   bool // deltas at this position were missed: what follows there has a hole in it
	answer event.Answer
	person string
	files  []Piece // that came while somebody was speaking
	out    []Piece
}

type block struct {
	id, agent string
	shown     []byte
	opened    bool // it has more than space to show
}

// Next takes in an entry. The slice is valid until the next call.
func (p *Reader) Next(en session.Entry) []Piece {
	p.out = p.out[:0]
	e := en.Event
	p.Move(en.ID, e)
	switch d := e.Data.(type) {
	case *event.File: // of whatever scope: it is the session's
		p.files = append(p.files, Piece{Block: e.ID, Agent: p.Speaker(e), Text: "File: " + d.String()})
	case *event.HandoffStatus:
		if e.Scope == "" && !event.HandoffOver(d.Status) && d.TargetAgent != "" {
			p.person = d.TargetAgent
		}
	case *event.Discard:
		p.void(d.IDs)
	case *event.Text:
		if e.Scope == "" {
			p.text(e, d.Content)
		}
	}
	if e.Scope == "" && !e.Partial {
		before := p.answer.Text
		p.answer.Apply(e)
		if _, ended := e.Data.(*event.HarnessEnd); ended && p.answer.Text != before { // an output that counts as words
			p.whole(Piece{Block: e.ID, Agent: e.Agent, Text: p.answer.Text})
		}
	}
	if len(p.open) == 0 {
		for _, file := range p.files {
			p.whole(file)
		}
		p.files = p.files[:0]
	}
	return p.out
}

// Move notes where the entry is: deltas between two stored events are counted, so that one that is missing shows.
func (p *Reader) Move(id string, e *event.Event) {
	at, err := session.ParsePosition(id)
	if err != nil {
		return
	}
	p.lost = at.Seq == p.at.Seq && p.lost || e.Partial && at != session.Position{Seq: at.Seq, Part: p.at.Part + 1} && (at.Seq == p.at.Seq || at.Part > 1)
	p.at = at
	if !e.Partial {
		p.at.Part, p.lost = 0, false
	}
}

func (p *Reader) text(e *event.Event, text string) {
	i := slices.IndexFunc(p.open, func(b block) bool { return b.id == e.ID })
	if e.Partial {
		if p.lost || text == "" {
			return // it comes when it is whole
		}
		if i < 0 {
			i = len(p.open)
			p.open = append(p.open, block{id: e.ID, agent: p.Speaker(e)})
		}
		b := &p.open[i]
		b.shown = append(b.shown, text...)
		if !b.opened && strings.TrimSpace(text) != "" {
			b.opened, text = true, string(b.shown)
			p.say(Opened, *b, "")
		}
		if b.opened {
			p.say(Said, *b, text)
		}
		return
	}
	if i >= 0 && !p.open[i].opened {
		p.open = slices.Delete(p.open, i, i+1)
		i = -1
	}
	if i < 0 {
		if strings.TrimSpace(text) != "" {
			p.whole(Piece{Block: e.ID, Agent: p.Speaker(e), Text: text})
		}
		return
	}
	rest, begun := strings.CutPrefix(text, string(p.open[i].shown))
	if !begun {
		b := p.open[i]
		p.void([]string{e.ID})
		p.whole(Piece{Block: b.id, Agent: b.agent, Text: text})
		return
	}
	if rest != "" {
		p.say(Said, p.open[i], rest)
	}
	p.say(Closed, p.open[i], text)
	p.open = slices.Delete(p.open, i, i+1)
}

// void takes blocks back, the last one first.
func (p *Reader) void(ids []string) {
	for i := len(p.open) - 1; i >= 0; i-- {
		if slices.Contains(ids, p.open[i].id) {
			if p.open[i].opened {
				p.say(Voided, p.open[i], "")
			}
			p.open = slices.Delete(p.open, i, i+1)
		}
	}
}

// whole is a block that comes in one piece.
func (p *Reader) whole(of Piece) {
	for _, kind := range []Kind{Opened, Said, Closed} {
		p.say(kind, block{id: of.Block, agent: of.Agent}, of.Text)
	}
}

func (p *Reader) say(kind Kind, b block, text string) {
	p.out = append(p.out, Piece{Kind: kind, Block: b.id, Agent: b.agent, Text: text})
}

// Speaker is who says an event. A person has a name as soon as the desk has given it.
func (p *Reader) Speaker(e *event.Event) string {
	if e.Agent == agent.Human && p.person != "" {
		return p.person
	}
	return e.Agent
}
