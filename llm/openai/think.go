package openai

import (
	"cmp"
	"strings"
	"sync"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/llm"
)

// thinkBlock encloses the reasoning of a model if its endpoint does not separate it from the text. In harmony, the form of
// gpt-oss, the text is in a block as well.
type thinkBlock struct {
	open   string
	close  []string
	isText bool
}

// thinkTags are the tags around reasoning; the last ones are those of Hunyuan 3 and 4.
const thinkTags = "think thinking thought reasoning seed:think longcat_think mm:think think:opensource think:6124c78e"

var thinkBlocks = sync.OnceValue(func() (all []thinkBlock) {
	for tag := range strings.FieldsSeq(thinkTags) {
		all = append(all, thinkBlock{"<" + tag + ">", []string{"</" + tag + ">"}, false})
	}
	for _, role := range [...]string{"", "<|start|>assistant"} { // harmony
		for _, b := range []thinkBlock{{"analysis", nil, false}, {"commentary to=assistant", nil, false}, {"commentary", nil, true}, {"final", []string{"<|return|>"}, true}} {
			all = append(all, thinkBlock{role + "<|channel|>" + b.open + "<|message|>", append(b.close, "<|end|>"), b.isText})
		}
	}
	return append(all, []thinkBlock{
		{"[THINK]", []string{"[/THINK]"}, false},
		{"◁think▷", []string{"◁/think▷"}, false},
		{"<|START_THINKING|>", []string{"<|END_THINKING|>"}, false},
		{"<|open|>think<|sep|>", []string{"<|close|>think<|sep|>"}, false},
		{"<|thought_start|>", []string{"<|thought_end|>"}, false}, // MiniCPM 3
		{"<|plamo:begin_think:plamo|>", []string{"<|plamo:end_think:plamo|>"}, false},
		{"<|begin_of_thought|>", []string{"<|end_of_thought|>"}, false},
		{"<|channel>thought", []string{"<channel|>"}, false},
		{stripped, []string{"assistantfinal", "assistantcommentary"}, false}, // oobabooga/textgen#7374
		{"<|START_RESPONSE|>", []string{"<|END_RESPONSE|>"}, true},
		{"<|open|>response<|sep|>", []string{"<|close|>response<|sep|>"}, true},
		{"<|begin_of_solution|>", []string{"<|end_of_solution|>"}, true},
		{"<|begin_of_box|>", []string{"<|end_of_box|>"}, true},
		{"<answer>", []string{"</answer>"}, true},
		{"<response>", []string{"</response>"}, true}, // ERNIE 4.5, Granite 3.3
	}...)
})

// stripped opens the reasoning of harmony if an endpoint has removed its tokens. Only a sentence can follow it directly.
const stripped = "analysis"

var sentences = lazyregexp.New(`^[A-Z][A-Za-z]*([ ,']|$)|^$`)

// maxThinkHeld is the maximal number of bytes of a text that are held back. Marks and the white space around them are
// short.
const maxThinkHeld = 4096

const whitespace = " \t\r\n"

// thinking separates reasoning from text, in a text that begins with the reasoning.
type thinking struct {
	req        *llm.Request
	late       bool            // text is held until it is clear that it is not reasoning
	kept       strings.Builder // this text
	settled    bool            // no closing mark is expected: the text has an opening mark, or is all text
	stray      bool            // a closing mark without an opening mark came
	lost       bool            // after a part of the reasoning was yielded as text
	yielded    bool            // text was yielded
	last       byte            // the last byte of the text, 0 before the first
	inText     bool            // the rest is text
	afterBlock bool            // a block was closed
	separate   bool            // the endpoint has a field for reasoning, so only closing marks remain of blocks
	close      []string        // the marks that close the open block
	isText     bool            // the open block contains text
	bare       bool            // only a word opened the block: what follows is text if nothing closes it
	mark       string          // the mark that opened the first block of reasoning
	begun      bool            // a part of the block was yielded
	held       string          // may belong to a mark, or is white space around one
}

// split adds a piece of the text, and returns its text and its reasoning.
func (t *thinking) split(piece string) (text, thought string) {
	t.held += piece
	for {
		if t.inText {
			before, found := t.findStrayClose()
			thought += before
			if !found {
				return text + t.certainText(), thought
			}
		}
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
		if mark == "" && t.bare && !t.begun && end < maxThinkHeld {
			return text, thought
		} else if mark == "" {
			out = certain(out, t.close)
			t.held = t.held[len(out):]
		} else {
			out, t.held = strings.TrimRight(out, whitespace), t.held[end+len(mark):]
			t.close, t.afterBlock = nil, true
		}
		if !t.begun {
			out = strings.TrimLeft(out, whitespace)
		}
		t.begun = t.begun || out != ""
		if t.isText {
			text += out
		} else {
			thought += out
		}
		if mark == "" {
			return text, thought
		}
	}
}

// watches reports whether a closing mark may come without an opening one: the templates of DeepSeek's R1, Qwen3 and
// others put the opening mark into the request.
func (t *thinking) watches() bool {
	return !t.settled && !t.afterBlock && !t.separate && t.mark == ""
}

// findStrayClose looks in the text for a closing mark at the beginning of a line. If it finds one, all text before it
// is reasoning.
func (t *thinking) findStrayClose() (thought string, found bool) {
	if !t.watches() || !strings.ContainsAny(t.held, "<[◁") {
		return "", false
	}
	for _, b := range thinkBlocks() {
		at := strings.Index(t.held, b.close[0])
		if b.isText || at < 0 || !strings.Contains(b.close[0], "/") || strings.Contains(t.held[:at], b.open) {
			continue
		}
		if at > 0 && t.held[at-1] == '\n' || at == 0 && (t.last == '\n' || t.last == 0) {
			for text := range textsOfOthers(t.req) {
				if strings.Contains(text, b.close[0]) {
					return "", false
				}
			}
			thought, t.held = strings.Trim(t.kept.String()+t.held[:at], whitespace), t.held[at+len(b.close[0]):]
			t.kept.Reset()
			t.stray, t.lost, t.inText, t.afterBlock, t.mark = true, t.yielded, false, true, b.open
			return thought, true
		}
	}
	return "", false
}

// certainText returns the held text except for the beginning of a mark at its end. It returns nothing while the text
// may be reasoning.
func (t *thinking) certainText() string {
	at := len(t.held)
	if t.watches() && strings.ContainsAny(t.held, "<[◁") {
		for _, b := range thinkBlocks() {
			if b.open == stripped {
				continue // an ordinary word
			}
			at = min(at, len(t.held)-partialMark(t.held, b.open), len(t.held)-partialMark(t.held, b.close[0]))
			t.settled = t.settled || !b.isText && strings.Contains(t.held, b.open)
		}
	}
	text := t.held[:at]
	if t.held = t.held[at:]; text != "" {
		t.last = text[len(text)-1]
	}
	if t.late && t.watches() {
		t.kept.WriteString(text)
		return ""
	}
	if t.kept.Len() > 0 {
		text = t.kept.String() + text
		t.kept.Reset()
	}
	t.yielded = t.yielded || strings.TrimLeft(text, whitespace) != ""
	return text
}

// partialMark returns the length of an incomplete mark at the end of a text.
func partialMark(text, mark string) int {
	for n := min(len(mark)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			return n
		}
	}
	return 0
}

// thinkers matches models whose first answer may begin with reasoning without an opening mark.
var thinkers = lazyregexp.New(`(?i)\b(r1|qwq|qwen3|think\w*|reason\w*)\b`)

// What is known about a model's reasoning: whether a mark opens it.
const (
	opensUnknown int32 = iota
	opensWithMark
	opensWithoutMark
)

// holdsThoughts reports whether the text of an answer is held until it is clear that it is not reasoning.
func (c *client) holdsThoughts(model string) bool {
	known := c.habit(model).opens.Load()
	return known == opensWithoutMark || known == opensUnknown && thinkers.Get().MatchString(model)
}

// strayed records that no mark opens the model's reasoning. If a part of it was yielded as text, strayed returns a
// retryable error.
func (a *attempt) strayed() error {
	t := &a.reading.thinking
	if !t.stray {
		return nil
	}
	a.client.habit(a.reading.asked).opens.Store(opensWithoutMark)
	if !t.lost {
		return nil
	}
	e := a.client.errorf(llm.CodeServer, nil, "the model's reasoning came as text until a mark ended it; the answer is discarded, try again")
	e.Retryable = true
	return e
}

// opens reports whether it is clear what follows: a block, or text.
func (t *thinking) opens() bool {
	begin := strings.TrimLeft(t.held, whitespace)
	for _, b := range thinkBlocks() {
		for _, c := range b.close {
			if rest, ok := strings.CutPrefix(begin, c); ok && (t.afterBlock || t.separate) {
				t.afterBlock, t.held = true, rest
				return true
			}
			if (t.afterBlock || t.separate) && strings.HasPrefix(c, begin) && len(t.held) < maxThinkHeld {
				return false
			}
		}
		if t.separate {
			continue
		}
		if b.isText && strings.IndexByte(b.open, '|') < 0 && (!t.afterBlock || isAbout(t.req, b.open)) {
			continue // the user may have asked for this tag
		}
		if rest, ok := strings.CutPrefix(begin, b.open); ok && (b.open != stripped || sentences.Get().MatchString(rest)) {
			if b.open == stripped && !strings.ContainsAny(rest, " ,'") {
				return false // it may be a name
			}
			t.close, t.isText, t.bare, t.begun, t.held = b.close, b.isText, b.open == stripped, false, rest
			if !b.isText {
				t.mark = cmp.Or(t.mark, b.open)
			}
			return true
		}
		if strings.HasPrefix(b.open, begin) && len(t.held) < maxThinkHeld {
			return false
		}
	}
	if t.inText = true; t.afterBlock && !t.isText { // a text is a paragraph of its own
		t.held = begin
	}
	return true
}

// certain returns the part of a block's text that can be neither white space at its end nor the beginning of a closing
// mark.
func certain(text string, close []string) string {
	at := len(text)
	for _, c := range close {
		at = min(at, len(text)-partialMark(text, c))
	}
	out := strings.TrimRight(text[:at], whitespace)
	if len(text)-len(out) > maxThinkHeld {
		return text
	}
	return out
}

// end returns what was held back at the end of the text. An open block keeps its kind. cut reports that the answer was
// too long.
func (t *thinking) end(cut bool) (text, thought string) {
	held := t.kept.String() + t.held
	t.held = ""
	t.kept.Reset()
	switch {
	case t.late && cut && t.inText && t.watches():
		return "", strings.Trim(held, whitespace)
	case t.close != nil && t.bare && !t.begun && !cut:
		return stripped + held, ""
	case t.close == nil && t.afterBlock:
		return strings.TrimLeft(held, whitespace), ""
	case t.close == nil || t.isText:
		return held, ""
	}
	return "", strings.TrimRight(held, whitespace)
}
