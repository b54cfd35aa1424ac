package render

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/internal/visible"
)

// summaryWidth is the largest length of an output or an error in a summary, in characters.
const summaryWidth = 100

// summaryName is the largest length of an id, in characters.
const summaryName = 40

// GraphRun prints a line for each node of a graph run, and how the run ended. Nodes that ran come first, in that order,
// then the others in the order of the file. failures contains the errors of nodes, and waitingIDs the nodes that wait
// for a person.
func GraphRun(w io.Writer, l Terminal, graph *agentgraph.Graph, r *agentgraph.Result, failures map[string]string, waitingIDs []string) {
	var ids []string
	width := 0
	shown := make(map[string]bool, len(graph.Nodes))
	add := func(id string) {
		if !shown[id] {
			shown[id] = true
			ids = append(ids, id)
			width = max(width, utf8.RuneCountInString(Cut(visible.Line(id), summaryName)))
		}
	}
	for _, id := range r.Order {
		add(id)
	}
	for _, n := range graph.Nodes {
		add(n.ID)
	}
	failed, cancelled, skipped, waiting, notRun := set(r.Failed), set(r.Cancelled), set(r.Skipped), set(waitingIDs), set(r.NotRun)
	for _, id := range ids {
		output, answered := r.Outputs[id]
		what, paint, rest := "done", Green, string(output)
		asked := id == graph.OnError.Fallback && r.Calls[id] > 0
		switch {
		case failed[id], asked && !answered && !cancelled[id] && failures[id] != "": // a fallback that failed ran in place of another node
			what, paint, rest = "failed", Red, failures[id]
			if rest == "" && r.Error != nil && r.Error.Agent == id { // it was not called
				rest = r.Error.Message
			}
		case cancelled[id]:
			what, paint, rest = "cancelled", Faint, ""
		case skipped[id]:
			what, paint, rest = "skipped", Faint, ""
		case r.Status == agentgraph.Waiting && waiting[id]:
			what, paint, rest = "waiting", Cyan, ""
		case notRun[id], r.Calls[id] == 0:
			what, paint, rest = "not run", Faint, ""
		}
		if n := r.Calls[id]; n > 1 {
			rest = fmt.Sprintf("(%s) %s", Count(n, "call"), rest)
		}
		name := Cut(visible.Line(id), summaryName)
		line := name + strings.Repeat(" ", width-utf8.RuneCountInString(name)) + "  " + l.Paint(paint, fmt.Sprintf("%-9s", what)) + "  " + Cut(visible.Line(rest), summaryWidth)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	fmt.Fprintln(w, "status: "+string(r.Status))
}

func set(ids []string) map[string]bool {
	m := make(map[string]bool, len(ids))
	for _, id := range ids {
		m[id] = true
	}
	return m
}
