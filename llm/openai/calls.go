package openai

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"iter"
	"strings"

	"github.com/agentarbor/arbor/llm"
)

// callList puts tool calls together from their parts.
type callList struct {
	calls   []*call
	byIndex map[int]*call
}

type call struct {
	id, name string
	args     strings.Builder
}

func (c *call) complete() bool { return c.args.Len() > 0 && json.Valid([]byte(c.args.String())) }

func (l *callList) addAll(o *output, whole bool) {
	for i := range o.ToolCalls {
		l.add(&o.ToolCalls[i], whole)
	}
	if o.FunctionCall != nil {
		l.add(&callPart{Function: *o.FunctionCall}, whole)
	}
}

// find returns the call that a part belongs to, nil for a new one. Only a part
// with a right index is unambiguous; the rest is what servers do without one,
// or with an index that is always 0.
func (l *callList) find(p *callPart) *call {
	id, name := string(p.ID), string(p.Function.Name)
	var last *call
	if n := len(l.calls); n > 0 {
		last = l.calls[n-1]
	}
	switch {
	case p.Index != nil:
		c := l.byIndex[*p.Index]
		if c == nil || id != "" && c.id != "" && c.id != id || id == "" && name != "" && c.complete() {
			return nil
		}
		return c
	case id != "":
		for _, c := range l.calls {
			if c.id == id {
				return c
			}
		}
		return nil
	case last == nil || name == "" || last.name == "":
		return last
	case last.name == name && last.args.Len() > 0 && !last.complete():
		return last // the name is repeated with every part
	}
	return nil
}

func (l *callList) add(p *callPart, whole bool) {
	var c *call
	if !whole {
		c = l.find(p)
	}
	if c == nil {
		c = &call{}
		l.calls = append(l.calls, c)
	}
	if p.Index != nil {
		if l.byIndex == nil {
			l.byIndex = map[int]*call{}
		}
		l.byIndex[*p.Index] = c
	}
	if p.ID != "" {
		c.id = string(p.ID)
	}
	if name := string(p.Function.Name); name != c.name && c.args.Len() == 0 {
		c.name += name
	}
	c.args.WriteString(string(p.Function.Arguments))
}

// all yields the calls, each with an id of its own.
func (l *callList) all() iter.Seq[llm.ToolCall] {
	return func(yield func(llm.ToolCall) bool) {
		used := make(map[string]bool, len(l.calls))
		for _, c := range l.calls {
			if c.id == "" || used[c.id] {
				c.id = "call_" + randomHex()
			}
			used[c.id] = true
			if !yield(llm.ToolCall{ID: c.id, Name: c.name, Arguments: c.args.String()}) {
				return
			}
		}
	}
}

func randomHex() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return hex.EncodeToString(b[:])
}
