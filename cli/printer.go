package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
)

// printer shows events to people as they come: who speaks, the words, tool
// calls, transfers. It is for one goroutine.
type printer struct {
	w    io.Writer
	look look
	spin *spinner
	// tree tells transfers by an agent's bare name from tools; nil knows none.
	tree *agent.Tree
	// transcript shows what the user said too.
	transcript bool
	// deciding leaves calls that wait to the conversation.
	deciding bool

	open     string          // the block whose deltas are being printed, "" if none
	blank    string          // white space at its beginning that is not printed yet
	words    visible.Stream  // of the open block
	streamed map[string]bool // blocks of which deltas were printed
	calls    []pendingCall
	midline  bool
}

type pendingCall struct {
	id     string
	call   *event.ToolCall
	scope  string
	paused bool
}

func newPrinter(w io.Writer, l look, tree *agent.Tree) *printer {
	return &printer{w: w, look: l, spin: newSpinner(w, l), tree: tree, streamed: make(map[string]bool)}
}

// event shows one event. Events of inner scopes are indented, and their words
// left out: they come back as the result of the call that opened the scope.
func (p *printer) event(e *event.Event) {
	switch d := e.Data.(type) {
	case *event.User:
		if p.transcript {
			p.line("%s: %s", p.look.paint(bold, "user"), visible.Text(d.Content.PlainText()))
		}
	case *event.HarnessStart:
		p.wait(e.Agent)
	case *event.Text:
		if e.Scope == "" {
			p.text(e, d.Content)
		}
	case *event.ToolCall:
		if !p.isTransfer(d.Name) {
			p.calls = append(p.calls, pendingCall{id: e.ID, call: d, scope: e.Scope})
			p.wait(e.Agent + ": " + d.Name)
		}
	case *event.ToolProgress:
		p.wait(e.Agent + ": " + d.Name + " " + event.OutputText(d.Content))
	case *event.ToolResult:
		p.result(e, d)
	case *event.Relay:
		p.relay(e, d)
	case *event.Transfer:
		p.transfer(e, d)
	case *event.Notice:
		p.line("%s", p.look.paint(faint, "("+oneLine(d.Message)+")"))
	case *event.Unknown:
		if told := unreadable(e, d); told != "" {
			p.line("%s", p.look.paint(red, "("+told+")"))
		}
	case *event.Compaction:
		p.line("%s", p.look.paint(faint, "("+compacted(e, d)+")"))
	case *event.Discard:
		p.discard(d)
	case *event.Failure:
		switch {
		case event.ParentRun(e.Scope) != "":
			p.node(e, p.look.paint(red, "failed: "+cut(oneLine(d.Message), maxResult)))
		case p.transcript:
			p.line("%s", p.look.paint(red, "("+oneLine(e.Agent)+" failed: "+oneLine(d.Message)+")"))
		}
	case *event.HarnessEnd:
		p.end(e, d)
	case *event.Reasoning, *event.RelayResolved, *event.State, *event.Usage, *event.RemoteTask: // not shown
	}
}

// wait shows that something is under way, unless words are being printed.
func (p *printer) wait(label string) {
	if !p.midline {
		p.spin.show(label)
	}
}

// finish ends what is open when no more events come.
func (p *printer) finish() {
	p.closeLine()
	for _, c := range p.calls {
		if !c.paused {
			p.line("%s%s → %s", indent(c.scope), callLine(c.call), p.look.paint(faint, "no result"))
		}
	}
	p.calls = nil
}

// line prints whole lines, after the end of a line that is under way.
func (p *printer) line(format string, args ...any) {
	p.closeLine()
	fmt.Fprintf(p.w, format+"\n", args...)
}

func (p *printer) closeLine() {
	p.spin.hide()
	rest := p.words.End()
	if p.midline {
		fmt.Fprintln(p.w, rest)
	}
	p.midline, p.open, p.blank = false, "", ""
}

// text prints a delta, or a block of which no deltas came.
func (p *printer) text(e *event.Event, words string) {
	switch {
	case !e.Partial && p.streamed[e.ID]:
		delete(p.streamed, e.ID)
		p.closeLine()
		return
	case !e.Partial:
		words = strings.TrimRight(words, " \n")
		fallthrough
	case p.open != e.ID:
		p.closeLine()
		p.open = e.ID
	}
	words = p.blank + p.words.Next(words)
	if p.blank = ""; !p.streamed[e.ID] && strings.TrimSpace(words) == "" {
		p.blank = words // a model may begin with line breaks, or say nothing else
		return
	}
	p.spin.hide()
	if !p.streamed[e.ID] {
		fmt.Fprintf(p.w, "%s: ", p.look.paint(cyan, oneLine(e.Agent)))
		words = strings.TrimLeft(words, " \n")
	}
	p.streamed[e.ID] = true
	if fmt.Fprint(p.w, words); words != "" {
		p.midline = !strings.HasSuffix(words, "\n")
	}
	if !e.Partial {
		delete(p.streamed, e.ID)
		p.closeLine()
	}
}

// compacted says that an agent's view was cut; people keep seeing all of it.
func compacted(e *event.Event, d *event.Compaction) string {
	if d.Summary == "" {
		return e.Agent + " no longer sees the oldest part of the conversation"
	}
	return e.Agent + " now sees a summary of the oldest part of the conversation"
}

func (p *printer) discard(d *event.Discard) {
	shown := false
	for _, id := range d.IDs {
		shown = shown || p.streamed[id]
		delete(p.streamed, id)
	}
	if shown {
		p.line("%s", p.look.paint(faint, "(answer discarded, asking again)"))
	}
}

func (p *printer) result(e *event.Event, d *event.ToolResult) {
	i := slices.IndexFunc(p.calls, func(c pendingCall) bool { return c.id == e.ID })
	if i < 0 { // a transfer's, or of a call that another process showed
		if !p.isTransfer(d.Name) {
			told, _ := resultLines(d)
			p.line("%s%s → %s", indent(e.Scope), p.look.paint(faint, oneLine(d.Name)), told)
		}
		return
	}
	c := p.calls[i]
	p.calls = slices.Delete(p.calls, i, i+1)
	told, rows := resultLines(d)
	if d.IsError {
		told = p.look.paint(red, told)
	}
	p.line("%s%s → %s", indent(c.scope), p.look.paint(faint, callLine(c.call)), told)
	for _, row := range rows {
		p.line("%s  %s", indent(c.scope), row)
	}
	p.wait(e.Agent)
}

func (p *printer) transfer(e *event.Event, d *event.Transfer) {
	told := oneLine(d.From) + " → " + oneLine(d.To)
	reason := cut(oneLine(d.Reason), maxResult)
	switch d.Outcome {
	case event.TransferCommitted:
		told = p.look.paint(green, told)
		if reason != "" {
			told += " (" + reason + ")"
		}
	case event.TransferConflict:
		return // the one that won is shown
	default:
		told = p.look.paint(red, told+" "+string(d.Outcome))
	}
	p.line("%s%s", strings.TrimPrefix(indent(e.Scope), "  "), told)
}

// end shows why a run ended, if the words do not tell it.
func (p *printer) end(e *event.Event, d *event.HarnessEnd) {
	if e.Scope != "" {
		if d.Output != nil && event.ParentRun(e.Scope) != "" { // an agent tool's words are the result of its call
			told, _ := resultLines(&event.ToolResult{Output: d.Output})
			p.node(e, told)
		}
		return
	}
	p.spin.hide() // who follows a session may see nothing more for long
	told := ""
	switch d.FinishReason {
	case event.FinishReasonLength:
		told = "the model's answer was cut off at its length limit"
	case event.FinishReasonContentFilter:
		told = "the endpoint's content filter stopped the answer"
	case event.FinishReasonCanceled:
		if p.transcript { // elsewhere it closes a turn that was told of already
			told = "interrupted"
		}
	case event.FinishReasonLimit:
		told = "stopped at a limit of the turn"
	}
	if told != "" {
		p.line("%s", p.look.paint(faint, "("+told+")"))
	}
}

// node shows what became of a node of a graph, in a line as those of tools.
func (p *printer) node(e *event.Event, told string) {
	p.line("%s%s → %s", indent(""), p.look.paint(faint, oneLine(e.Agent)), told)
}

// isTransfer reports whether a call of this name is a transfer, which is shown
// by its record and not as a call.
func (p *printer) isTransfer(name string) bool {
	return name == agent.TransferTool || p.tree != nil && p.tree.Node(name) != nil
}

func indent(scope string) string {
	if scope == "" {
		return "  "
	}
	return "    "
}
