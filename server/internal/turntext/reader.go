// Package turntext returns the text of a turn in pieces while the turn runs, for APIs whose clients read only text. It
// adds text of a block whose deltas were lost, and reports text that was taken back. It writes nothing.
package turntext

import (
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
)

// Piece is a change of the text of a turn.
type Piece struct {
	Kind  Kind
	Block string // the id of the block of text
	Agent string // the author: the name of an agent or of a person
	Text  string
}

// Kind is the kind of a change of a block.
type Kind int

// The kinds of pieces.
const (
	// Opened starts a block. Text is "".
	Opened Kind = iota
	// Appended adds Text to the block.
	Appended
	// Closed ends the block. Text is the whole block.
	Closed
	// Voided removes the block, including the text that was appended.
	Voided
)

// Reader converts the entries of one turn, in order, to pieces: the text of the conversation, as it is streamed, and
// one line for each file. A Reader opens each block once, and then closes or voids it, the last block first. The
// appended texts of a block together are the text of its Closed piece. The zero value starts at the beginning of the
// turn, or at any entry at which no block is shown in part. It is not safe for concurrent use.
type Reader struct {
	// FilesInPlace returns each file as one piece of the kind Closed, at its position in the log. By default a file
	// follows the blocks that are open at its position, and has pieces of all three kinds.
	FilesInPlace bool

	begun  *event.User
	wanted *llmagent.ClientOutput // nil if the client wants text
	log    session.Reader
	opened []*session.Block // open blocks that contain more than white space
	files  []Piece          // files that follow the open blocks
	out    []Piece
}

// Next adds an entry and returns its pieces. The slice is valid until the next call.
func (p *Reader) Next(en session.Entry) []Piece {
	p.out = p.out[:0]
	at, _ := session.ParsePosition(en.ID) // entries of a store and of a tail have a valid position
	rec := p.log.NextAt(at, en.Event)
	if p.wanted != nil {
		p.output(rec)
		return p.out
	}
	for _, b := range rec.Void {
		if p.close(b) {
			p.add(Voided, b, "")
		}
	}
	if rec.Block != nil && spoken(rec.Block) {
		p.block(rec)
	}
	if d, ok := rec.Data.(*event.File); ok { // of any scope: all files belong to the session
		file := Piece{Kind: Closed, Block: rec.ID, Agent: p.log.Speaker(rec.Event), Text: "File: " + d.String()}
		if p.FilesInPlace {
			p.out = append(p.out, file)
		} else {
			p.files = append(p.files, file)
		}
	}
	if len(p.files) > 0 && !slices.ContainsFunc(p.log.Blocks, spoken) {
		for _, file := range p.files {
			for _, file.Kind = range []Kind{Opened, Appended, Closed} {
				p.out = append(p.out, file)
			}
		}
		p.files = p.files[:0]
	}
	return p.out
}

// Begin sets the message that started the turn. If the message asks for structured output, the only text of the pieces
// is the output of the turn, if that has the right form. Calling Begin again with the same message does nothing.
func (p *Reader) Begin(user *event.User) {
	if user != p.begun {
		p.begun, p.wanted = user, WantedBy(user)
	}
}

// output adds the output of the run that ends the conversation's turn.
func (p *Reader) output(rec session.Record) {
	end, ok := rec.Data.(*event.HarnessEnd)
	if !ok || rec.Scope != "" || end.FinishReason != event.FinishReasonStop || p.wanted.Check(end.Output) != nil {
		return
	}
	for _, kind := range []Kind{Opened, Appended, Closed} {
		p.out = append(p.out, Piece{Kind: kind, Block: rec.ID, Agent: rec.Agent, Text: string(end.Output)})
	}
}

// WantedBy returns the form of the structured output that a user's message asks for, or nil for text.
func WantedBy(user *event.User) *llmagent.ClientOutput {
	if user == nil {
		return nil
	}
	wanted, _ := llmagent.ClientOutputIn(user.Metadata) // the handlers have checked it
	return wanted
}

// spoken reports whether a block belongs to the conversation's text: not to reasoning, and not to another scope.
func spoken(b *session.Block) bool { return b.Scope == "" && b.Type() != event.TypeReasoning }

// block adds the pieces of a block's new text. A block opens when it contains more than white space.
func (p *Reader) block(rec session.Record) {
	b, news := rec.Block, rec.NewText
	if !slices.Contains(p.opened, b) {
		if news = rec.WholeText; rec.Partial {
			news = string(b.Shown)
		}
		if strings.TrimSpace(news) == "" {
			return
		}
		p.opened = append(p.opened, b)
		p.add(Opened, b, "")
	}
	if news != "" {
		p.add(Appended, b, news)
	}
	if !rec.Partial {
		p.close(b)
		p.add(Closed, b, rec.WholeText)
	}
}

// close removes a block from the open ones, and reports whether it was open.
func (p *Reader) close(b *session.Block) bool {
	i := slices.Index(p.opened, b)
	if i >= 0 {
		p.opened = slices.Delete(p.opened, i, i+1)
	}
	return i >= 0
}

func (p *Reader) add(kind Kind, b *session.Block, text string) {
	p.out = append(p.out, Piece{Kind: kind, Block: b.ID, Agent: b.Speaker, Text: text})
}
