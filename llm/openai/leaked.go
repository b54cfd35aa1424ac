package openai

import (
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/llm"
)

// This file finds tool calls that a model has written as words, which small
// models do where their endpoint does not know the form they were trained on.
// What is such a call, and what only quotes one, is said in leakedcall.go.

// maxLeak bounds what is held back of an answer, in bytes. A longer call stays
// words.
const maxLeak = 64 << 10

// maxLeakDepth is the deepest nesting of a call's JSON, and maxLeakedCalls how many
// calls one answer can hold.
const (
	maxLeakDepth   = 64
	maxLeakedCalls = 32
)

// leaks filters the words of one answer. It hands on all words as they come,
// except those from a place on where a call may begin: these wait until it is
// clear whether they are one. Each byte is looked at once. A nil *leaks holds
// nothing back.
type leaks struct {
	req   *llm.Request
	place spot   // behind the last word
	held  []byte // may still be a call; at is then its state
	first bool   // nothing was said before it
	at    candidate
	any   bool // calls of tools that do not exist count, too
	over  bool // a native call came: words are words
	spoil bool // the answer is the beginning of a call, or a tool's description: nothing of it is for the user
}

// leaksOf returns what reads the words of an answer to the request, nil where no
// call can have leaked. An answer that shall be JSON is no call for being JSON.
func (c *client) leaksOf(req *llm.Request) *leaks {
	mode := c.leaked
	if req.LeakedCalls != "" {
		mode = req.LeakedCalls
	}
	if mode == llm.LeakedCallsOff || mode != llm.LeakedCallsAny && len(req.Tools)+len(req.Known) == 0 || req.ToolChoice == llm.ToolChoiceNone || req.ResponseFormat != nil {
		return nil
	}
	return &leaks{req: req, any: mode == llm.LeakedCallsAny}
}

// words takes in words, and returns those that can be handed out now.
func (l *leaks) words(s string) string {
	switch {
	case l == nil || l.over:
		return s
	case l.spoil:
		return ""
	}
	var out []byte
	from := 0 // s[from:i] can be handed out, behind out
	for i := 0; i < len(s); i++ {
		c := s[i]
		if len(l.held) > 0 {
			if len(l.held) < maxLeak && l.step(c) {
				l.place.pass(c)
				from = i + 1
				continue
			}
			if l.spoils(false) {
				l.spoil = true
				l.drop()
				return string(out)
			}
			out = append(out, l.drop()...)
		}
		if l.place.begins(c) && l.step(c) {
			out = append(out, s[from:i]...)
			from = i + 1
		}
		l.place.pass(c)
	}
	if len(out) == 0 {
		return s[from:]
	}
	return string(append(out, s[from:]...))
}

// drop gives up the words that were held back. They are valid until the next
// call.
func (l *leaks) drop() []byte {
	held := l.held
	l.held, l.at = l.held[:0], candidate{}
	return held
}

// spoiled reports whether the words were left out because they are no answer to the user.
func (l *leaks) spoiled() bool { return l != nil && l.spoil }

// native says that a call came as it should. From here on all words are words;
// those held back are returned.
func (l *leaks) native() string {
	if l == nil || l.over {
		return ""
	}
	l.over = true
	return string(l.drop())
}

// end returns what was held back at the end of the answer: calls, or else words.
func (l *leaks) end() (words string, calls []llm.ToolCall) {
	if l == nil || len(l.held) == 0 {
		return "", nil
	}
	switch {
	case l.at.whole() && !l.quoted():
		return "", l.at.calls
	case l.at.bare && l.bare(l.name()) && !l.mentioned(l.name()):
		return "", []llm.ToolCall{{ID: "call_" + randomHex(), Name: l.name(), Arguments: "{}"}}
	case l.first && l.at.blank():
		return "", nil // marks around nothing are no answer
	case l.spoils(l.at.object.depth > 0):
		l.spoil = true
		return "", nil
	}
	return string(l.drop()), nil
}

// spot is a place in a text: whether a call can begin there, which is at the
// beginning of the text, of a line and of a sentence, but not within a block of
// code. The zero value is the beginning.
type spot struct {
	inText bool   // something was said
	inLine bool   // this line has text
	gap    bool   // the last byte is white space
	last   uint32 // the last bytes that are none
	ticks  int    // at the beginning of this line
	code   bool   // within a fence
}

// begins reports whether the byte can be the first of a call. White space can at
// the beginning of a text: nobody sees it, unless words follow.
func (p *spot) begins(c byte) bool {
	if blank(c) {
		return !p.inText
	}
	return !p.code && (c == '{' || c == '<' || c == '`' || !p.inText && nameByte(c)) && (!p.inLine || p.sentence())
}

// sentence reports whether a sentence ends here.
func (p *spot) sentence() bool {
	switch p.last & 0xffffff {
	case 0xe38082, 0xefbc81, 0xefbc9f, 0xefbc9a: // full width: 。！？：
		return true
	case 0xe280a6: // …
		return p.gap
	}
	c := byte(p.last)
	return p.gap && (c == '.' || c == '!' || c == '?' || c == ':')
}

func (p *spot) pass(c byte) {
	switch {
	case c == '\n':
		p.inLine, p.gap, p.ticks = false, true, 0
		return
	case blank(c):
		p.gap = true
		return
	case c == '`' && (p.ticks > 0 || !p.inLine):
		if p.ticks++; p.ticks == 3 {
			p.code = !p.code
		}
	default:
		p.ticks = 0
	}
	p.inText, p.inLine, p.gap, p.last = true, true, false, p.last<<8|uint32(c)
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// marks enclose calls.
var marks = [...]struct{ open, close string }{
	{"```", "```"}, {"<tool_call>", "</tool_call>"}, {"<tools>", "</tools>"},
}

const fence = "```"

// candidate is how far words are a call, or several.
type candidate struct {
	calls  []llm.ToolCall
	open   []opened // marks that are not closed, the innermost last
	token  int      // length of the part of a mark that the words end with
	info   bool     // in the line that opens a fence
	named  bool     // that line has words, and has not ended
	closed bool     // a mark was closed
	bare   bool     // the words are the beginning of a tool's name
	loose  bool     // directly behind a call in doubled braces, which models close once too often
	object object   // in one, if its depth is not 0
}

type opened struct {
	close string
	calls int // before it
}

// object is how far JSON is an object that can be a call.
type object struct {
	from   int // where it begins
	depth  int // of braces
	outer  int // depth of the call's own members: 1, or 2 with doubled braces
	inner  bool
	quoted bool // in a string
	escape bool // behind a backslash in a string
	text   int  // where the string begins
	key    string
	value  bool // behind the colon of a member of the call
}

// whole reports whether the words are calls and nothing else. What ends with the
// answer need not be closed.
func (c *candidate) whole() bool {
	return len(c.calls) > 0 && c.object.depth == 0 && c.token == 0 && c.filled()
}

// blank reports whether the words are marks around nothing.
func (c *candidate) blank() bool {
	return c.closed && !c.named && len(c.calls) == 0 && len(c.open) == 0 && c.object.depth == 0 && c.token == 0
}

// filled reports whether the innermost mark contains a call, or is a fence that the answer ends with: models close what
// they have not opened.
func (c *candidate) filled() bool {
	last := len(c.open) - 1
	return last < 0 || len(c.calls) > c.open[last].calls || c.open[last].close == fence && !c.named
}

// step takes in a byte. If it cannot belong to a call, given what is held, the
// byte is not held, and the answer is false.
func (l *leaks) step(c byte) bool {
	if len(l.held) == 0 {
		l.first = !l.place.inText
	}
	l.held = append(l.held, c)
	if !l.take(c) {
		l.held = l.held[:len(l.held)-1]
		return false
	}
	return true
}

func (l *leaks) take(c byte) bool {
	at := &l.at
	switch {
	case l.first && len(l.name()) == 1 && nameByte(c), at.bare:
		at.bare = l.beginsBare(l.name())
		return at.bare
	case at.object.depth > 0:
		return l.json(c)
	case at.token > 0:
		return at.mark(l.held)
	case blank(c):
		if at.loose = false; c == '\n' || c == '\r' {
			at.named = at.named && !at.info
			at.info = false
		}
		return true
	case c == '}' && at.loose:
		at.loose = false
		return true
	case c == '{':
		at.info = false
		at.object = object{from: len(l.held) - 1}
		return l.json(c)
	case c == '<' || c == '`':
		at.info = false
		return at.mark(l.held)
	}
	at.named = at.info
	return at.info && nameByte(c)
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// spoils reports whether the answer has begun as a call of a tool that the request offers or knows, or as
// the description of one, in marks for calls or cut off in the middle, and cannot become a
// whole call any more. That is no answer to the user.
func (l *leaks) spoils(cut bool) bool {
	if begin := strings.TrimLeft(string(l.held), " \t\r\n"); !l.first || !cut && !strings.HasPrefix(begin, "<") {
		return false
	}
	found := toolNames.Get().FindSubmatch(l.held)
	return found != nil && l.mayCall(string(found[1])) && !l.mentioned(string(found[1]))
}

var toolNames = lazyregexp.New(`"name"\s*:\s*"([^"]+)"`)

// name returns the words without what may surround a tool's name.
func (l *leaks) name() string { return strings.Trim(string(l.held), " \t\r\n.") }

// mark takes in a byte of a mark, the last one of held.
func (c *candidate) mark(held []byte) bool {
	c.token++
	token := string(held[len(held)-c.token:])
	if n := len(c.open) - 1; n >= 0 {
		if end := c.open[n].close; end == token {
			c.open, c.token, c.closed = c.open[:n], 0, true
			return true
		} else if strings.HasPrefix(end, token) {
			return true
		}
	}
	for _, m := range marks {
		switch {
		case len(c.open) > 1, len(c.open) == 1 && (m.open == fence || c.open[0].close != fence):
			// Marks can be in a fence, but not in each other.
		case m.open == token:
			c.open, c.token, c.info = append(c.open, opened{m.close, len(c.calls)}), 0, m.open == fence
			return true
		case strings.HasPrefix(m.open, token):
			return true
		}
	}
	return false
}

// json takes in a byte of an object.
func (l *leaks) json(c byte) bool {
	o := &l.at.object
	member := o.inner && o.depth == o.outer
	switch {
	case o.escape:
		o.escape = false
	case o.quoted && c == '\\':
		o.escape = true
	case o.quoted && c == '"':
		o.quoted = false
		return !member || l.member(string(l.held[o.text:len(l.held)-1]))
	case o.quoted:
		return c >= ' '
	case blank(c):
	case c == '{':
		o.depth++
		if !o.inner {
			o.outer++
		}
		return o.outer <= 2 && o.depth <= maxLeakDepth && (!member || o.value)
	case c == '"':
		o.inner, o.quoted, o.text = true, true, len(l.held)
		return true
	case c == '}':
		if o.depth--; o.depth > 0 {
			return o.inner
		}
		call, ok := l.parse(l.held[o.from:])
		l.at.loose = o.outer == 2
		l.at.calls = append(l.at.calls, call)
		return ok && len(l.at.calls) <= maxLeakedCalls
	case member && c == ':':
		o.value = true
	case member && c == ',':
		o.value = false
	default:
		return !member && o.inner || member && o.value && c != '['
	}
	return true
}

// member reports whether an object can be a call that has this string as a key,
// or as the value of its key.
func (l *leaks) member(s string) bool {
	o := &l.at.object
	if !o.value {
		o.key = s
		return slices.Contains(callKeys, s)
	}
	return o.key != "name" || l.mayCall(s)
}

// mayCall reports whether a tool that the request offers, or knows, is called by this name.
func (l *leaks) mayCall(name string) bool {
	return l.any && l.first || l.anyTool(func(t llm.ToolSpec) bool { return t.Name == name || slices.Contains(t.Aliases, name) })
}

// beginsBare reports whether a name that is a call by itself begins with these words, and bare whether
// they are one.
func (l *leaks) beginsBare(words string) bool {
	return l.anyTool(func(t llm.ToolSpec) bool {
		return slices.ContainsFunc(t.Bare, func(name string) bool { return strings.HasPrefix(name, words) })
	})
}

func (l *leaks) bare(words string) bool {
	return l.anyTool(func(t llm.ToolSpec) bool { return slices.Contains(t.Bare, words) })
}

func (l *leaks) anyTool(is func(llm.ToolSpec) bool) bool {
	return slices.ContainsFunc(l.req.Tools, is) || slices.ContainsFunc(l.req.Known, is)
}
