package sessionform

import (
	"io"
	"iter"

	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/session"
)

// Formats returns the formats of [Export] with their media types.
func Formats() map[string]string {
	return map[string]string{
		"jsonl":  "application/x-ndjson",
		"md":     "text/markdown; charset=utf-8",
		"html":   "text/html; charset=utf-8",
		"openai": "application/json",
		"case":   "application/yaml",
	}
}

// Export writes events in one of the [Formats]. events returns them from the beginning, and is called once or twice;
// last is the end of the session's log. The error is that of the events; Export ignores errors of the writer.
func Export(w io.Writer, format, title string, last int64, events func() iter.Seq2[*event.Event, error]) error {
	if format == "case" {
		return eval.WriteSession(w, title, events())
	}
	var out render.Sink = render.Nothing{}
	switch format {
	case "jsonl":
		out = render.JSONLines(w)
	case "md":
		out = render.Markdown(w, title)
	}
	fold, graph := &session.Fold{}, conversation.New()
	for e, err := range events() {
		if err != nil {
			return err
		}
		out.Event(e)
		if format == "html" || format == "openai" {
			fold.Apply(e)
			graph = graph.Reduce(e)
		}
	}
	out.Finish()
	switch format {
	case "openai":
		chatform.Write(w, chatform.Messages(conversation.Messages(graph, conversation.Active{})))
	case "html":
		facts := ""
		if fold.Seq > 0 { // a fork may share nothing, and then has no events
			facts = Line(fold, last)
		}
		return render.Page(w, "Session "+visible.Line(title), facts, conversation.Thread(graph, conversation.Active{}, conversation.ThreadOptions{}), events())
	}
	return nil
}
