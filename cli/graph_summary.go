package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agentarbor/arbor/agentgraph"
)

// summaryWidth is how many characters of an output or of an error a summary shows.
const summaryWidth = 100

// summary prints a line for each node, in the order in which they ran and then in
// that of the file, and how the run ended. said are the errors of nodes, and
// waits those that wait for a person.
func (g *graphRun) summary(graph *agentgraph.Graph, r *agentgraph.Result, said map[string]string, waits []string) {
	p := g.p
	look := p.lookOf(p.Stdout)
	var ids []string
	width := 0
	add := func(id string) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
			width = max(width, utf8.RuneCountInString(oneLine(id)))
		}
	}
	for _, id := range r.Order {
		add(id)
	}
	for _, n := range graph.Nodes {
		add(n.ID)
	}
	for _, id := range ids {
		what, paint, rest := "done", green, ""
		if output, ok := r.Outputs[id]; ok {
			rest = string(output)
		}
		switch {
		case slices.Contains(r.Failed, id):
			what, paint, rest = "failed", red, said[id]
			if rest == "" && r.Error != nil && r.Error.Agent == id { // it was not called
				rest = r.Error.Message
			}
		case slices.Contains(r.Cancelled, id):
			what, paint, rest = "cancelled", faint, ""
		case slices.Contains(r.Skipped, id):
			what, paint, rest = "skipped", faint, ""
		case r.Status == agentgraph.Waiting && slices.Contains(waits, id):
			what, paint, rest = "waiting", cyan, ""
		case slices.Contains(r.NotRun, id), r.Calls[id] == 0:
			what, paint, rest = "not run", faint, ""
		}
		if n := r.Calls[id]; n > 1 {
			rest = fmt.Sprintf("(%s) %s", count(n, "call"), rest)
		}
		name := oneLine(id)
		line := name + strings.Repeat(" ", width-utf8.RuneCountInString(name)) + "  " + look.paint(paint, fmt.Sprintf("%-9s", what)) + "  " + cut(oneLine(rest), summaryWidth)
		fmt.Fprintln(p.Stdout, strings.TrimRight(line, " "))
	}
	fmt.Fprintln(p.Stdout, "status: "+string(r.Status))
}
