package crashtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
)

// line is an event without the parts that differ between two runs of one story. For a tool's result it has the tool,
// and whether the outcome is unknown.
type line struct {
	text, tool string
	unknown    bool
}

func requireAccount(t testing.TB, want, got []line, s *Story) {
	t.Helper()
	var a, b []string
	for i := range max(len(want), len(got)) {
		var w, g line
		if i < len(want) {
			w = want[i]
			a = append(a, w.text)
		}
		if i < len(got) {
			g = got[i]
			if g.unknown && g.tool == w.tool && slices.Contains(s.once, g.tool) {
				g.text = w.text
			}
			b = append(b, g.text)
		}
	}
	require.Equal(t, strings.Join(a, "\n"), strings.Join(b, "\n"))
}

// account returns the lines of a log: ids become numbers, times and notices of adoptions are left out, and the results
// of concurrent tools come in the order of their calls, each with its state and the events of agents inside the call.
func account(events []*event.Event) []line {
	a := &accountant{scopes: make(map[string][]*event.Event), causes: make(map[string][]string), names: make(map[string]string), counts: make(map[string]int)}
	for _, e := range events {
		if e.IsNotice(event.NoticeAdopted, event.NoticeGivenBack) { // a resumed turn has no such notice
			continue
		}
		if len(a.scopes[e.Scope]) == 0 && e.Scope != "" {
			a.causes[e.ParentID] = append(a.causes[e.ParentID], e.Scope)
		}
		a.scopes[e.Scope] = append(a.scopes[e.Scope], e)
	}
	return a.conversation("")
}

type accountant struct {
	scopes map[string][]*event.Event
	causes map[string][]string // call → the scopes inside it
	names  map[string]string
	counts map[string]int // the number of ids by scope
	scope  string         // the current scope
}

// name numbers ids in the order in which they first occur in their scope. (The id of a node may contain that of a run.)
func (a *accountant) name(id string) string {
	id, rest, _ := strings.Cut(id, ":")
	if id != "" && a.names[id] == "" {
		a.counts[a.scope]++
		a.names[id] = fmt.Sprint(a.names[a.scope], "#", a.counts[a.scope])
	}
	return strings.TrimSuffix(a.names[id]+":"+rest, ":")
}

func (a *accountant) conversation(scope string) (lines []line) {
	type result struct {
		*event.Event
		state []string
	}
	var results []result
	var state []string
	order := make(map[string]int)
	flush := func() {
		slices.SortStableFunc(results, func(x, y result) int { return order[x.ID] - order[y.ID] })
		for _, r := range results {
			lines = append(lines, a.result(r.Event, r.state)...)
		}
		results = nil
	}
	for _, e := range a.scopes[scope] {
		switch d := e.Data.(type) {
		case *event.State:
			if e.Agent == "user" { // the beginning of a turn, not a result
				break
			}
			var names []string
			for name := range d.Delta {
				names = append(names, name)
			}
			slices.Sort(names)
			state = append(state, names...)
			continue
		case *event.File:
			state = append(state, "file "+d.Name)
			continue
		case *event.ToolResult:
			results = append(results, result{e, state})
			state = nil
			continue
		case *event.ToolCall:
			order[e.ID] = len(order)
		}
		flush()
		lines = append(lines, line{text: a.event(e)})
	}
	flush()
	return lines
}

func (a *accountant) event(e *event.Event) string {
	id := ""
	data := event.Comparable(e.Data, a.name)
	switch d := data.(type) {
	case *event.ToolCall, *event.Relay:
		id = a.name(e.ID)
	case *event.HandoffStatus:
		d.UpTo = 0
	}
	return fmt.Sprintf("turn %s run %s parent %s %s %s %s %s", a.name(e.TurnID), a.name(e.RunID), a.name(e.ParentID), e.Path, e.Type(), id, event.EncodeJSON(data))
}

func (a *accountant) result(e *event.Event, state []string) (lines []line) {
	d := e.Data.(*event.ToolResult)
	l := line{tool: d.Name, unknown: strings.Contains(string(d.Output), interrupted)}
	l.text = fmt.Sprintf("turn %s run %s %s %s: %s, %v, state %v", a.name(e.TurnID), a.name(e.RunID), d.Name, a.name(e.ID), d.Output, d.IsError, state)
	lines = append(lines, l)
	for _, inner := range a.causes[e.ID] {
		outer := a.scope
		a.names[inner] = a.name(e.ID)
		a.scope = inner
		for _, in := range a.conversation(inner) {
			in.text = "    " + in.text
			lines = append(lines, in)
		}
		a.scope = outer
	}
	return lines
}
