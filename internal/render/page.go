package render

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
	"iter"
	"strings"
	"sync"

	graph "github.com/agentarbor/arbor/conversation" // graph is also a type of this package
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
)

//go:embed page.html
var pageSource string

// pageTemplate escapes values according to their context in the page.
var pageTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageSource)) })

// htmlPage is a session as page.html needs it.
type htmlPage struct {
	Title   string
	Facts   string
	Entries []htmlEntry
}

// htmlEntry is a text of an agent or the user, or a line between texts.
type htmlEntry struct {
	Line string // an event other than a text

	Who, Text, Reasoning string
	Hue                  int // the colour of the speaker; 0 is the user's
	Media                []string
	Calls                []htmlCall
	Branches             [][]htmlEntry
	Note                 string // why the text is incomplete
}

type htmlCall struct {
	Name, Line, Status string
	Input, Output      string
	Progress           []string
	Failed, Waits      bool
	Branches           [][]htmlEntry
}

// Page writes a session as a self-contained page: the nodes of a thread, with lines for events that the thread does not
// show. If events ends with an error, Page writes nothing.
func Page(w io.Writer, title, facts string, thread []graph.ViewNode, events iter.Seq2[*event.Event, error]) error {
	page := pager{hues: map[string]int{"user": 0}, calls: make(map[string]bool), lines: make(map[string][]string)}
	isNode := make(map[string]bool)
	eachNode(thread, func(v *graph.ViewNode) { isNode[v.ID] = true })
	last := make(map[string]string) // by scope, the last shown node
	for e, err := range events {
		if err != nil {
			return err
		}
		for _, id := range []string{e.ID, e.RunID + ":" + e.Type()} {
			if isNode[id] {
				last[e.Scope] = id
			}
		}
		node, ok := last[e.Scope]
		if !ok {
			node = last[""]
		}
		page.collect(e, node)
	}
	out := htmlPage{Title: title, Facts: facts, Entries: append(page.linesAfter(""), page.entries(thread)...)}
	var b bytes.Buffer // so that no incomplete page is written
	if err := pageTemplate().Execute(&b, out); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// eachNode visits the nodes of a thread and their inner nodes.
func eachNode(thread []graph.ViewNode, visit func(*graph.ViewNode)) {
	for i := range thread {
		v := &thread[i]
		visit(v)
		for _, b := range v.Branches {
			eachNode(b, visit)
		}
		for _, c := range v.ToolCalls {
			for _, b := range c.Branches {
				eachNode(b, visit)
			}
		}
	}
}

// pager creates the page of a thread. Events that are not nodes of the graph become lines at their place.
type pager struct {
	hues  map[string]int
	calls map[string]bool     // the calls of transfers, which are shown as lines
	lines map[string][]string // by the node before them
}

// collect stores the line of an event after a node, if the thread does not show the event.
func (p *pager) collect(e *event.Event, node string) {
	line := ""
	switch d := e.Data.(type) {
	case *event.Transfer:
		line = transferred(d)
		if d.Reason != "" {
			line += " (" + d.Reason + ")"
		}
		p.calls[d.ToolCallID] = true
	case *event.Notice, *event.Compaction:
		line, _ = new(eventLines).describe(e)
	default:
		return
	}
	p.lines[node] = append(p.lines[node], visible.Line(line))
}

func (p *pager) entries(thread []graph.ViewNode) []htmlEntry {
	var out []htmlEntry
	for _, v := range thread {
		entry := p.entry(v)
		if entry.Text != "" || entry.Reasoning != "" || entry.Note != "" || len(entry.Media)+len(entry.Calls)+len(entry.Branches) > 0 {
			out = append(out, entry)
		}
		out = append(out, p.linesAfter(v.ID)...)
	}
	return out
}

// linesAfter returns the lines after a node.
func (p *pager) linesAfter(id string) []htmlEntry {
	var out []htmlEntry
	for _, line := range p.lines[id] {
		out = append(out, htmlEntry{Line: line})
	}
	return out
}

func (p *pager) entry(v graph.ViewNode) htmlEntry {
	e := htmlEntry{Who: visible.Line(v.Agent), Text: visible.Text(v.Text), Reasoning: visible.Text(v.Reasoning)}
	if v.Role == graph.RoleUser {
		e.Who = "user"
	}
	if e.Who == "" {
		e.Who = v.Role
	}
	e.Hue = p.hue(e.Who)
	var content llm.Content
	if v.Content != nil && json.Unmarshal(v.Content, &content) == nil {
		for _, part := range content.Parts {
			if m, ok := part.(llm.Media); ok {
				e.Media = append(e.Media, visible.Line(chatform.Media(m)))
			}
		}
	}
	for _, c := range v.ToolCalls {
		if !p.calls[c.ID] {
			e.Calls = append(e.Calls, p.call(c))
		}
	}
	for _, b := range v.Branches {
		e.Branches = append(e.Branches, p.entries(b))
	}
	switch v.Status {
	case graph.StatusError:
		e.Note = visible.Line("failed: " + v.Error)
	case graph.StatusStreaming:
		e.Note = "not finished"
	}
	return e
}

// hue returns the number of a speaker's colour: one of eight, or the user's.
func (p *pager) hue(who string) int {
	h, ok := p.hues[who]
	if !ok {
		h = (len(p.hues)-1)%8 + 1
		p.hues[who] = h
	}
	return h
}

func (p *pager) call(c graph.ViewCall) htmlCall {
	out := htmlCall{Name: visible.Line(c.Name), Line: callLine(&event.ToolCall{Name: c.Name, Input: c.Input}),
		Input: strings.Join(visible.Arguments(c.Input), "\n"), Waits: c.Approval == "pending", Failed: c.Status == graph.StatusError}
	switch {
	case c.Approval == "pending":
		out.Status = "waits for approval"
	case c.Output == nil && c.Status == graph.StatusStreaming:
		out.Status = "not finished"
	case c.Output == nil:
		out.Status = "no result"
	case c.IsError:
		out.Status = "failed"
	case c.Approval != "":
		out.Status = c.Approval
	}
	if c.Output != nil {
		out.Output = visible.Text(indented(c.Output))
	}
	for _, progress := range c.Progress {
		out.Progress = append(out.Progress, visible.Line(event.OutputText(progress)))
	}
	for _, b := range c.Branches {
		out.Branches = append(out.Branches, p.entries(b))
	}
	return out
}

// indented returns JSON for people: a text unchanged, any other value indented.
func indented(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	var b bytes.Buffer
	if json.Indent(&b, data, "", "  ") != nil {
		return string(data)
	}
	return b.String()
}
