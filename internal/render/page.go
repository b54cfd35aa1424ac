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

	graph "github.com/agentarbor/arbor/conversation" // the name is a type of this package
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
)

//go:embed page.html
var pageSource string

// pageTemplate escapes whatever it is given by the place that it is put at.
var pageTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageSource)) })

// htmlPage is a session as page.html shows it.
type htmlPage struct {
	Title   string
	Facts   string
	Entries []htmlEntry
}

// htmlEntry is what an agent or the user said, or a line between.
type htmlEntry struct {
	Line string // what happened, if it is not something that was said

	Who, Text, Reasoning string
	Hue                  int // of who speaks; 0 is the user's
	Media                []string
	Calls                []htmlCall
	Branches             [][]htmlEntry
	Note                 string // why there is no more
}

type htmlCall struct {
	Name, Line, Status string
	Input, Output      string
	Progress           []string
	Failed, Waits      bool
	Branches           [][]htmlEntry
}

// Page writes a session as a page that needs nothing besides itself: what a thread holds,
// and where they happened the lines of those events that it does not show. Nothing is
// written if the events end with an error.
func Page(w io.Writer, title, facts string, thread []graph.ViewNode, events iter.Seq2[*event.Event, error]) error {
	page := pager{hues: map[string]int{"user": 0}, calls: make(map[string]bool), lines: make(map[string][]string)}
	begins := make(map[string]bool)
	eachNode(thread, func(v *graph.ViewNode) { begins[v.ID] = true })
	last := make(map[string]string) // scope → the node that is shown last
	for e, err := range events {
		if err != nil {
			return err
		}
		for _, id := range []string{e.ID, e.RunID + ":" + e.Type()} {
			if begins[id] {
				last[e.Scope] = id
			}
		}
		behind, ok := last[e.Scope]
		if !ok {
			behind = last[""]
		}
		page.collect(e, behind)
	}
	out := htmlPage{Title: title, Facts: facts, Entries: append(page.linesBehind(""), page.entries(thread)...)}
	var b bytes.Buffer // so that half a page is never written
	if err := pageTemplate().Execute(&b, out); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// eachNode visits the nodes of a thread and those inside of them.
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

// pager makes a page of a thread. What a thread does not show, because it is no
// node of the graph, becomes lines at the place where it happened.
type pager struct {
	hues  map[string]int
	calls map[string]bool     // of transfers, which become lines
	lines map[string][]string // by the node before them
}

// collect takes a line of the event, if it is one of those that a thread does not
// show, to be put behind a node.
func (p *pager) collect(e *event.Event, behind string) {
	line := ""
	switch d := e.Data.(type) {
	case *event.Transfer:
		line = transferred(d)
		if d.Reason != "" {
			line += " (" + d.Reason + ")"
		}
		p.calls[d.ToolCallID] = true
	case *event.Notice, *event.Compaction:
		line, _ = new(asides).of(e)
	default:
		return
	}
	p.lines[behind] = append(p.lines[behind], visible.Line(line))
}

func (p *pager) entries(thread []graph.ViewNode) []htmlEntry {
	var out []htmlEntry
	for _, v := range thread {
		entry := p.entry(v)
		if entry.Text != "" || entry.Reasoning != "" || entry.Note != "" || len(entry.Media)+len(entry.Calls)+len(entry.Branches) > 0 {
			out = append(out, entry)
		}
		out = append(out, p.linesBehind(v.ID)...)
	}
	return out
}

// linesBehind returns the lines that belong behind a node.
func (p *pager) linesBehind(id string) []htmlEntry {
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
				e.Media = append(e.Media, visible.Line(Media(m)))
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

// indented writes JSON for people: text as text, all else with its structure.
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
