// Package words tells what a turn says, piece by piece as it is said, for doors whose clients read words and
// nothing else: what was missed of a block is made good, and what was taken back is told. It imports event,
// session and llmagent, and writes nothing.
package words

import (
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llmagent"
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
	// FilesInPlace makes each file a piece of the kind Closed alone, where the log has it. Otherwise a file
	// waits for the end of the blocks that are open.
	FilesInPlace bool

	begun  *event.User
	wanted *llmagent.ClientOutput // nil if the client wants text
	log    session.Reader
	opened []*session.Block // that have more than space to show
	files  []Piece          // that came while somebody was speaking
	out    []Piece
}

// Next takes in an entry. The slice is valid until the next call.
func (p *Reader) Next(en session.Entry) []Piece {
	p.out = p.out[:0]
	at, _ := session.ParsePosition(en.ID) // entries of a store and a tail have one
	rec := p.log.NextAt(at, en.Event)
	if p.wanted != nil {
		p.output(rec)
		return p.out
	}
	for _, b := range rec.Void {
		if p.close(b) {
			p.say(Voided, b, "")
		}
	}
	if rec.Block != nil && spoken(rec.Block) {
		p.block(rec)
	}
	if d, ok := rec.Data.(*event.File); ok { // of whatever scope: it is the session's
		file := Piece{Kind: Closed, Block: rec.ID, Agent: p.log.Speaker(rec.Event), Text: "File: " + d.String()}
		if p.FilesInPlace {
			p.out = append(p.out, file)
		} else {
			p.files = append(p.files, file)
		}
	}
	if len(p.files) > 0 && !slices.ContainsFunc(p.log.Blocks, spoken) {
		for _, file := range p.files {
			for _, file.Kind = range []Kind{Opened, Said, Closed} {
				p.out = append(p.out, file)
			}
		}
		p.files = p.files[:0]
	}
	return p.out
}

// Begin sets the message that began the turn. If its client wants an answer of a form, the pieces contain the output of
// the turn and no other text, and only if the output has the form. Calling Begin again with the same message does nothing.
func (p *Reader) Begin(user *event.User) {
	if user != p.begun {
		p.begun, p.wanted = user, WantedBy(user)
	}
}

// output adds the output of the conversation's last run.
func (p *Reader) output(rec session.Record) {
	end, ok := rec.Data.(*event.HarnessEnd)
	if !ok || rec.Scope != "" || end.FinishReason != event.FinishReasonStop || p.wanted.Check(end.Output) != nil {
		return
	}
	for _, kind := range []Kind{Opened, Said, Closed} {
		p.out = append(p.out, Piece{Kind: kind, Block: rec.ID, Agent: rec.Agent, Text: string(end.Output)})
	}
}

// WantedBy returns the form of the answer that the message of a user asks for. It returns nil for text.
func WantedBy(user *event.User) *llmagent.ClientOutput {
	if user == nil {
		return nil
	}
	wanted, _ := llmagent.ClientOutputIn(user.Metadata) // the handlers have checked it
	return wanted
}

// spoken reports whether a block is part of the conversation's words.
func spoken(b *session.Block) bool { return b.Scope == "" && b.Type() != event.TypeReasoning }

// block says what is new of a block. A block opens when it has more than space.
func (p *Reader) block(rec session.Record) {
	b, news := rec.Block, rec.News
	if !slices.Contains(p.opened, b) {
		if news = rec.Whole; rec.Partial {
			news = string(b.Shown)
		}
		if strings.TrimSpace(news) == "" {
			return
		}
		p.opened = append(p.opened, b)
		p.say(Opened, b, "")
	}
	if news != "" {
		p.say(Said, b, news)
	}
	if !rec.Partial {
		p.close(b)
		p.say(Closed, b, rec.Whole)
	}
}

// close forgets a block, and reports whether it was open.
func (p *Reader) close(b *session.Block) bool {
	i := slices.Index(p.opened, b)
	if i >= 0 {
		p.opened = slices.Delete(p.opened, i, i+1)
	}
	return i >= 0
}

func (p *Reader) say(kind Kind, b *session.Block, text string) {
	p.out = append(p.out, Piece{Kind: kind, Block: b.ID, Agent: b.Speaker, Text: text})
}
