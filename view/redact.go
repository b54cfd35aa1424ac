package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
)

// Redact returns the policy with f applied to every text of the log that the
// agent's model would see: the user's words, the agent's own and others', the
// outputs of tools, string values in their arguments and in what a transfer
// carries, its reason, and summaries of what was left out. The log keeps the
// original, and tools get it. Names, ids, keys and numbers of JSON, and media
// are shown as they are.
//
// f must be a pure function, safe for concurrent use: it sees each text once, as
// a whole, before anything is cut. Of several redactions the first comes first.
// Redact(nil) changes nothing.
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

// Redacted replaces a user's text of which a redaction leaves nothing, because
// endpoints reject empty messages.
const Redacted = "[redacted]"

// NoInput replaces the input of an agent that was started without words, such as a node
// of a graph after one that said nothing, because endpoints reject empty messages.
const NoInput = "[no input]"

func (p Policy) redactText(s string) string {
	if p.redact == nil || s == "" {
		return s
	}
	return p.redact(s)
}

// redactUser redacts words that a message cannot do without.
func (p Policy) redactUser(s string) string {
	if p.redact == nil || s == "" {
		return s
	}
	return cmp.Or(p.redact(s), Redacted)
}

func (p Policy) redactContent(c llm.Content) llm.Content {
	if p.redact == nil {
		return c
	}
	c.Text = p.redactUser(c.Text)
	c.Parts = slices.Clone(c.Parts) // those of the log stay as they are
	for i, part := range c.Parts {
		if t, ok := part.(llm.TextPart); ok {
			c.Parts[i] = llm.TextPart{Text: p.redactUser(t.Text)}
		}
	}
	return c
}

// redactParts redacts what a model has answered, or the result of a call.
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
		case llm.Reasoning: // nobody can look into what is sealed
			c.Parts[i] = llm.Reasoning{Text: p.redactText(part.Text)}
		}
	}
	return c
}

// redactJSON redacts the string values of a JSON value and leaves all else as it
// is, byte for byte. What is no JSON becomes an object that holds it as text.
func (p Policy) redactJSON(raw json.RawMessage) json.RawMessage {
	if p.redact == nil || len(raw) == 0 {
		return raw
	}
	if !json.Valid(raw) {
		return event.EncodeJSON(map[string]string{"raw": p.redact(string(raw))})
	}
	var out []byte
	done := 0 // so much of raw is in out
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
