package words

import "errors"

// Script puts the words of an answer together, as one text with an empty line between its blocks. With what was
// said before to a client that reads along, words that are taken back are owed until they come again.
type Script struct {
	text   []byte
	owed   string
	blocks []started
}

type started struct {
	id string
	at int
}

// ErrRestarted says that words which a client was sent are void, and that others come in their place.
var ErrRestarted = errors.New("text that was already sent has been replaced: request the answer again")

// Take returns what is new to a client.
func (s *Script) Take(p Piece) (say string, err error) {
	last := len(s.blocks) - 1
	switch p.Kind {
	case Opened:
		s.blocks = append(s.blocks, started{p.Block, len(s.text)})
		if len(s.text) > 0 {
			return s.say("\n\n")
		}
	case Said:
		if s.blocks[last].id != p.Block {
			return "", ErrRestarted
		}
		return s.say(p.Text)
	case Voided:
		if s.blocks[last].id != p.Block {
			return "", ErrRestarted
		}
		s.owed = string(s.text[s.blocks[last].at:]) + s.owed
		s.text, s.blocks = s.text[:s.blocks[last].at], s.blocks[:last]
	case Closed:
	}
	return "", nil
}

// Text is all that is said, which must not be changed.
func (s *Script) Text() []byte { return s.text }

func (s *Script) say(words string) (string, error) {
	s.text = append(s.text, words...)
	switch n := min(len(words), len(s.owed)); {
	case words[:n] != s.owed[:n]:
		return "", ErrRestarted
	default:
		s.owed = s.owed[n:]
		return words[n:], nil
	}
}

// End adds what comes after the last words.
func (s *Script) End(words string) (say string, err error) {
	if words != "" {
		if say, err = s.Take(Piece{Kind: Opened}); err == nil {
			var more string
			more, err = s.say(words)
			say += more
		}
	}
	if err == nil && s.owed != "" {
		err = ErrRestarted
	}
	return say, err
}
