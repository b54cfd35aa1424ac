package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Redact returns the policy with f applied to every text of the log that the agent's model would read: messages of the
// user and of agents, outputs of tools, the string values in arguments of calls and payloads of transfers, reasons of
// transfers, and summaries. The log keeps the original texts, and tools get them. Names, ids, JSON keys and numbers,
// and media are not redacted.
//
// f must be a pure function and safe for concurrent use. It gets each text as a whole, before the text is cut. Several
// redactions run in the order of the calls of Redact. Redact(nil) changes nothing.
func (p Policy) Redact(f func(text string) string) Policy {
	switch first := p.redact; {
	case f == nil:
	case first == nil:
		p.redact = f
	default:
		p.redact = func(s string) string { return f(first(s)) }
	}
	return p
}

// redacted replaces a user's text that is empty after redaction, because endpoints reject empty messages.
const redacted = "[redacted]"

// NoInput replaces an input without text, because endpoints reject empty messages. An example is the input of a graph's
// node after a node without output.
const NoInput = "[no input]"

func (p Policy) redactText(s string) string {
	if p.redact == nil || s == "" {
		return s
	}
	return p.redact(s)
}

// redactUser redacts a text that must not become empty.
func (p Policy) redactUser(s string) string {
	if p.redact == nil || s == "" {
		return s
	}
	return cmp.Or(p.redact(s), redacted)
}

// redactContent redacts the texts of a user's message.
func (p Policy) redactContent(c llm.Content) llm.Content {
	if p.redact == nil {
		return c
	}
	c.Text = p.redactUser(c.Text)
	c.Parts = slices.Clone(c.Parts) // the event shares the parts
	for i, part := range c.Parts {
		if t, ok := part.(llm.TextPart); ok {
			c.Parts[i] = llm.TextPart{Text: p.redactUser(t.Text)}
		}
	}
	return c
}

// redactParts redacts a model's answer, or the results of calls.
func (p Policy) redactParts(c llm.Content) llm.Content {
	if p.redact == nil {
		return c
	}
	c.Text, c.Parts = p.redactText(c.Text), slices.Clone(c.Parts)
	for i, part := range c.Parts {
		switch part := part.(type) {
		case llm.ToolCall:
			part.Arguments = string(p.redactJSON(json.RawMessage(part.Arguments)))
			c.Parts[i] = part
		case llm.ToolResult:
			part.Output = p.redactText(part.Output)
			c.Parts[i] = part
		case llm.Reasoning: // sealed reasoning cannot be redacted, so it is dropped
			c.Parts[i] = llm.Reasoning{Text: p.redactText(part.Text)}
		}
	}
	return c
}

// redactJSON redacts the string values of a JSON value and keeps all other bytes. If raw is not valid JSON, it returns
// an object with the redacted text under the key raw.
func (p Policy) redactJSON(raw json.RawMessage) json.RawMessage {
	if p.redact == nil || len(raw) == 0 {
		return raw
	}
	if !json.Valid(raw) {
		return event.EncodeJSON(map[string]string{"raw": p.redact(string(raw))})
	}
	var out []byte
	done := 0 // the number of bytes of raw that out covers
	for at := 0; at < len(raw); at++ {
		if raw[at] != '"' {
			continue
		}
		end := endOfString(raw, at)
		literal := raw[at:end]
		if !isKey(raw[end:]) {
			var s string
			if err := json.Unmarshal(literal, &s); err == nil && s != "" {
				if r := p.redact(s); r != s {
					out = append(append(out, raw[done:at]...), event.EncodeJSON(r)...)
					done = end
				}
			}
		}
		at = end - 1
	}
	if done == 0 {
		return raw
	}
	return append(out, raw[done:]...)
}

// endOfString returns the index after the string of valid JSON that begins at i.
func endOfString(raw []byte, i int) int {
	for i++; raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// isKey reports whether the string before rest is an object's key.
func isKey(rest []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(":"))
}
