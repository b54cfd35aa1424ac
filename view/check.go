package view

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/llm"
)

var nameRE = lazyregexp.New(`^[a-zA-Z0-9_-]{1,64}$`)

// Check checks a request against the rules that chat-completions endpoints enforce, the strictest of each: roles, no
// empty messages, names, arguments that are JSON objects, and each tool call answered once, directly after its
// message and in order. The error lists all violations.
func Check(req *llm.Request) error {
	c := checker{}
	c.tools(req)
	if len(req.Messages) == 0 {
		c.fail("the request has no messages")
	}
	var open []string // ids of calls still to be answered, in order
	for i, m := range req.Messages {
		c.at = fmt.Sprintf("message %d (%s)", i, m.Role)
		if len(open) > 0 && m.Role != llm.RoleTool {
			c.fail("the calls %q have no result before it", open)
			open = nil
		}
		switch m.Role {
		case llm.RoleUser:
			c.user(m)
		case llm.RoleAssistant:
			open = c.assistant(m)
			if i == len(req.Messages)-1 && len(open) == 0 {
				c.fail("a request must not end in the assistant's own words")
			}
		case llm.RoleTool:
			open = c.tool(m, open)
		case llm.RoleSystem:
			if i < len(req.Messages)-1 && req.Messages[i+1].Role != llm.RoleUser || m.Text == "" || len(m.Parts) > 0 {
				c.fail("a system message that is neither the last one nor before one of the user, or has no text")
			}
		default:
			c.fail("unknown role")
		}
	}
	c.at = "the request"
	if len(open) > 0 {
		c.fail("the calls %q have no result", open)
	}
	return errors.Join(c.errs...)
}

type checker struct {
	at   string
	errs []error
	seen map[string]bool
}

func (c *checker) fail(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(c.at+": "+format, args...))
}

func (c *checker) tools(req *llm.Request) {
	c.at = "the tools"
	names := make(map[string]bool)
	for _, t := range req.Tools {
		if !nameRE.MatchString(t.Name) || names[t.Name] {
			c.fail("the name %q is malformed or stands twice", t.Name)
		}
		names[t.Name] = true
		var schema struct{ Type string }
		if len(t.Parameters) > 0 && (json.Unmarshal(t.Parameters, &schema) != nil || schema.Type != "object") {
			c.fail("the parameters of %q are no JSON schema of an object", t.Name)
		}
	}
}

func (c *checker) user(m llm.Message) {
	if m.Text == "" && len(m.Parts) == 0 {
		c.fail("it is empty")
	}
	for _, p := range m.Parts {
		switch p.(type) {
		case llm.TextPart, llm.Media:
		default:
			c.fail("a user message holds a %T", p)
		}
	}
}

func (c *checker) assistant(m llm.Message) (open []string) {
	if c.seen == nil {
		c.seen = make(map[string]bool)
	}
	for _, p := range m.Parts {
		switch p := p.(type) {
		case llm.Reasoning:
		case llm.ToolCall:
			if p.ID == "" || c.seen[p.ID] {
				c.fail("the call id %q is empty or stands twice", p.ID)
			}
			c.seen[p.ID] = true
			if !nameRE.MatchString(p.Name) {
				c.fail("the call %q has the malformed name %q", p.ID, p.Name)
			}
			var object map[string]json.RawMessage
			if json.Unmarshal([]byte(p.Arguments), &object) != nil || object == nil {
				c.fail("the arguments of call %q are no JSON object", p.ID)
			}
			open = append(open, p.ID)
		default:
			c.fail("an assistant message holds a %T", p)
		}
	}
	if m.Text == "" && len(open) == 0 {
		c.fail("it is empty")
	}
	return open
}

func (c *checker) tool(m llm.Message, open []string) []string {
	if m.Text != "" || len(m.Parts) != 1 {
		c.fail("a tool message holds one result and nothing else")
		return open
	}
	r, ok := m.Parts[0].(llm.ToolResult)
	switch {
	case !ok:
		c.fail("a tool message holds a %T", m.Parts[0])
	case len(open) == 0 || open[0] != r.CallID:
		c.fail("the result of call %q is not the one that is due: %q", r.CallID, open)
	default:
		return open[1:]
	}
	return open
}
