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

// maxLeakDepth is the deepest nesting of a call's JSON, maxLeakedCalls how many
// calls one answer can hold, and maxLeakedArgs how many arguments, each in marks, a call
// can have.
const (
	maxLeakDepth   = 64
	maxLeakedCalls = 32
	maxLeakedArgs  = 64
)

// leaks filters the text of one answer. It hands on all text as it comes, except that
// from a place on where a call may begin: this waits until it is
// clear whether it is one. Each byte is looked at once. A nil *leaks holds
// nothing back.
type leaks struct {
	req    *llm.Request
	place  spot           // after the last byte
	held   []byte         // may still be a call
	trials []trial        // the forms that it may have
	next   []trial        // those that it may have with one more byte
	first  bool           // no text is before it
	tight  bool           // it follows a sentence without a space
	after  byte           // the last byte before it that is no white space
	named  string         // the last tool that it names
	any    bool           // calls of tools that do not exist count, too
	over   bool           // a native call came: text is text
	twice  []llm.ToolCall // what is held, if it may be the native calls once more
	spoil  bool           // the text is the beginning of a call, or a tool's description: nothing of it is for the user
	half   bool           // so is its end, and there is text before it
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
	case l == nil:
		return s
	case l.over && len(l.held) > 0 && strings.TrimSpace(s) == "":
		return "" // what is held may still be the native calls
	case l.over:
		return string(l.drop()) + s
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
	l.held, l.trials, l.named = l.held[:0], l.trials[:0], ""
	return held
}

// spoiled reports whether the words were left out because they are no answer to the user.
func (l *leaks) spoiled() bool { return l != nil && l.spoil }

// halved reports whether the answer ends in half a call, with text before it.
func (l *leaks) halved() bool { return l != nil && l.half }

// native says that a call came as it should. From here on all words are words;
// those held back are returned, unless they are whole calls, which may be the native ones.
func (l *leaks) native() string {
	if l == nil || l.over {
		return ""
	}
	l.over = true
	for i := range l.trials {
		if t := &l.trials[i]; t.whole() && !l.quoted(t) {
			l.twice = t.calls
			return ""
		}
	}
	return string(l.drop())
}

// end returns what was held back at the end of the answer: calls, or else text. Calls that the answer has natively
// are neither.
func (l *leaks) end(native []llm.ToolCall) (words string, calls []llm.ToolCall) {
	if l == nil || len(l.held) == 0 {
		return "", nil
	}
	if l.over {
		for _, c := range l.twice {
			if !slices.ContainsFunc(native, func(n llm.ToolCall) bool {
				return meant(n.Name, l.exists) == c.Name && sameJSON(n.Arguments, c.Arguments)
			}) {
				return string(l.drop()), nil
			}
		}
		return "", nil
	}
	blank := false
	for i := range l.trials {
		t := &l.trials[i]
		switch p := t.part(); {
		case t.whole() && l.quoted(t):
			return string(l.drop()), nil
		case t.whole():
			return "", t.calls
		case p.kind == "bare" && l.bare(l.name()) && !l.mentioned(l.name()):
			return "", []llm.ToolCall{{ID: "call_" + randomHex(), Name: l.name(), Arguments: "{}"}}
		case p.kind == "over", p.kind == "info" && t.size == 0:
			blank = blank || l.first && t.closed && len(t.calls) == 0 && t.open == "" && !t.fenced
		}
	}
	switch {
	case blank:
		return "", nil // marks around nothing are no answer
	case l.spoils(true) && (l.first || l.held[len(l.held)-1] != '`'): // else it is code in a text
		l.spoil, l.half = l.first, !l.first
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
	return !p.code && (strings.IndexByte("{<[]`>A", c) >= 0 || !p.inText && nameByte(c)) && (!p.inLine || p.sentence())
}

// sentence reports whether a sentence ends here.
func (p *spot) sentence() bool {
	switch p.last & 0xffffff {
	case 0xe38082, 0xefbc81, 0xefbc9f, 0xefbc9a, 0xe280a6: // full width: 。！？： and …
		return true
	}
	c := byte(p.last)
	return c == '.' || c == '!' || c == '?' || c == ':'
}

// tight reports whether the line goes on without a space after a sentence that should have one.
func (p *spot) tight() bool {
	return p.inLine && !p.gap && (byte(p.last) < 0x80 || p.last&0xffffff == 0xe280a6)
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

// spoils reports whether the text has begun as a call of a tool that the request offers or knows, or as
// the description of one, in marks for calls or cut off in the middle, and cannot become a
// whole call any more. That is no answer to the user.
func (l *leaks) spoils(cut bool) bool {
	begin := strings.TrimLeft(string(l.held), " \t\r\n")
	if !cut && (!l.first || !strings.HasPrefix(begin, "<") && !strings.HasPrefix(begin, "]<") && !strings.HasPrefix(begin, "[TOOL_CALLS]")) {
		return false
	}
	name := l.named
	if found := toolNames.Get().FindSubmatch(l.held); name == "" && found != nil {
		name = l.tool(string(found[1]))
	}
	return name != "" && !l.mentioned(name)
}

var toolNames = lazyregexp.New(`["'](?:name|tool_name|tool|function|action)["']\s*:\s*["']([^"']+)["']`)

// name returns the words without what may surround a tool's name.
func (l *leaks) name() string { return strings.Trim(string(l.held), " \t\r\n.") }

// tool returns the name of the tool that the request offers, or knows, and that is meant by a name;
// "" if there is none.
func (l *leaks) tool(written string) string {
	if name := meant(written, l.exists); l.exists(name) || l.any && l.first {
		return name
	}
	return ""
}

func (l *leaks) exists(name string) bool {
	return l.anyTool(func(t llm.ToolSpec) bool { return called(t, name) })
}

// beginsTool reports whether a name that means a tool may begin so.
func (l *leaks) beginsTool(text string) bool {
	begins := func(name string) bool { return strings.HasPrefix(name, text) }
	return strings.ContainsAny(text, ".:/") || slices.ContainsFunc(namespaces[:], begins) ||
		l.anyTool(func(t llm.ToolSpec) bool { return begins(t.Name) || slices.ContainsFunc(t.Aliases, begins) })
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
