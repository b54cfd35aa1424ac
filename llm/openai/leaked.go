package openai

import (
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/llm"
)

// This file finds tool calls that a model has written as text. Small models do so if their endpoint does not know the
// form they were trained on. leakedcall.go decides which text is such a call, and which only quotes one.

// maxLeak is the maximal number of bytes of an answer that are held back. A longer call remains text.
const maxLeak = 64 << 10

// maxLeakDepth is the deepest nesting of a call's JSON, maxLeakedCalls the maximal number of calls in one answer, and
// maxLeakedArgs the maximal number of arguments between marks in a call.
const (
	maxLeakDepth   = 64
	maxLeakedCalls = 32
	maxLeakedArgs  = 64
)

// leaks filters the text of one answer. It passes all text on as it comes, except from a position at which a call may
// begin: it holds this text back until it is clear whether it is a call. It looks at each byte once. A nil *leaks holds
// nothing back.
type leaks struct {
	req    *llm.Request
	place  spot           // after the last byte
	held   []byte         // the text that may still be a call
	trials []trial        // the forms that it may have
	next   []trial        // the forms that it may have with one more byte
	first  bool           // no text comes before it
	tight  bool           // it follows a sentence without a space
	after  byte           // the last byte before it that is not white space
	named  string         // the last tool name in it
	any    bool           // calls of tools that do not exist count, too
	over   bool           // a native call came, so all text is text
	twice  []llm.ToolCall // the calls in held, if they may repeat the native calls
	spoil  bool           // the text starts as a call, or as a tool's description, so the user must not see it
	half   bool           // the end of the text does, after other text
}

// leaksOf returns the filter for an answer to the request, or nil if no call can have leaked. JSON is not a call if the
// answer must be JSON.
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

// words adds text, and returns the text that can be yielded now.
func (l *leaks) words(s string) string {
	switch {
	case l == nil:
		return s
	case l.over && len(l.held) > 0 && strings.TrimSpace(s) == "":
		return "" // the held text may still repeat the native calls
	case l.over:
		return string(l.drop()) + s
	case l.spoil:
		return ""
	}
	var out []byte
	from := 0 // s[from:i] can be yielded after out
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

// drop returns the text that was held back and stops holding it. The bytes are valid until the next call.
func (l *leaks) drop() []byte {
	held := l.held
	l.held, l.trials, l.named = l.held[:0], l.trials[:0], ""
	return held
}

// spoiled reports whether text was dropped because it is not an answer to the user.
func (l *leaks) spoiled() bool { return l != nil && l.spoil }

// halved reports whether the answer ends in an incomplete call after other text.
func (l *leaks) halved() bool { return l != nil && l.half }

// native reports that a native call came: from now on all text is text. It returns the text that was held back, unless
// that consists of complete calls, which may repeat the native ones.
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

// end returns what was held back at the end of the answer, as calls or as text. It drops calls that repeat native ones.
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
		return "", nil // empty marks are not an answer
	case l.spoils(true) && (l.first || l.held[len(l.held)-1] != '`'): // otherwise it is code in a text
		l.spoil, l.half = l.first, !l.first
		return "", nil
	}
	return string(l.drop()), nil
}

// spot is a position in a text. It knows whether a call can begin there: at the beginning of the text, of a line or of
// a sentence, but not in a block of code. The zero value is the beginning of the text.
type spot struct {
	inText bool   // the text has a character other than white space
	inLine bool   // so has this line
	gap    bool   // the last byte is white space
	last   uint32 // the last bytes that are not white space
	ticks  int    // the backticks at the beginning of this line
	code   bool   // inside a fenced block
}

// begins reports whether a call can begin with the byte here. White space can at the beginning of a text: it is
// invisible unless text follows.
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

// tight reports whether a sentence ends here without the space that should follow it.
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

// spoils reports whether the text starts as a call of a tool of the request, or as the description of one, in marks for
// calls or cut off in the middle, and cannot become a complete call any more. The user must not see such a text.
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

// name returns the text without the characters that may surround a tool's name.
func (l *leaks) name() string { return strings.Trim(string(l.held), " \t\r\n.") }

// tool returns the name of the request's tool that a written name means, or "" if there is none.
func (l *leaks) tool(written string) string {
	if name := meant(written, l.exists); l.exists(name) || l.any && l.first {
		return name
	}
	return ""
}

func (l *leaks) exists(name string) bool {
	return l.anyTool(func(t llm.ToolSpec) bool { return called(t, name) })
}

// beginsTool reports whether a written name of a tool may begin with the text.
func (l *leaks) beginsTool(text string) bool {
	begins := func(name string) bool { return strings.HasPrefix(name, text) }
	return strings.ContainsAny(text, ".:/") || slices.ContainsFunc(namespaces[:], begins) ||
		l.anyTool(func(t llm.ToolSpec) bool { return begins(t.Name) || slices.ContainsFunc(t.Aliases, begins) })
}

// beginsBare reports whether a name that is a call by itself begins with the text. bare reports whether it is the whole
// name.
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
