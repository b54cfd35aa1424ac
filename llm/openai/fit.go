package openai

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/llm"
)

const (
	noOutput   = "(no output)"                      // sent for an empty result, which many endpoints refuse
	noText     = "(empty)"                          // sent for an empty text, if the endpoint refuses it
	beginning  = "(The conversation begins.)"       // sent as the user's text before an assistant's message that starts the conversation
	bridgeText = "I have read the results."         // sent as the assistant's text between a result and a user's message
	signature  = "skip_thought_signature_validator" // Google's, for calls that its model has not made
)

// maxDescription is the number of characters of a tool's description for endpoints that accept 1,024.
const maxDescription = 1000

// messageQuirks are the quirks that change messages.
const messageQuirks = quirkAlternate | quirkBridge | quirkNoSystem | quirkNoEmpty

// fit returns the request with the changes that do not depend on the protocol. They keep the meaning of the
// conversation.
func (q quirks) fit(req *llm.Request) *llm.Request {
	if q.has(quirkSingleCalls) {
		r := *req
		r.Messages, req = oneCallEach(req.Messages), &r
	}
	if q.has(quirkWordsApart) {
		r := *req
		r.Messages, req = textApart(req.Messages), &r
	}
	if q.has(quirkPlainKeys) {
		r := *req
		r.Tools, r.Messages = withPlainKeys(req.Tools, req.Messages)
		req = &r
	}
	late := slices.IndexFunc(req.Messages, func(m llm.Message) bool { return m.Role == llm.RoleSystem })
	if q == 0 && late < 0 {
		return req
	}
	r := *req
	if late >= 0 {
		r.Messages = slices.Clone(r.Messages)
		if !q.has(quirkLateSystem) {
			r.Messages[late].Role = llm.RoleUser
		}
	}
	if s := r.ResponseFormat; s != nil && q.has(quirkSchemaInPrompt) {
		at := &r.System
		if late >= 0 { // the messages before it are the same for other agents
			at = &r.Messages[late].Text
		}
		*at = strings.TrimPrefix(*at+"\n\nAnswer with JSON that follows this schema, and with nothing else: "+string(s.Schema), "\n\n")
		r.ResponseFormat = nil
	}
	if next := late + 1; late >= 0 && next < len(r.Messages) && !q.has(quirkLateSystem) {
		own := r.Messages[late].Text + "\n\n[The user's message]"
		r.Messages = slices.Delete(r.Messages, late, next)
		if m := &r.Messages[late]; m.Text != "" {
			m.Text = own + "\n" + m.Text
		} else {
			m.Content = together(llm.Content{Text: own}, m.Content)
		}
	}
	q.fitSettings(&r)
	q.fitMessages(&r, late)
	return &r
}

// fitSettings removes and changes the settings and tools that the endpoint does not take.
func (q quirks) fitSettings(r *llm.Request) {
	if !q.has(quirkAllowedTools) || q.has(quirkNoToolChoice) {
		r.Allowed = nil
	}
	if q.has(quirkNoToolChoice) {
		if r.ToolChoice == llm.ToolChoiceNone {
			r.Tools = nil
		} else if !r.ToolChoice.Mode() {
			r.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(t llm.ToolSpec) bool { return t.Name != string(r.ToolChoice) })
		}
		r.ToolChoice = ""
	}
	if q.has(quirkNoParallel) {
		r.ParallelToolCalls = nil
	}
	if q.has(quirkNoLogProbs) {
		r.TopLogProbs = 0
	}
	if q.has(quirkNoSampling) {
		r.Temperature, r.TopP = nil, nil
	}
	if q.has(quirkNoSeed) {
		r.Seed = nil
	}
	if q.has(quirkNoStop) {
		r.Stop = nil
	}
	r.Stream, r.MaxTokens = q.streams(r), q.limit(r)
	if q.has(quirkTools) && len(r.Tools) == 0 && slices.ContainsFunc(r.Messages, calls) {
		r.Tools = []llm.ToolSpec{{Name: "none", Description: "This is no tool. Never call it."}}
	}
	q.fitTools(r)
	if q.has(quirkEffortNone) && len(r.Tools) > 0 {
		r.Thinking, r.ReasoningEffort = nil, "none"
	}
	if q.has(quirkNoThinking) {
		r.Thinking, r.ReasoningEffort = nil, ""
	}
}

// fitMessages changes the messages as messageQuirks say. late is the index of the system message among them, or
// negative.
func (q quirks) fitMessages(r *llm.Request, late int) {
	if !q.has(messageQuirks) {
		return
	}
	messages := r.Messages
	r.Messages = nil
	if q.has(quirkNoSystem) && r.System != "" {
		r.Messages, r.System = q.add(r.Messages, llm.UserText(r.System)), ""
	}
	for i, m := range messages {
		if n := len(r.Messages); i == late && n > 0 && q.has(quirkBridge) && r.Messages[n-1].Role == llm.RoleTool {
			r.Messages[n-1].Content = withText(r.Messages[n-1].Content, m.Text) // only this request would have a bridge here
			continue
		}
		r.Messages = q.add(r.Messages, m)
	}
}

// fitTools changes the schemas and descriptions of a request's tools.
func (q quirks) fitTools(r *llm.Request) {
	if !q.has(quirkBareSchemas | quirkShortDescriptions | quirkNoEmpty) {
		return
	}
	r.Tools = slices.Clone(r.Tools)
	for i := range r.Tools {
		t := &r.Tools[i]
		if q.has(quirkBareSchemas) {
			t.Parameters = bareSchema(t.Parameters)
		}
		if q.has(quirkNoEmpty) {
			t.Description = cmp.Or(t.Description, t.Name)
		}
		if text := []rune(t.Description); q.has(quirkShortDescriptions) && len(text) > maxDescription {
			t.Description = string(text[:maxDescription]) + "…"
			r.System = strings.TrimPrefix(r.System+"\n\nMore about the tool "+t.Name+": …"+string(text[maxDescription:]), "\n\n")
		}
	}
}

// withText returns the content of a tool message with a text after the output.
func withText(c llm.Content, text string) llm.Content {
	c.Parts = slices.Clone(c.Parts)
	if n := len(c.Parts) - 1; n >= 0 {
		if res, ok := c.Parts[n].(llm.ToolResult); ok {
			res.Output = cmp.Or(res.Output, noOutput) + "\n\n" + text
			c.Parts[n] = res
		}
	}
	return c
}

func calls(m llm.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p llm.Part) bool { _, is := p.(llm.ToolCall); return is })
}

// oneCallEach returns the conversation with one assistant message per call, each followed by its result.
func oneCallEach(messages []llm.Message) (list []llm.Message) {
	places := map[string]int{} // the indices of the results in the list
	for _, m := range messages {
		said := len(list)
		list = append(list, m)
		list[said].Parts = nil
		for _, p := range m.Parts {
			switch part := p.(type) {
			case llm.ToolCall:
				if calls(list[said]) {
					said = len(list)
					list = append(list, llm.Message{Role: m.Role})
				}
				list = append(list, llm.Message{Role: llm.RoleTool})
				places[part.ID] = len(list) - 1
			case llm.ToolResult:
				said = places[part.CallID]
			}
			list[said].Parts = append(list[said].Parts, p)
		}
	}
	return slices.DeleteFunc(list, func(m llm.Message) bool { return m.Role == llm.RoleTool && len(m.Parts) == 0 })
}

// textApart returns the conversation with the text of a message that has calls as a message before it.
func textApart(messages []llm.Message) (list []llm.Message) {
	for _, m := range messages {
		if text := m.PlainText(); calls(m) {
			if strings.TrimSpace(text) != "" {
				list = append(list, llm.Message{Role: m.Role, Content: llm.Content{Text: text}})
			}
			m.Text, m.Parts = "", slices.DeleteFunc(slices.Clone(m.Parts), func(p llm.Part) bool { _, is := p.(llm.TextPart); return is })
		}
		list = append(list, m)
	}
	return list
}

// add appends a message, and merges it with the last one if the quirks require it.
func (q quirks) add(list []llm.Message, m llm.Message) []llm.Message {
	if q.has(quirkNoEmpty) {
		m.Content = filled(m)
	}
	if len(list) == 0 {
		if q.has(quirkAlternate) && m.Role == llm.RoleAssistant {
			list = append(list, llm.UserText(beginning))
		}
		return append(list, m)
	}
	last := &list[len(list)-1]
	switch {
	case q.has(quirkBridge) && last.Role == llm.RoleTool && m.Role == llm.RoleUser:
		list = append(list, llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: bridgeText}})
	case q.has(quirkAlternate) && last.Role == m.Role && m.Role != llm.RoleTool && !calls(*last) && !(q.has(quirkWordsApart) && calls(m)):
		last.Content = together(last.Content, m.Content)
		return list
	}
	return append(list, m)
}

// together joins the contents of two messages.
func together(a, b llm.Content) llm.Content {
	parts := slices.Clone(a.Parts)
	isText := func(p llm.Part) bool { _, thought := p.(llm.Reasoning); return !thought }
	switch {
	case b.Text == "":
	case slices.ContainsFunc(parts, isText):
		parts = append(parts, llm.TextPart{Text: b.Text})
	case a.Text == "":
		a.Text = b.Text
	default:
		a.Text += "\n\n" + b.Text
	}
	return llm.Content{Text: a.Text, Parts: append(parts, b.Parts...)}
}

// filled returns the content of a message without texts that are empty or white space.
func filled(m llm.Message) llm.Content {
	c := llm.Content{Text: m.Text}
	if m.Role == llm.RoleAssistant {
		c.Text = strings.TrimSpace(c.Text) // white space at the end is refused, too
	} else if strings.TrimSpace(c.Text) == "" {
		c.Text = ""
	}
	for _, p := range m.Parts {
		switch part := p.(type) {
		case llm.TextPart:
			if strings.TrimSpace(part.Text) == "" {
				continue
			}
		case llm.ToolResult:
			if strings.TrimSpace(part.Output) == "" {
				part.Output = noOutput
			}
			p = part
		}
		c.Parts = append(c.Parts, p)
	}
	if c.Text == "" && len(c.Parts) == 0 {
		c.Text = noText
	}
	return c
}
