package graphtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/plainjson"
	"github.com/agentarbor/arbor/internal/visible"
)

// differences collects the differences between a run and the expected result.
type differences []string

func (d *differences) add(format string, args ...any) {
	*d = append(*d, oneLine(fmt.Sprintf(format, args...)))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// compare returns the differences between a run and the expected result.
func (c *Case) compare(out *Outcome) []string {
	var d differences
	e, got := &c.Expect, &out.Result
	if e.Status != "" && string(got.Status) != e.Status {
		d.add("status: got %s, want %s", got.Status, e.Status)
		if e.Error == nil && got.Error != nil {
			d.add("error: got %s", errorText(got.Error))
		}
	}
	if e.Order != nil && !slices.Equal(got.Order, e.Order) {
		d.add("order: got %s, want %s", list(got.Order), list(e.Order))
	}
	d.set("skipped", got.Skipped, e.Skipped)
	d.set("failed", got.Failed, e.Failed)
	d.set("cancelled", got.Cancelled, e.Cancelled)
	d.set("notRun", got.NotRun, e.NotRun)
	for _, id := range sortedKeys(e.Calls) {
		if n := got.Calls[id]; n != e.Calls[id] {
			d.add("calls.%s: got %d, want %d", id, n, e.Calls[id])
		}
	}
	d.values("inputs", got.Inputs, e.Inputs)
	d.values("outputs", got.Outputs, e.Outputs)
	d.values("terminal", got.Terminal, e.Terminal)
	if e.Terminal != nil {
		for _, id := range sortedKeys(got.Terminal) {
			if _, want := e.Terminal[id]; !want {
				d.add("terminal.%s: got %s, want none", id, shown(got.Terminal[id]))
			}
		}
	}
	d.values("state", got.State, e.State)
	for _, group := range e.Parallel {
		d.overlap(out.Events, group)
	}
	d.error(got.Error, e.Error)
	if e.FallbackInputHas != nil {
		d.fallback(got, c.Graph.OnError.Fallback, e.FallbackInputHas)
	}
	for _, id := range sortedKeys(e.ConfigSeen) {
		seen := configOf(c.Graph, id)
		d.values("configSeen."+id, seen, e.ConfigSeen[id])
	}
	return d
}

// list formats ids.
func list(ids []string) string { return "[" + strings.Join(ids, ", ") + "]" }

// set compares ids in any order.
func (d *differences) set(name string, got, want []string) {
	if want == nil {
		return
	}
	g, w := slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(g, w) {
		d.add("%s: got %s, want %s", name, list(got), list(want))
	}
}

// values compares the expected values; other values are ignored.
func (d *differences) values(name string, got map[string]json.RawMessage, want map[string]any) {
	for _, id := range sortedKeys(want) {
		w, err := plainjson.Marshal(want[id])
		if err != nil {
			d.add("%s.%s: the wanted value has no JSON form: %v", name, id, err)
			continue
		}
		g, ok := got[id]
		if !ok {
			d.add("%s.%s: got none, want %s", name, id, shown(w))
			continue
		}
		if equal, err := sameJSON(g, w); err != nil {
			d.add("%s.%s: the output is not valid JSON: %v: %s", name, id, err, shown(g))
		} else if !equal {
			d.add("%s.%s: got %s, want %s", name, id, shown(g), shown(w))
		}
	}
}

// shown shortens a value for a difference.
func shown(v json.RawMessage) string { return visible.Cut(string(v), 400) }

// overlap checks in the log that all nodes of a group started before any of them ended.
func (d *differences) overlap(events []*event.Event, group []string) {
	started := map[string]bool{}
	run := "" // the graph's run
	for _, e := range events {
		if _, ok := e.Data.(*event.HarnessStart); ok && e.Scope == "" && run == "" {
			run = e.RunID
		}
		if run == "" || !strings.HasPrefix(e.Scope, event.ChildScope(run, "")) || !slices.Contains(group, e.Agent) {
			continue
		}
		switch e.Data.(type) {
		case *event.HarnessStart:
			started[e.Agent] = true
		case *event.HarnessEnd:
			if len(started) == len(group) {
				return
			}
			d.add("parallel: %s ended before %s had started", e.Agent, missing(group, started))
			return
		}
	}
	if len(started) < len(group) {
		d.add("parallel: %s did not start", missing(group, started))
	}
}

func missing(group []string, started map[string]bool) string {
	var names []string
	for _, id := range group {
		if !started[id] {
			names = append(names, id)
		}
	}
	return strings.Join(names, ", ")
}

func (d *differences) error(got *agentgraph.ResultError, want *ExpectError) {
	switch {
	case want == nil:
		return
	case got == nil:
		d.add("error: got none, want %s", errorText(&agentgraph.ResultError{Agent: want.Agent, Edge: want.Edge, Message: strings.Join(want.Contains, " … ")}))
		return
	}
	if want.Agent != "" && got.Agent != want.Agent {
		d.add("error.agent: got %q, want %q (%s)", got.Agent, want.Agent, got.Message)
	}
	if edge := strings.ReplaceAll(want.Edge, " ", ""); edge != "" && strings.ReplaceAll(got.Edge, " ", "") != edge {
		d.add("error.edge: got %q, want %q (%s)", got.Edge, want.Edge, got.Message)
	}
	for _, text := range want.Contains {
		if !strings.Contains(got.Message, text) {
			d.add("error: %q does not contain %q", got.Message, text)
		}
	}
}

func errorText(e *agentgraph.ResultError) string {
	where := "agent " + e.Agent
	if e.Edge != "" {
		where = "edge " + e.Edge
	}
	return where + ": " + e.Message
}

func (d *differences) fallback(got *agentgraph.Result, id string, texts []string) {
	input, ok := got.Inputs[id]
	if !ok {
		d.add("fallbackInputHas: the fallback %s had no input", id)
		return
	}
	for _, text := range texts {
		quoted, _ := plainjson.Marshal(text) // a string always has a JSON form
		if s := string(input); !strings.Contains(s, text) && !strings.Contains(s, strings.Trim(string(quoted), `"`)) {
			d.add("fallbackInputHas: %q is not in %s", text, shown(input))
		}
	}
}

// configOf returns the configuration of a node's agent: the node's, merged mapping by mapping over that of the agent's
// document.
func configOf(g *agentgraph.Graph, id string) map[string]json.RawMessage {
	var config map[string]any
	var documents agentgraph.Folder
	for _, a := range g.Agents {
		documents.Agents = append(documents.Agents, agentgraph.FolderAgent{Name: a.Name, Version: a.Version, Document: &a})
	}
	for _, n := range g.Nodes {
		if n.ID != id {
			continue
		}
		config = n.Config
		if a, err := documents.Find(n.Ref); err == nil {
			own, _ := a.Document.Spec["config"].(map[string]any)
			config = agentgraph.MergeConfig(own, n.Config)
		}
	}
	seen := make(map[string]json.RawMessage, len(config))
	for k, v := range config {
		if raw, err := plainjson.Marshal(v); err == nil {
			seen[k] = raw
		}
	}
	return seen
}
