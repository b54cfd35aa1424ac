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

// leakFilter filters the text of one answer. It passes all text on as it comes, except from a position at which a call
// may begin: it holds this text back until it is clear whether it is a call. It looks at each byte once. A nil
// *leakFilter holds nothing back.
type leakFilter struct {
	req      *llm.Request
	tools    []llm.ToolSpec // of the request, and those of other agents
	position textPosition   // after the last byte
	held     []byte         // the text that may still be a call
	trials   []trial        // the forms that it may have
	next     []trial        // the forms that it may have with one more byte
	first    bool           // no text comes before it
	tight    bool           // it follows a sentence without a space
	after    byte           // the last byte before it that is not white space
	said     bool           // the text before it may be at its end
	follows  bool           // the text of this answer follows a call
	lastTool string         // the last tool name in it
	anyName  bool           // calls of tools that do not exist count, too
	plain    bool           // no call can leak, but tokens of the model's template can
	ignored  bool           // a native call came, so all text is text
	repeated []llm.ToolCall // the calls in held, if they may repeat the native calls
	words    string         // the text after these calls
	turn     bool           // a turn of others begins in it
	suppress bool           // the rest starts as a call, as a tool's description or as a turn of others, so the user must not see it
	cutOff   bool           // the end of the text does, after other text
}

// leaksOf returns the filter for an answer to the request, or nil if the answer stays as it is. JSON is not a call if
// the answer must be JSON.
func (c *client) leaksOf(req *llm.Request) *leakFilter {
	mode := c.leaked
	if req.LeakedCalls != "" {
		mode = req.LeakedCalls
	}
	if mode == llm.LeakedCallsOff {
		return nil
	}
	none := mode != llm.LeakedCallsAny && len(req.Tools)+len(req.Known) == 0 || req.ToolChoice == llm.ToolChoiceNone || req.ResponseFormat != nil
	return &leakFilter{req: req, tools: slices.Concat(req.Tools, req.Known), anyName: mode == llm.LeakedCallsAny, plain: none}
}

// filter adds text, and returns the text that can be yielded now.
func (l *leakFilter) filter(s string) string {
	switch {
	case l == nil:
		return s
	case l.suppress:
		return ""
	case l.ignored && len(l.held) > 0 && strings.TrimSpace(s) == "":
		return "" // the held text may still repeat the native calls
	case l.ignored:
		return string(l.release()) + s
	}
	var out []byte
	from := 0 // s[from:i] can be yielded after out
	for i := 0; i < len(s); i++ {
		c := s[i]
		if len(l.held) > 0 {
			whole := len(l.held) < maxLeak && l.step(c)
			if whole && !l.turn {
				l.position.pass(c)
				from = i + 1
				continue
			}
			if l.turn || l.mustSuppress(false) {
				l.suppress = true
				l.release()
				return string(out)
			}
			out = append(out, l.release()...)
		}
		if l.position.begins(c) && l.step(c) {
			out = append(out, s[from:i]...)
			from = i + 1
		}
		l.position.pass(c)
	}
	if len(out) == 0 {
		return s[from:]
	}
	return string(append(out, s[from:]...))
}

// release returns the text that was held back and stops holding it. The bytes are valid until the next call.
func (l *leakFilter) release() []byte {
	held := l.held
	l.held, l.trials, l.lastTool = l.held[:0], l.trials[:0], ""
	return held
}

// suppressed reports whether text was dropped because it is not an answer to the user.
func (l *leakFilter) suppressed() bool { return l != nil && l.suppress }

// endsInCall reports whether the answer ends in an incomplete call after other text.
func (l *leakFilter) endsInCall() bool { return l != nil && l.cutOff }

// nativeCall reports that a native call came: from now on all text is text. It returns the text that was held back,
// unless that consists of complete calls, which may repeat the native ones, or is only the mark that opens them.
func (l *leakFilter) nativeCall() string {
	if l == nil || l.ignored {
		return ""
	}
	l.ignored = true
	for i := range l.trials {
		t := &l.trials[i]
		if t.whole() && !l.quoted(t) {
			if l.repeated = t.calls; t.part().kind == "words" {
				l.words = string(l.held[t.from:])
			}
			return ""
		}
		if t.form == &between && t.open != "" && len(t.calls) == 0 || t.at == 0 && t.part().kind == "mark" && isToken(string(l.held)) {
			l.release()
			return ""
		}
	}
	return string(l.release())
}

// end returns what was held back at the end of the answer, as calls or as text. It drops calls that repeat native ones.
func (l *leakFilter) end(native []llm.ToolCall) (text string, calls []llm.ToolCall) {
	if l == nil || len(l.held) == 0 {
		return "", nil
	}
	if l.ignored {
		if l.repeats(native) {
			return l.words, nil
		}
		return string(l.release()), nil
	}
	blank := false
	for i := range l.trials {
		t := &l.trials[i]
		switch p := t.part(); {
		case t.whole() && l.quoted(t):
			return string(l.release()), nil
		case t.whole() && p.kind == "words":
			rest := &leakFilter{req: l.req, tools: l.tools, anyName: l.anyName, follows: true, position: textPosition{inText: true}}
			text = rest.filter(string(l.held[t.from:]))
			more, others := rest.end(native)
			if l.cutOff = rest.cutOff; l.cutOff {
				return "", nil
			}
			return text + more, append(t.calls, others...)
		case t.whole():
			return "", t.calls
		case p.kind == "bare" && l.isBare(l.name()) && !l.mentioned(l.name()):
			return "", []llm.ToolCall{{ID: "call_" + randomHex(), Name: l.name(), Arguments: "{}"}}
		case p.kind == "over", p.kind == "info" && t.size == 0:
			blank = blank || (l.first || l.tight && l.after != ':' && isToken(string(l.held))) && t.closed && len(t.calls) == 0 && t.open == "" && !t.fenced
		}
	}
	switch {
	case blank:
		return "", nil // empty marks are not an answer, and the tokens at its end not a part of it
	case l.mustSuppress(true) && (l.first || l.held[len(l.held)-1] != '`'): // otherwise it is code in a text
		l.suppress, l.cutOff = l.first, !l.first
		return "", nil
	}
	return string(l.release()), nil
}

// repeats reports whether all calls that the filter has recognized before the first native one repeat native ones.
func (l *leakFilter) repeats(native []llm.ToolCall) bool {
	for _, c := range l.repeated {
		if !slices.ContainsFunc(native, func(n llm.ToolCall) bool {
			return resolveName(l.tools, n.Name, strings.EqualFold) == c.Name && sameJSON(n.Arguments, c.Arguments)
		}) {
			return false
		}
	}
	return true
}

// textPosition is a position in a text. It knows whether a call can begin there: at the beginning of the text, of a
// line or of a sentence, but not in a block of code. The zero value is the beginning of the text.
type textPosition struct {
	inText bool   // the text has a character other than white space
	inLine bool   // so has this line
	space  bool   // the last byte is white space
	indent bool   // this line begins with white space
	last   uint32 // the last bytes that are not white space
	marks  bool   // a mark or code may begin in this word
	ticks  int    // the backticks at the beginning of this line
	code   bool   // inside a fenced block
	mark   []byte // what may be a mark for the turn of others
	others bool   // such a mark came: what follows are not calls of the model
}

// begins reports whether a call can begin with the byte here. White space can at the beginning of a text: it is
// invisible unless text follows.
func (p *textPosition) begins(c byte) bool {
	if blank(c) {
		return !p.inText
	}
	if p.code || p.others {
		return false
	}
	glued := !p.space && !p.marks && (nameByte(byte(p.last)) || byte(p.last) >= 0x80 || strings.IndexByte(")*%", byte(p.last)) >= 0) && (c == '<' || c == '[' || c == ']')
	return (strings.IndexByte("{<[]`>A*", c) >= 0 || !p.inText && nameByte(c)) && (!p.inLine || glued || p.sentence())
}

// sentence reports whether a sentence ends here.
func (p *textPosition) sentence() bool {
	switch p.last & 0xffffff {
	case 0xe38082, 0xefbc81, 0xefbc9f, 0xefbc9a, 0xe280a6: // full width: 。！？： and …
		return true
	}
	c := byte(p.last)
	return c == '.' || c == '!' || c == '?' || c == ':'
}

// said reports whether the text may be at its end: after a word or a sentence, and not within a list, a line of code or a
// string.
func (p *textPosition) said() bool {
	c, before := byte(p.last), byte(p.last>>8)
	switch {
	case c == ':' || before == '\\' && c == 'n':
		return false
	case p.inLine && p.space:
		return p.sentence() && !(c == '.' && before >= '0' && before <= '9')
	}
	return (nameByte(c) || c >= 0x80 || p.sentence()) && (p.inLine || !p.indent)
}

// tight reports whether what follows here belongs to the last word or sentence, because no space separates them.
func (p *textPosition) tight() bool {
	return p.inLine && !p.space && (byte(p.last) < 0x80 || p.last&0xffffff == 0xe280a6 || !p.sentence())
}

func (p *textPosition) pass(c byte) {
	if c == '<' || c == '[' {
		p.mark = append(p.mark[:0], c)
	} else if len(p.mark) > 0 {
		p.mark = append(p.mark, c)
		p.others = p.others || slices.Contains(turnsOfOthers(), string(p.mark))
		if !slices.ContainsFunc(turnsOfOthers(), func(mark string) bool { return strings.HasPrefix(mark, string(p.mark)) }) {
			p.mark = p.mark[:0]
		}
	}
	p.marks = !blank(c) && (p.marks || strings.IndexByte("<[`", c) >= 0)
	switch {
	case c == '\n':
		p.inLine, p.space, p.indent, p.ticks = false, true, false, 0
		return
	case blank(c):
		p.space, p.indent = true, p.indent || !p.inLine
		return
	case c == '`' && (p.ticks > 0 || !p.inLine):
		if p.ticks++; p.ticks == 3 {
			p.code = !p.code
		}
	default:
		p.ticks = 0
	}
	p.inText, p.inLine, p.space, p.last = true, true, false, p.last<<8|uint32(c)
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// mustSuppress reports whether the text starts as a call of a tool of the request, or as the description of one, in
// marks for calls or cut off in the middle, and cannot become a complete call any more. The user must not see such a
// text.
func (l *leakFilter) mustSuppress(cut bool) bool {
	begin := strings.TrimLeft(string(l.held), " \t\r\n")
	if rest, about := strings.CutPrefix(begin, "<tool_call>"); cut && l.tight && about && strings.TrimLeft(rest, "\r\n") == rest {
		return false // this may be text about calls
	}
	if !cut && (!l.first || !strings.HasPrefix(begin, "<") && !strings.HasPrefix(begin, "]<") && !strings.HasPrefix(begin, "[TOOL_CALLS]")) {
		return false
	}
	name := l.lastTool
	if found := toolNames.Get().FindSubmatch(l.held); name == "" && found != nil {
		name = l.tool(string(found[1]))
	}
	return name != "" && !l.mentioned(name)
}

var toolNames = lazyregexp.New(`["'](?:name|tool_name|tool|function|action|function_name|recipient_name)["']\s*:\s*["']([^"']+)["']`)

// name returns the text without the characters that may surround a tool's name.
func (l *leakFilter) name() string { return strings.Trim(string(l.held), " \t\r\n.`") }

// tool returns the name of the request's tool that a written name means, or "" if there is none.
func (l *leakFilter) tool(written string) string {
	if name := resolveName(l.tools, written, func(a, b string) bool { return a == b }); l.exists(name) || l.anyName && l.first {
		return name
	}
	return ""
}

func (l *leakFilter) exists(name string) bool {
	return offers(l.tools, name)
}

// beginsTool reports whether a written name of a tool may begin with the text.
func (l *leakFilter) beginsTool(text string) bool {
	begins := func(name string) bool { return strings.HasPrefix(name, text) }
	return strings.ContainsAny(text, ".:/") || slices.ContainsFunc(namespaces[:], begins) ||
		slices.ContainsFunc(l.tools, func(t llm.ToolSpec) bool { return begins(t.Name) || slices.ContainsFunc(t.Aliases, begins) })
}

// beginsBare reports whether a name that is a call by itself begins with the text. bare reports whether it is the whole
// name.
func (l *leakFilter) beginsBare(words string) bool {
	return slices.ContainsFunc(l.tools, func(t llm.ToolSpec) bool {
		return slices.ContainsFunc(t.Bare, func(name string) bool { return strings.HasPrefix(name, words) })
	})
}

func (l *leakFilter) isBare(words string) bool {
	return slices.ContainsFunc(l.tools, func(t llm.ToolSpec) bool { return slices.Contains(t.Bare, words) })
}
