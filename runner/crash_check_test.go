package runner_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session/sqlite"
)

const interrupted = "interrupted; outcome unknown"

// record is what is known of a session after a process died: its log, and the
// calls of models and tools that were begun.
type record struct {
	events []*event.Event
	models int
	tools  []toolRun
	desk   []string // requests, and words by their ids, each once
}

type toolRun struct{ name, call string }

func inspect(t testing.TB, dir string) (r record) {
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	for line := range strings.Lines(string(calls)) {
		switch f := strings.Fields(line); f[0] {
		case "model":
			r.models++
		case "tool":
			r.tools = append(r.tools, toolRun{f[1], f[2]})
		case "request", "word":
			if line = strings.TrimSpace(line); !slices.Contains(r.desk, line) { // what comes twice has the same ids
				r.desk = append(r.desk, line)
			}
		}
	}
	store, err := sqlite.Open(filepath.Join(dir, "s.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	for e, err := range store.Load(context.Background(), s1, 0) {
		require.NoError(t, err)
		r.events = append(r.events, e)
		if f, ok := e.Data.(*event.File); ok { // whenever the process has died, its bytes are there
			data, err := store.Blob(context.Background(), s1, f.Digest)
			require.NoError(t, err)
			require.Equal(t, strings.TrimSuffix(f.Name, ".txt"), string(data))
		}
	}
	return r
}

func (r record) usages() (n int) {
	for _, e := range r.events {
		if e.Type() == event.TypeUsage {
			n++
		}
	}
	return n
}

// settled returns the ids of the calls that have a result.
func (r record) settled() map[string]bool {
	ids := make(map[string]bool)
	for _, e := range r.events {
		if e.Type() == event.TypeToolResult {
			ids[e.ID] = true
		}
	}
	return ids
}

// checked looks at a session after a process has ended, one way or the other,
// and holds it against what was there before.
func (c *campaign) checked(dir string, before record, killed bool) record {
	after := inspect(c.T, dir)
	require.GreaterOrEqual(c, len(after.events), len(before.events), "what was recorded stays")
	for i, e := range before.events {
		was, err := e.MarshalJSON()
		require.NoError(c, err)
		is, err := after.events[i].MarshalJSON()
		require.NoError(c, err)
		require.Equal(c, string(was), string(is), "what was recorded stays as it was")
	}
	inFlight := 0
	if killed {
		inFlight = c.story.asks
	}
	lost := (after.models - before.models) - (after.usages() - before.usages())
	require.GreaterOrEqual(c, lost, 0, "answers are recorded that no model gave")
	require.LessOrEqual(c, lost, inFlight, "a model was asked, and neither was its answer recorded nor was the process killed meanwhile")
	settled := before.settled()
	for _, run := range after.tools[len(before.tools):] {
		require.False(c, settled[run.call], "%s ran again for the call %s, whose result was recorded", run.name, run.call)
	}
	c.checkRecord(after)
	return after
}

// checkRecord holds a session, finished or not, against what is always true.
func (c *campaign) checkRecord(r record) {
	runs := make(map[toolRun]int)
	for _, run := range r.tools {
		runs[run]++
		if slices.Contains(c.story.once, run.name) {
			require.Equal(c, 1, runs[run], "%s ran twice for the call %s", run.name, run.call)
		}
	}
	asks, approved := make(map[string]string), make(map[string]bool)
	scopes, scopeOf := make(map[string]int), make(map[string]string)
	turns, seeds := 0, 0
	for _, e := range r.events {
		switch d := e.Data.(type) {
		case *event.User:
			require.Equal(c, turns, seeds, "the turn before began without its state")
			turns++
		case *event.State:
			if e.Agent == "user" {
				seeds++
				require.Equal(c, turns, seeds, "a turn began with its state twice")
				require.Equal(c, map[string]any{"turn:message": float64(turns)}, d.Delta)
			}
		case *event.Relay:
			asks[e.ID] = d.ToolCallID
		case *event.RelayResolved:
			_, twice := approved[asks[d.RelayID]]
			require.False(c, twice, "the question %s is answered twice", d.RelayID)
			approved[asks[d.RelayID]] = d.Approved
		case *event.HarnessStart:
			if e.Scope != "" && scopeOf[e.Scope] == "" {
				scopeOf[e.Scope] = e.ParentID
				scopes[e.ParentID]++
			}
		case *event.ToolResult:
			if slices.Contains(c.story.once, d.Name) {
				require.LessOrEqual(c, scopes[e.ID], 1, "%s ran twice for the call %s", d.Name, e.ID)
			}
		}
	}
	require.Equal(c, turns, seeds)
	c.checkDesk(r)
	for _, run := range r.tools {
		if run.name == "refund" {
			require.True(c, approved[run.call], "%s ran for the call %s, which nobody approved", run.name, run.call)
		}
	}
}

// checkDesk holds what the desk was told against the log: one request a handoff, and then what
// the user said, in order.
func (c *campaign) checkDesk(r record) {
	var want []string
	handoff, conversation := "", 0
	for _, e := range r.events {
		switch d := e.Data.(type) {
		case *event.User:
			if conversation++; handoff != "" {
				want = append(want, fmt.Sprintf("word %s %s %s", handoff, e.ID, d.Content.Text))
			}
		case *event.Text:
			conversation++
		case *event.HandoffStatus:
			if handoff == "" {
				want = append(want, fmt.Sprintf("request %s support %d", d.HandoffID, conversation))
			}
			if handoff = d.HandoffID; event.HandoffOver(d.Status) {
				handoff = ""
			}
		}
	}
	if len(want) > len(r.desk) { // the last one is about to be told
		want = want[:len(want)-1]
	}
	require.Equal(c, strings.Join(want, "\n"), strings.Join(r.desk, "\n"))
}

// checkEnd looks at a session whose story is over: the log is whole, there is
// nothing to resume, and who decides once more, or differently, gets the recorded
// result.
func (c *campaign) checkEnd(dir string, r record) {
	root, err := c.story.tree(&stage{path: filepath.Join(dir, "calls"), odometer: &odometer{}})
	require.NoError(c, err)
	store, err := sqlite.Open(filepath.Join(dir, "s.db"))
	require.NoError(c, err)
	defer func() { require.NoError(c, store.Close()) }()
	run, err := runner.New(root, store)
	require.NoError(c, err)
	checkLog(c.T, run, r.events)

	open := make(map[string]bool) // runs without their end, calls without their result, in any scope
	for _, e := range r.events {
		switch e.Data.(type) {
		case *event.HarnessStart:
			open[e.RunID] = true
		case *event.HarnessEnd:
			delete(open, e.RunID)
		case *event.ToolCall:
			open[e.ID] = true
		case *event.ToolResult:
			delete(open, e.ID)
		}
	}
	require.Empty(c, open)

	ctx := context.Background()
	events, err := collect(run.Resume(ctx, s1))
	require.NoError(c, err)
	require.Empty(c, events, "nothing is left to resume")
	results := make(map[string]*event.Event)
	for _, e := range r.events {
		if e.Type() == event.TypeToolResult {
			results[e.ID] = e
		}
	}
	for _, e := range r.events {
		if d, ok := e.Data.(*event.Relay); ok {
			for _, approve := range []bool{true, false} {
				events, err = collect(run.Resume(ctx, s1, decision(d, approve)))
				require.NoError(c, err)
				require.Equal(c, []*event.Event{results[d.ToolCallID]}, events)
			}
		}
	}
	active, err := run.Active(ctx, s1)
	require.NoError(c, err)
	who := activeAfter(c.whole.events, root.Name())
	if root.Name() == behindName {
		who = behindName
	}
	require.Equal(c, who, active)
	after := inspect(c.T, dir)
	require.Equal(c, len(r.events), len(after.events), "nothing was stored")
	require.Equal(c, r.tools, after.tools, "and nothing ran")
	require.Equal(c, r.models, after.models)
}

func activeAfter(events []*event.Event, name string) string {
	for _, e := range events {
		if d, ok := e.Data.(*event.Transfer); ok && e.Scope == "" && d.Outcome == event.TransferCommitted {
			name = d.To
		}
		if d, ok := e.Data.(*event.HandoffStatus); ok && event.HandoffOver(d.Status) {
			name = d.TargetAgent
		}
	}
	return name
}

// line is an event as two runs of one story have it in common. Of a tool's
// result it names the tool, and says whether the outcome is unknown.
type line struct {
	text, tool string
	unknown    bool
}

func requireAccount(t testing.TB, want, got []line, s *crashStory) {
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

// account writes a log without what differs between two runs of one story: ids
// become numbers, times are left out, results of tools that ran side by side come
// in the order of their calls, each with its state and with what an agent inside
// the call did.
func account(events []*event.Event) []line {
	a := &accountant{scopes: make(map[string][]*event.Event), causes: make(map[string][]string), names: make(map[string]string), counts: make(map[string]int)}
	for _, e := range events {
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
	counts map[string]int // scope → how many ids it has brought up
	scope  string         // the one that is written
}

// name numbers ids in the order in which their scope brings them up. (The id of
// a node may contain that of a run.)
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
			if e.Agent == "user" { // what the turn began with, and no result
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
	data := event.EncodeJSON(e.Data)
	switch d := e.Data.(type) {
	case *event.ToolCall:
		id = a.name(e.ID)
	case *event.Relay:
		id = a.name(e.ID)
		same := *d
		same.ToolCallID = a.name(d.ToolCallID)
		data = event.EncodeJSON(&same)
	case *event.RelayResolved:
		data = event.EncodeJSON(&event.RelayResolved{Approved: d.Approved, Reason: d.Reason, RelayID: a.name(d.RelayID), Content: d.Content})
	case *event.Route:
		same := *d
		same.LatencyMs = 0
		data = event.EncodeJSON(&same)
	case *event.HandoffStatus:
		same := *d
		same.HandoffID, same.UpTo = "", 0
		data = event.EncodeJSON(&same)
	case *event.Transfer:
		data = event.EncodeJSON(&event.Transfer{From: d.From, To: d.To, Reason: d.Reason, Outcome: d.Outcome, ToolCallID: a.name(d.ToolCallID)})
	}
	return fmt.Sprintf("turn %s run %s parent %s %s %s %s %s", a.name(e.TurnID), a.name(e.RunID), a.name(e.ParentID), e.Path, e.Type(), id, data)
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
