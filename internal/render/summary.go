package render

import (
	"fmt"
	"io"
	"slices"
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
	add := func(id string) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
			width = max(width, utf8.RuneCountInString(visible.Cut(visible.Line(id), summaryName)))
		}
	}
	for _, id := range r.Order {
		add(id)
	}
	for _, n := range graph.Nodes {
		add(n.ID)
	}
	for _, id := range ids {
		in := func(list []string) bool { return slices.Contains(list, id) }
		output, answered := r.Outputs[id]
		what, paint, rest := "done", Green, string(output)
		asked := id == graph.OnError.Fallback && r.Calls[id] > 0
		switch {
		case in(r.Failed), asked && !answered && !in(r.Cancelled) && failures[id] != "": // a fallback that failed ran in place of another node
			what, paint, rest = "failed", Red, failures[id]
			if rest == "" && r.Error != nil && r.Error.Agent == id { // it was not called
				rest = r.Error.Message
			}
		case in(r.Cancelled):
			what, paint, rest = "cancelled", faint, ""
		case in(r.Skipped):
			what, paint, rest = "skipped", faint, ""
		case r.Status == agentgraph.Waiting && in(waitingIDs):
			what, paint, rest = "waiting", cyan, ""
		case in(r.NotRun), r.Calls[id] == 0:
			what, paint, rest = "not run", faint, ""
		}
		if n := r.Calls[id]; n > 1 {
			rest = fmt.Sprintf("(%s) %s", Count(n, "call"), rest)
		}
		name := visible.Cut(visible.Line(id), summaryName)
		line := name + strings.Repeat(" ", width-utf8.RuneCountInString(name)) + "  " + l.Paint(paint, fmt.Sprintf("%-9s", what)) + "  " + visible.Cut(visible.Line(rest), summaryWidth)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	fmt.Fprintln(w, "status: "+string(r.Status))
}
