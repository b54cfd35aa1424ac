package turntext

import "errors"

// Joiner joins the pieces of an answer to one text, with an empty line between blocks. It computes what a client that
// receives the text while it is produced gets next. If pieces take back text that the client already has, the Joiner
// expects the same text to come again and skips it. The zero value is ready to use. It is not safe for concurrent use.
type Joiner struct {
	text   []byte
	repeat string // text that was taken back and that the client has
	blocks []started
}

type started struct {
	id string
	at int
}

// ErrRestarted reports that other text replaces text that the client already has.
var ErrRestarted = errors.New("text that was already sent has been replaced: request the answer again")

// Add adds a piece and returns the text that is new for the client.
func (j *Joiner) Add(p Piece) (next string, err error) {
	last := len(j.blocks) - 1
	switch p.Kind {
	case Opened:
		j.blocks = append(j.blocks, started{p.Block, len(j.text)})
		if len(j.text) > 0 {
			return j.add("\n\n")
		}
	case Appended:
		if j.blocks[last].id != p.Block {
			return "", ErrRestarted
		}
		return j.add(p.Text)
	case Voided:
		if j.blocks[last].id != p.Block {
			return "", ErrRestarted
		}
		j.repeat = string(j.text[j.blocks[last].at:]) + j.repeat
		j.text, j.blocks = j.text[:j.blocks[last].at], j.blocks[:last]
	case Closed:
	}
	return "", nil
}

// Text returns the whole text, which the caller must not change.
func (j *Joiner) Text() []byte { return j.text }

func (j *Joiner) add(text string) (string, error) {
	j.text = append(j.text, text...)
	switch n := min(len(text), len(j.repeat)); {
	case text[:n] != j.repeat[:n]:
		return "", ErrRestarted
	default:
		j.repeat = j.repeat[n:]
		return text[n:], nil
	}
}

// End adds a last text in a block of its own; "" adds none. It returns the text that is new for the client, and
// ErrRestarted if text that the client has did not come again.
func (j *Joiner) End(text string) (next string, err error) {
	if text != "" {
		if next, err = j.Add(Piece{Kind: Opened}); err == nil {
			var more string
			more, err = j.add(text)
			next += more
		}
	}
	if err == nil && j.repeat != "" {
		err = ErrRestarted
	}
	return next, err
}
