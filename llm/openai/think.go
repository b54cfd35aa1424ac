package openai

import (
	"cmp"
	"strings"
)

// thinkBlocks enclose what a model thinks, where its endpoint does not tell it from what
// it says. In harmony, the form of gpt-oss, what it says is in a block as well.
var thinkBlocks = [...]struct {
	open  string
	close []string
	words bool
}{
	{"<think>", []string{"</think>"}, false},
	{"<thinking>", []string{"</thinking>"}, false},
	{"<thought>", []string{"</thought>"}, false},
	{"<reasoning>", []string{"</reasoning>"}, false},
	{"<seed:think>", []string{"</seed:think>"}, false},
	{"<mm:think>", []string{"</mm:think>"}, false},
	{"[THINK]", []string{"[/THINK]"}, false},
	{"◁think▷", []string{"◁/think▷"}, false},
	{"<|START_THINKING|>", []string{"<|END_THINKING|>"}, false},
	{"<|begin_of_thought|>", []string{"<|end_of_thought|>"}, false},
	{"<|channel>thought", []string{"<channel|>"}, false},
	{"<|channel|>analysis<|message|>", []string{"<|end|>"}, false},
	{"<|start|>assistant<|channel|>analysis<|message|>", []string{"<|end|>"}, false},
	{"<|channel|>final<|message|>", []string{"<|return|>", "<|end|>"}, true},
	{"<|start|>assistant<|channel|>final<|message|>", []string{"<|return|>", "<|end|>"}, true},
	{"<|START_RESPONSE|>", []string{"<|END_RESPONSE|>"}, true},
	{"<|begin_of_solution|>", []string{"<|end_of_solution|>"}, true},
	{"<|begin_of_box|>", []string{"<|end_of_box|>"}, true},
	{"<answer>", []string{"</answer>"}, true},
}

// maxThinkHeld bounds what is held back of a text, in bytes: marks are short, and so is the
// white space around them.
const maxThinkHeld = 4096

const white = " \t\r\n"

// thinking tells what a model thinks from what it says, in a text that begins with the one.
type thinking struct {
	over   bool     // what comes is said
	behind bool     // a block was closed
	apart  bool     // thoughts came in a field of their own: of blocks only what closes them is left
	close  []string // of the block that is open
	words  bool     // which is of words
	mark   string   // that opened the first block of thoughts
	begun  bool     // something of the block was handed out
	held   string   // may belong to a mark, or is white space around one
}

// split takes in a piece of the text.
func (t *thinking) split(piece string) (text, thought string) {
	t.held += piece
	for !t.over {
		if t.close == nil {
			if !t.opens() {
				return text, thought
			}
			continue
		}
		end, mark := len(t.held), ""
		for _, c := range t.close {
			if i := strings.Index(t.held[:end], c); i >= 0 {
				end, mark = i, c
			}
		}
		out := t.held[:end]
		if mark == "" {
			out = certain(out, t.close)
			t.held = t.held[len(out):]
		} else {
			out, t.held = strings.TrimRight(out, white), t.held[end+len(mark):]
			t.close, t.behind = nil, true
		}
		if !t.begun {
			out = strings.TrimLeft(out, white)
		}
		t.begun = t.begun || out != ""
		if t.words {
			text += out
		} else {
			thought += out
		}
		if mark == "" {
			return text, thought
		}
	}
	text, t.held = text+t.held, ""
	return text, thought
}

// opens reports whether it is clear what comes: a block, or what is said.
func (t *thinking) opens() bool {
	begin := strings.TrimLeft(t.held, white)
	for i := range thinkBlocks {
		b := &thinkBlocks[i]
		for _, c := range b.close {
			if rest, ok := strings.CutPrefix(begin, c); ok && (t.behind || t.apart) {
				t.behind, t.held = true, rest
				return true
			}
			if (t.behind || t.apart) && strings.HasPrefix(c, begin) && len(t.held) < maxThinkHeld {
				return false
			}
		}
		if t.apart {
			continue
		}
		if rest, ok := strings.CutPrefix(begin, b.open); ok {
			t.close, t.words, t.begun, t.held = b.close, b.words, false, rest
			if !b.words {
				t.mark = cmp.Or(t.mark, b.open)
			}
			return true
		}
		if strings.HasPrefix(b.open, begin) && len(t.held) < maxThinkHeld {
			return false
		}
	}
	if t.over = true; t.behind {
		t.held = begin
	}
	return true
}

// certain returns what of the text of a block can be neither white space at its end nor the
// beginning of a mark that closes it.
func certain(text string, close []string) string {
	at := len(text)
	for _, c := range close {
		for n := min(len(c)-1, len(text)); n > 0; n-- {
			if strings.HasSuffix(text, c[:n]) {
				at = min(at, len(text)-n)
				break
			}
		}
	}
	out := strings.TrimRight(text[:at], white)
	if len(text)-len(out) > maxThinkHeld {
		return text
	}
	return out
}

// end returns what was held back at the end of the text. A block that is open is what it is.
func (t *thinking) end() (text, thought string) {
	held := t.held
	t.held = ""
	switch {
	case t.close == nil && t.behind:
		return strings.TrimLeft(held, white), ""
	case t.close == nil || t.words:
		return held, ""
	}
	return "", strings.TrimRight(held, white)
}
