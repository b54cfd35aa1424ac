package render

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/session"
)

// Printer prints events as they arrive: the speaker, texts, tool calls and transfers. It is not safe for concurrent
// use.
type Printer struct {
	w        io.Writer
	terminal Terminal
	spin     *Spinner
	// tree distinguishes transfers from tools; it may be nil.
	tree *agent.Tree
	// transcript also prints the user's messages.
	transcript bool
	// hideQuestions omits waiting calls, because the caller asks about them.
	hideQuestions bool

	log        session.Reader
	open       string         // the block whose deltas are being printed, or ""
	stream     visible.Stream // of the open block
	calls      []pendingCall
	eventLines eventLines
	midline    bool
}

type pendingCall struct {
	id    string
	call  *event.ToolCall
	scope string
	asked bool // its question is printed in place of a result
	waits bool // the last run of its scope has ended to wait, for example for an agent that the call runs
}

// Conversation returns a printer for the turns in a tree, which may be nil. It does not print waiting calls, because
// the caller asks about them.
func Conversation(w io.Writer, l Terminal, tree *agent.Tree) *Printer {
	p := newPrinter(w, l, tree)
	p.hideQuestions = true
	return p
}

// Transcript returns a printer for a stored session. It also prints the user's messages.
func Transcript(w io.Writer, l Terminal) *Printer {
	p := newPrinter(w, l, nil)
	p.transcript = true
	return p
}

func newPrinter(w io.Writer, l Terminal, tree *agent.Tree) *Printer {
	return &Printer{w: w, terminal: l, spin: NewSpinner(w, l), tree: tree}
}

// Event prints one event. It indents events of inner scopes and omits their texts, because the result of the call that
// opened the scope contains them.
func (p *Printer) Event(e *event.Event) {
	rec := p.log.Next(e)
	switch d := e.Data.(type) {
	case *event.User:
		if p.transcript {
			p.line("%s: %s", p.terminal.Paint(Bold, "user"), visible.Text(d.Content.PlainText()))
		}
	case *event.HarnessStart:
		p.Wait(e.Agent)
	case *event.Text:
		if e.Scope == "" && rec.Block != nil {
			p.text(rec)
		}
	case *event.ToolCall:
		if !p.isTransfer(d.Name) {
			p.calls = append(p.calls, pendingCall{id: e.ID, call: d, scope: e.Scope})
			p.Wait(e.Agent + ": " + d.Name)
		}
	case *event.ToolProgress:
		p.Wait(e.Agent + ": " + d.Name + " " + event.OutputText(d.Content))
	case *event.ToolResult:
		p.result(e, d)
	case *event.Relay:
		p.relay(e, d)
	case *event.Transfer:
		p.transfer(e, d)
	case *event.Discard:
		if slices.ContainsFunc(rec.Void, func(b *session.Block) bool { return shows(b, b.Shown) }) {
			p.line("%s", p.terminal.Paint(faint, "(answer discarded)"))
		}
	case *event.Failure:
		switch {
		case event.ParentRun(e.Scope) != "":
			p.node(e, p.terminal.Paint(Red, "failed: "+visible.Cut(visible.Line(d.Message), maxResult)))
		case p.transcript:
			p.eventLine(e)
		}
	case *event.HarnessEnd:
		p.end(e, d)
	default:
		p.eventLine(e)
	}
}

func (p *Printer) eventLine(e *event.Event) {
	colour := faint
	line, bad := p.eventLines.describe(e)
	if bad {
		colour = Red
	}
	if line != "" {
		p.line("%s", p.terminal.Paint(colour, "("+visible.Line(line)+")"))
	}
}

// Wait shows a spinner, unless a text is being printed.
func (p *Printer) Wait(label string) {
	if !p.midline {
		p.spin.Show(label)
	}
}

// Hide removes the spinner of Wait.
func (p *Printer) Hide() { p.spin.Hide() }

// Finish ends open lines after the last event.
func (p *Printer) Finish() {
	p.closeLine()
	for _, c := range p.calls {
		text := "no result"
		if c.waits {
			text = "waits"
		}
		if !c.asked {
			p.line("%s%s → %s", indent(c.scope), callLine(c.call), p.terminal.Paint(faint, text))
		}
	}
	p.calls = nil
}

// line prints whole lines, after ending an incomplete line.
func (p *Printer) line(format string, args ...any) {
	p.closeLine()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// Break ends an incomplete line, so that something else can be printed; the text continues in the next line.
func (p *Printer) Break() { p.closeLine() }

func (p *Printer) closeLine() {
	p.spin.Hide()
	rest := p.stream.End()
	if p.midline {
		fmt.Fprintln(p.w, rest)
	}
	p.midline, p.open = false, ""
}

// text prints the new part of a block. It first prints the name of the speaker, once the text is more than white space.
func (p *Printer) text(rec session.Record) {
	b, text, before := rec.Block, rec.NewText, rec.Block.Shown
	if p.open != b.ID {
		p.closeLine()
		p.open = b.ID
	}
	if rec.Partial {
		before = before[:len(before)-len(text)]
	}
	if rec.Fresh || !shows(b, before) {
		if text = string(b.Shown); !rec.Partial {
			text = strings.TrimRight(rec.WholeText, " \n")
		}
		if strings.TrimSpace(text) == "" { // a model may begin with line breaks, or write nothing else
			return
		}
		text = strings.TrimLeft(text, " \n")
		p.spin.Hide()
		fmt.Fprintf(p.w, "%s: ", p.terminal.Paint(cyan, visible.Line(b.Agent)))
	}
	text = p.stream.Next(text)
	if fmt.Fprint(p.w, text); text != "" {
		p.midline = !strings.HasSuffix(text, "\n")
	}
	if !rec.Partial {
		p.closeLine()
	}
}

// shows reports whether these deltas of a block were printed: they belong to the conversation, and are not only white
// space.
func shows(b *session.Block, deltas []byte) bool {
	return b.Scope == "" && b.Type() == event.TypeText && len(bytes.TrimSpace(deltas)) > 0
}

// compacted describes the compaction of an agent's view. People still see everything.
func compacted(e *event.Event, d *event.Compaction) string {
	if d.Summary == "" {
		return e.Agent + " no longer sees the oldest part of the conversation"
	}
	return e.Agent + " now sees a summary of the oldest part of the conversation"
}

func (p *Printer) result(e *event.Event, d *event.ToolResult) {
	i := slices.IndexFunc(p.calls, func(c pendingCall) bool { return c.id == e.ID })
	if i < 0 { // of a transfer, or of a call that another process printed
		if !p.isTransfer(d.Name) {
			text, _ := resultLines(d)
			p.line("%s%s → %s", indent(e.Scope), p.terminal.Paint(faint, visible.Line(d.Name)), text)
		}
		return
	}
	c := p.calls[i]
	p.calls = slices.Delete(p.calls, i, i+1)
	text, rows := resultLines(d)
	if d.IsError {
		text = p.terminal.Paint(Red, text)
	}
	p.line("%s%s → %s", indent(c.scope), p.terminal.Paint(faint, callLine(c.call)), text)
	for _, row := range rows {
		p.line("%s  %s", indent(c.scope), row)
	}
	p.Wait(e.Agent)
}

func (p *Printer) transfer(e *event.Event, d *event.Transfer) {
	text := transferred(d)
	switch d.Outcome {
	case event.TransferCommitted:
		text = p.terminal.Paint(Green, text)
		if reason := visible.Cut(visible.Line(d.Reason), maxResult); reason != "" {
			text += " (" + reason + ")"
		}
	case event.TransferConflict:
		return // the answer that won is printed
	default:
		text = p.terminal.Paint(Red, text)
	}
	p.line("%s%s", strings.TrimPrefix(indent(e.Scope), "  "), text)
}

// end prints why a run ended, if its texts do not show it.
func (p *Printer) end(e *event.Event, d *event.HarnessEnd) {
	for i, c := range p.calls {
		if c.scope == e.Scope {
			p.calls[i].waits = d.FinishReason == event.FinishReasonInputRequired
		}
	}
	if e.Scope != "" {
		if d.Output != nil && event.ParentRun(e.Scope) != "" { // the result of the call contains the output of an agent tool
			text, _ := resultLines(&event.ToolResult{Output: d.Output})
			p.node(e, text)
		}
		return
	}
	p.spin.Hide() // clients that follow a session may receive no other event for long
	text := ""
	switch d.FinishReason {
	case event.FinishReasonLength:
		text = "the model's answer was cut off at its length limit"
	case event.FinishReasonContentFilter:
		text = "the endpoint's content filter stopped the answer"
	case event.FinishReasonCanceled:
		if p.transcript { // otherwise it closes a turn that was already reported
			text = "interrupted"
		}
	case event.FinishReasonLimit:
		text = "stopped at a limit of the turn"
	}
	if text != "" {
		p.line("%s", p.terminal.Paint(faint, "("+text+")"))
	}
}

// node prints the result of a graph's node, in a line like that of a tool.
func (p *Printer) node(e *event.Event, text string) {
	p.line("%s%s → %s", indent(""), p.terminal.Paint(faint, visible.Line(e.Agent)), text)
}

// isTransfer reports whether a call with this name is a transfer. A transfer is printed from its own event, not as a
// call.
func (p *Printer) isTransfer(name string) bool {
	return name == agent.TransferTool || p.tree != nil && p.tree.Node(name) != nil
}

func indent(scope string) string {
	if scope == "" {
		return "  "
	}
	return "    "
}
