package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/llm"
)

// trial is the state of matching the held text with one form, or with several in sequence. It is a value: where a form
// can continue in two ways, it becomes two trials. A trial that does not match the next byte is dropped.
type trial struct {
	form   *form
	at     int // the part of the form that the text is in
	size   int // the bytes of that part
	from   int // the start of that part in the text
	calls  []llm.ToolCall
	until  int         // the end of the last call in the text
	name   string      // the name of the incomplete call
	key    string      // the argument whose value follows
	args   [][2]string // the keys and values as they are written
	raw    string      // the end of values that are written without quotes
	scan   scan        // the state in arguments
	object object      // the state in a call
	open   string      // the marks that close the open ones, inner ones first, each with a line end
	opened int         // the number of calls before the open marks
	fenced bool
	closed bool   // a form is complete
	loose  int    // how many more braces may follow: directly after a call in marks or double braces, models write one too many
	block  bool   // the mark counts only at the end of a line, because inline it may belong to text about calls
	mark   string // the mark at the end of the last form, "" if that form ends without one
	ended  int    // the end of that form in the text
}

// between is the state between forms, and words that of the text after calls in marks.
var (
	between = form{parts: []part{{kind: "over", last: true}}}
	words   = form{parts: []part{{kind: "words", last: true}}}
)

func (t *trial) part() *part { return &t.form.parts[t.at] }

// whole reports whether the text consists of complete calls. A mark that ends with the answer need not be closed.
func (t *trial) whole() bool {
	return len(t.calls) > 0 && t.size == 0 && t.part().last && (t.open == "" || len(t.calls) > t.opened)
}

// step adds a byte. It returns false, and does not hold the byte, if no call can continue with it.
func (l *leakFilter) step(c byte) bool {
	if len(l.held) == 0 {
		l.first, l.tight, l.after, l.said = !l.position.inText, l.position.tight(), byte(l.position.last), l.position.said()
		l.trials = append(l.trials[:0], trial{form: &between})
	}
	l.held = append(l.held, c)
	l.next = l.next[:0]
	for i := range l.trials {
		l.advance(l.trials[i], c)
	}
	if len(l.next) == 0 {
		l.held = l.held[:len(l.held)-1]
		return false
	}
	l.trials, l.next = l.next, l.trials
	return true
}

// advance adds the trials to which a trial leads with the byte.
func (l *leakFilter) advance(t trial, c byte) {
	p := t.part()
	switch {
	case t.block && len(l.held) > len(lineMark):
		if t.block = false; c == '\n' || c == '\r' {
			l.advance(t, c)
		}
		return
	case t.loose > 0 && c == '}':
		more := t
		more.loose--
		l.next = append(l.next, more)
		if p.kind != "mark" || p.text != "}" {
			return
		}
	case p.kind == "others" || p.kind == "words":
		l.next = append(l.next, t)
		return
	case t.size == 0 && p.skips(c):
		t.loose = 0
		l.keep(t)
		return
	case p.kind == "over":
		l.begin(t, c)
		return
	}
	if t.loose = 0; t.size == 0 {
		t.from = len(l.held) - 1
	}
	l.read(t, c)
}

// read adds the trials to which a trial leads if the byte belongs to its part or ends it.
func (l *leakFilter) read(t trial, c byte) {
	p := t.part()
	t.size++
	text := l.held[t.from:]
	whole, ok := false, true // of the part with this byte
	switch p.kind {
	case "mark":
		ok, whole = p.text[t.size-1] == c, t.size == len(p.text)
	case "call":
		if c == '<' && l.braceless(&t) {
			l.enter(t, t.at+1, int(c))
			return
		}
		ok = (t.size > 1 || c == '{') && l.json(&t, c)
		whole = t.scan.depth == 0
	case "object", "(":
		whole, ok = l.arguments(&t, p.kind, text)
	case "name":
		if !nameByte(c) && strings.IndexByte(".:/", c) < 0 {
			l.endName(t, string(text[:t.size-1]), c)
			return
		}
		ok = l.anyName && l.first && !t.form.loose || l.beginsTool(string(text)) // models invent tools
	case "key", "value":
		whole, ok = t.pair(p.kind, text)
	case "bare":
		ok = l.beginsBare(l.name())
	case "info":
		if !nameByte(c) {
			if c != '`' {
				l.enter(t, t.at+1, int(c))
			}
			return
		}
		ok = t.fenced // the beginning of a fence
	}
	switch {
	case ok && whole:
		l.enter(t, t.at+1, -1)
	case ok:
		l.next = append(l.next, t)
	}
}

// skips reports whether the byte may come before the part.
func (p *part) skips(c byte) bool {
	return blank(c) && p.kind != "key" && p.kind != "value" && !(p.kind == "info" && c == '\n')
}

// begin adds a trial for each form that begins with the byte.
func (l *leakFilter) begin(t trial, c byte) {
	for _, f := range forms() {
		if l.fits(f, &t, c) {
			t := t
			t.form, t.loose, t.block = f, 0, l.inline(f, &t)
			l.enter(t, 0, int(c))
		}
	}
	apart := isToken(t.mark) || t.mark != "" && bytes.IndexByte(l.held[t.ended:], '\n') >= 0
	if apart && strings.IndexByte("<[]{}`>", c) < 0 && len(t.calls) > 0 && t.open == "" && !t.fenced && (l.first || l.follows || l.tight && isToken(string(l.held))) {
		t.form, t.from = &words, len(l.held)-1
		l.next = append(l.next, t)
	}
}

// lineMark is the mark of several families around a call. Inline, it may be a part of a text about calls.
const lineMark = "<tool_call>"

// inline reports whether a form begins directly after other text, though its mark may be a part of that.
func (l *leakFilter) inline(f *form, t *trial) bool {
	return l.tight && !t.closed && !f.rare && (!f.glm || l.after == ':')
}

// endName adds the trials to which a trial leads after the name of a tool.
func (l *leakFilter) endName(t trial, name string, c byte) {
	t.name = l.tool(name)
	if made := l.anyName && l.first && !t.form.loose; !made && !l.exists(t.name) {
		return
	}
	if !t.form.loose {
		l.lastTool = t.name
	}
	l.enter(t, t.at+1, int(c))
}

// arguments processes the last byte of arguments in brackets.
func (l *leakFilter) arguments(t *trial, kind string, text []byte) (whole, ok bool) {
	c := text[len(text)-1]
	t.scan.step(c)
	ok = t.size > 1 || c == '(' && kind == "(" || c == '{' && kind == "object"
	if whole = t.scan.depth == 0; whole && ok {
		args := string(text)
		if !json.Valid(text) {
			args = fromPython(t.unmarked(args))
		}
		ok = json.Valid([]byte(args)) && l.commit(t, args)
	} else if ok {
		l.lastTool = t.name
	}
	return whole, ok
}

// unmarked returns arguments with quotes in place of the marks around texts of Gemma 4 and FunctionGemma.
func (t *trial) unmarked(args string) string {
	for _, mark := range [...]string{`<|"|>`, "<escape>"} {
		pieces := strings.Split(args, mark)
		for i := 1; i < len(pieces); i += 2 {
			t.raw, pieces[i] = mark, quote(pieces[i])
		}
		args = strings.Join(pieces, "")
	}
	return args
}

// pair processes the last byte of a key or of its value.
func (t *trial) pair(kind string, text []byte) (whole, ok bool) {
	end := t.form.parts[t.at+1].text
	written, whole := bytes.CutSuffix(text, []byte(end))
	if inner, is := bytes.CutPrefix(bytes.TrimLeft(written, whitespace), []byte("<![CDATA[")); whole && is && end == "</param>" { // MiniCPM 5
		written, whole = bytes.CutSuffix(bytes.TrimRight(inner, whitespace), []byte("]]>"))
	}
	ok = true
	if whole {
		if t.at++; kind == "key" {
			t.key = strings.TrimSpace(string(written))
			ok = !strings.ContainsAny(t.key, `{}<>:,"/=`)
		} else {
			t.args = append(slices.Clip(t.args), [2]string{t.key, string(written)})
			if t.raw = t.part().text; t.raw == `"` {
				t.raw += "--" // others may have written the quote alone
			}
		}
	}
	return whole, ok && len(t.args) <= maxLeakedArgs && (kind == "value" || t.size <= 2*maxLeakedArgs && text[len(text)-1] != '\n')
}

// enter adds the trials to which a trial leads when it reaches a part of its form. It advances it by the byte, unless
// that is -1.
func (l *leakFilter) enter(t trial, at, c int) {
	for t.at, t.size = at, 0; ; t.at++ {
		switch p := t.part(); p.kind {
		case "{":
			l.enter(t, p.jump+1, c)
		case "}":
			t.at = p.jump - 1
		case "end":
			bare := l.tight && t.form.glm && len(t.calls)+len(t.args) == 0 // this may be text about calls
			if args, ok := l.keyed(&t); bare || !ok || !l.commit(&t, args) {
				return
			}
		case "open":
			if strings.HasPrefix(t.open, p.text+"\n") {
				break // models repeat it, and write it in place of the closing one
			}
			if strings.Count(t.open, "\n") == 2 {
				return
			}
			if t.open == "" {
				t.opened = len(t.calls)
			}
			t.open = p.text + "\n" + t.open
		case "close":
			rest, closes := strings.CutPrefix(t.open, p.text+"\n")
			if !closes && (t.open != "" || len(t.calls) == 0 && !t.form.rare || l.after == '>') {
				return
			}
			t.open = rest
		default:
			if p.optional {
				l.enter(t, t.at+1, c)
			}
			if p.kind == "others" && !l.ends(&t) {
				return
			}
			if p.kind == "over" {
				if t.form.calls {
					t.mark, t.ended = t.form.mark, len(l.held)
				}
				t.form, t.at, t.closed = &between, 0, true
			}
			if p.kind == "info" {
				t.fenced = !t.fenced
			}
			if c < 0 {
				l.keep(t)
			} else {
				l.advance(t, byte(c))
			}
			return
		}
	}
}

// ends reports whether the answer may end at the mark that begins a form with the turn of others. After a call, a word
// as in Observation: is such a mark only if the text before the call may be at its end. Otherwise, as after a colon, the
// text shows how such a turn looks, and the call in it is a part of that.
func (l *leakFilter) ends(t *trial) bool {
	mark := t.form.parts[0].text
	if len(t.calls) > 0 {
		return mark[0] == '<' || mark[0] == '[' || l.first || l.said
	}
	ends := (t.closed || l.first || l.said && l.req.ResponseFormat == nil) && !isAbout(l.req, mark)
	l.turn = l.turn || ends
	return ends
}

// isAbout reports whether a text of the conversation contains the mark, so that the answer may explain it.
func isAbout(req *llm.Request, mark string) bool {
	for text := range textsOfOthers(req) {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return strings.Contains(req.System, mark) || slices.ContainsFunc(req.Messages, func(m llm.Message) bool {
		return m.Role == llm.RoleAssistant && strings.Contains(m.PlainText(), mark)
	})
}

// keep adds a trial. It drops a trial between forms that exists already: otherwise their number would double with each
// form that can be read in two ways.
func (l *leakFilter) keep(t trial) {
	same := func(o trial) bool {
		return o.form == &between && len(o.calls) == len(t.calls) && o.open == t.open && o.opened == t.opened && o.fenced == t.fenced && o.loose == t.loose
	}
	if t.form != &between || !slices.ContainsFunc(l.next, same) {
		l.next = append(l.next, t)
	}
}

// fits reports whether a form can begin with the byte after the trial.
func (l *leakFilter) fits(f *form, t *trial, c byte) bool {
	switch {
	case f.begins != "" && strings.IndexByte(f.begins, c) < 0, l.inline(f, t) && f.parts[0].text != lineMark, f.python && t.fenced && t.open == "",
		f.others && (t.fenced || len(t.calls) == 0 && !f.rare), l.plain && (f.calls || !f.rare):
		return false
	case f.loose:
		return l.first || t.open != ""
	}
	return f.parts[0].kind != "bare" || l.first && !t.closed
}

// commit adds a complete call to the calls of the trial.
func (l *leakFilter) commit(t *trial, args string) bool {
	t.until = len(l.held)
	t.calls = append(slices.Clip(t.calls), llm.ToolCall{ID: "call_" + randomHex(), Name: t.name, Arguments: args})
	t.name, t.args, t.scan = "", nil, scan{}
	return len(t.calls) <= maxLeakedCalls
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// scan finds the end of a value in brackets.
type scan struct {
	depth  int
	quote  byte
	escape bool
}

func (s *scan) step(c byte) {
	switch {
	case s.escape:
		s.escape = false
	case s.quote != 0 && c == '\\':
		s.escape = true
	case s.quote != 0 && c == s.quote:
		s.quote = 0
	case s.quote != 0:
	case c == '"' || c == '\'':
		s.quote = c
	case c == '{' || c == '[' || c == '(':
		s.depth++
	case c == '}' || c == ']' || c == ')':
		s.depth--
	}
}

// object is the state of reading a JSON object that can be a call.
type object struct {
	outer int // the depth of the call's own members: 1, or 2 with double braces
	inner bool
	text  int // the start of the last string
	key   string
	value bool // after the colon of a member of the call
}

// json processes a byte of a call that is an object.
func (l *leakFilter) json(t *trial, c byte) bool {
	if t.size == 1 {
		t.scan, t.object = scan{}, object{}
	}
	o, before := &t.object, t.scan
	t.scan.step(c)
	member := o.inner && before.depth == o.outer
	if c == '}' && t.scan.quote == 0 && t.scan.depth == 1 && o.outer == 2 && l.complete(t, l.held[t.from+1:], 2) {
		return true // closed with single braces
	}
	switch {
	case before.quote != 0 && t.scan.quote != 0:
		return c >= ' '
	case before.quote != 0:
		return !member || l.member(o, string(l.held[o.text:len(l.held)-1]))
	case t.scan.quote != 0:
		o.inner, o.text = true, len(l.held)
	case blank(c):
	case c == '{':
		if !o.inner {
			o.outer++
		}
		return o.outer <= 2 && t.scan.depth <= maxLeakDepth && (!member || o.value)
	case t.scan.depth == 0:
		braces := 0
		if o.outer == 2 || t.open != "" {
			braces = 1
		}
		return l.complete(t, l.held[t.from:], braces)
	case member && c == ':':
		o.value = true
	case member && c == ',':
		o.value = false
	default:
		return o.inner && (!member || c == '}' || o.value && c != '[')
	}
	return true
}

// braceless completes a call in marks whose own brace is missing before the closing mark (warpfront/hipfire#508).
func (l *leakFilter) braceless(t *trial) bool {
	object := l.held[t.from : len(l.held)-1]
	if t.open == "" || t.scan.depth != 1 || t.scan.quote != 0 || lastOf(object) != '}' {
		return false
	}
	return l.complete(t, append(bytes.Clone(object), '}'), 0)
}

// complete ends the trial's call if it consists of this text. As many braces may follow it.
func (l *leakFilter) complete(t *trial, raw []byte, braces int) bool {
	name, args, ok := l.parse(raw, t.open != "")
	if ok {
		t.name, t.loose = name, braces
		ok = l.commit(t, args)
	}
	return ok
}

// member reports whether an object with this string as a key, or as the value of its key, can be a call.
func (l *leakFilter) member(o *object, s string) bool {
	if !o.value {
		o.key = s
		return slices.Contains(callKeys, s)
	}
	return !slices.Contains(nameKeys, o.key) || l.tool(s) != ""
}
