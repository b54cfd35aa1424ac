package openai

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/agentarbor/arbor/llm"
)

// callList joins tool calls from their parts. find decides which call a part belongs to, by index, id, name and whether
// the arguments of a call are complete.
type callList struct {
	calls   []*call
	byIndex map[string]*call
	byID    map[string]*call
	offered func(name string) bool // reports whether a tool with the name is offered; nil accepts all names
	extras  map[string]callExtras  // of the complete calls, by id
}

type call struct {
	id, name string
	index    string
	parts    []string // of the arguments
	all      jsonEnd  // the end of the JSON in all parts
	grows    bool     // each part repeats the part before it at its beginning
	last     jsonEnd  // the end of the JSON in the last part, if grows is set
	extras   *callExtras
}

// whole reports whether the arguments are a complete JSON value.
func (c *call) whole() bool {
	if c.grows && len(c.parts) > 1 {
		return c.last.whole()
	}
	return c.all.whole()
}

// latest returns the last part of the arguments.
func (c *call) latest() string {
	if len(c.parts) == 0 {
		return ""
	}
	return c.parts[len(c.parts)-1]
}

// take adds a part of the arguments. Any part replaces a placeholder.
func (c *call) take(part string) {
	switch {
	case part == "":
		return
	case len(c.parts) == 1 && isPlaceholder(c.parts[0]) && canStart(part):
		c.parts, c.all = nil, jsonEnd{}
	}
	c.grows = len(c.parts) == 0 || c.grows && strings.HasPrefix(part, c.latest())
	if c.grows {
		c.last = jsonEnd{}
		c.last.pass(part)
	}
	c.parts = append(c.parts, part)
	c.all.pass(part)
}

// fill replaces the parts of a call by its complete form. Empty values replace nothing.
func (c *call) fill(id, name, args string) {
	c.id, c.name = cmp.Or(c.id, id), cmp.Or(name, c.name)
	if !isPlaceholder(args) || len(c.parts) == 0 {
		c.parts, c.all = nil, jsonEnd{}
		c.take(args)
	}
}

// keep stores the opaque fields of a part.
func (c *call) keep(p *callPart) {
	if x, some := p.extras(); some && c.extras == nil {
		c.extras = &x
	} else if some {
		c.extras.take(&x.opaque)
		c.extras.Function = cmp.Or(x.Function, c.extras.Function)
	}
}

// start adds an empty call.
func (l *callList) start() *call {
	c := &call{index: "whole " + strconv.Itoa(len(l.calls))}
	if l.byID == nil {
		l.byIndex, l.byID = map[string]*call{}, map[string]*call{}
	}
	l.calls = append(l.calls, c)
	return c
}

// add processes a part of a call.
func (l *callList) add(p *callPart) {
	id, name, args := p.values()
	index := indexOf(p.Index)
	c := l.find(index, id, name, args)
	if c == nil {
		c = l.start()
		c.index = index
	}
	l.byIndex[index], l.byID[id] = c, c
	c.keep(p)
	c.id = cmp.Or(c.id, id)
	if c.name == "" || strings.HasPrefix(name, c.name) {
		c.name = cmp.Or(name, c.name) // it may have come late, again, or longer
	} else if name != "" {
		c.name += name
	}
	c.take(args)
}

// set processes a call that contains everything so far. The call with its id, or at its position, may already have come
// in parts.
func (l *callList) set(p *callPart, at int) {
	id, name, args := p.values()
	c := l.byID[id]
	if id == "" || c == nil {
		if c = nil; at < len(l.calls) && (id == "" || l.calls[at].id == "") && cmp.Or(l.calls[at].name, name) == name {
			c = l.calls[at]
		}
	}
	if c == nil {
		c = l.start()
	}
	l.byID[id] = c
	c.keep(p)
	c.fill(id, name, args)
}

// find returns the call that a part belongs to, or nil if the part starts a new call.
func (l *callList) find(index, id, name, args string) *call {
	var c *call
	same := l.byID[id]
	switch {
	case len(l.calls) == 0:
		return nil
	case index != "":
		c = l.byIndex[index]
		switch {
		case id == "" || same == nil:
		case c == nil && !same.whole() && (name == "" || args != "" && (args[0] != '{' || strings.HasPrefix(args, same.latest()))):
			c = same // the index counts the parts
		case c != nil && c.id != "" && c.id != id:
			c = same // the index is always the same
		}
	case id != "" && same != nil:
		c = same
	default:
		c = l.calls[len(l.calls)-1]
	}
	if c == nil || !l.continues(c, id, name, args) {
		return nil
	}
	return c
}

// continues reports whether a part belongs to a call.
func (l *callList) continues(c *call, id, name, args string) bool {
	other := id != "" && c.id != "" && id != c.id
	switch {
	case name == "":
		return true
	case c.name == "":
		return !other || !c.whole()
	case name != c.name:
		return l.continuesName(c, id, name, other)
	case !c.whole():
		return !other || len(c.parts) > 0
	case args != "" && !canStart(args):
		return true // it comes after the arguments
	case id != "" && !other && c.id != "":
		return args == "" || args == c.latest()
	case id == "" && c.id != "" && args != "" && len(c.parts) > 1 && sameJSON(args, joined(c.parts, c.grows)):
		return true // the endpoint repeats it
	}
	return !other && c.grows && len(c.parts) > 1 && args == c.latest()
}

// continuesName reports whether a name is the next piece of the call's name, or repeats it with more at the end.
func (l *callList) continuesName(c *call, id, name string, other bool) bool {
	longer := strings.HasPrefix(name, c.name)
	both := l.offered != nil && l.offered(c.name) && l.offered(name)
	if other && longer && l.offered != nil && !l.offered(c.name) && len(c.parts) == 0 {
		return true // no tool has the name so far
	}
	return !other && (len(c.parts) == 0 || longer && !c.whole()) && (!both || longer && id != "" && id == c.id)
}

// end returns the calls, each with a unique id, and those calls of the old field that are not among them.
func (l *callList) end(old *callList) []llm.ToolCall {
	var list []*call
	for _, c := range l.calls {
		var before *call
		if len(list) > 0 {
			before = list[len(list)-1]
		}
		switch {
		case before != nil && c.name == "" && !before.whole():
			for _, part := range c.parts {
				before.take(part)
			}
		case c.name == "" && c.empty():
		case before != nil && before.name == c.name && before.index == c.index && before.empty() && !c.empty() &&
			(len(before.parts) == 0 || before.id == "" || c.id == "" || before.id == c.id):
			c.id = cmp.Or(before.id, c.id) // the first was only its beginning, and must not run without arguments
			list[len(list)-1] = c
		default:
			list = append(list, c)
		}
	}
	var out []llm.ToolCall
	used := make(map[string]llm.ToolCall, len(list))
	for _, c := range list {
		call := llm.ToolCall{ID: c.id, Name: c.name, Arguments: joined(c.parts, c.grows)}
		first, again := used[c.id]
		if again && first.Name == call.Name && sameJSON(first.Arguments, call.Arguments) {
			continue
		}
		if call.ID == "" || again {
			call.ID = "call_" + randomHex()
		}
		used[call.ID] = call
		if c.extras != nil {
			if l.extras == nil {
				l.extras = map[string]callExtras{}
			}
			l.extras[call.ID] = *c.extras
		}
		out = append(out, call)
	}
	if old != nil {
		for _, call := range old.end(nil) {
			if !slices.ContainsFunc(out, func(c llm.ToolCall) bool { return c.Name == call.Name && sameJSON(c.Arguments, call.Arguments) }) {
				out = append(out, call)
			}
		}
	}
	return out
}

// named reports whether a call has a name.
func (l *callList) named() bool {
	return slices.ContainsFunc(l.calls, func(c *call) bool { return c.name != "" })
}

// empty reports whether the call has no arguments or only a placeholder.
func (c *call) empty() bool {
	return !slices.ContainsFunc(c.parts, func(part string) bool { return !isPlaceholder(part) })
}

func randomHex() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // crypto/rand documents that it never fails
	return hex.EncodeToString(b[:])
}

// indexOf reads an index, which may be a string, or 1.0; "" means none.
func indexOf(t flexText) string {
	n, err := strconv.ParseFloat(string(t), 64)
	if err != nil {
		return ""
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// jsonEnd finds the end of a JSON value that comes in pieces.
type jsonEnd struct {
	scan
	begun bool
}

func (e *jsonEnd) whole() bool { return e.begun && e.quote == 0 && e.depth <= 0 }

func (e *jsonEnd) pass(text string) {
	for i := range len(text) {
		e.step(text[i])
		e.begun = e.begun || !blank(text[i])
	}
}
