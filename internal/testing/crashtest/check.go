package crashtest

import (
	"cmp"
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
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/integrity"
	"github.com/agentarbor/arbor/session/sessiontest"
)

const interrupted = "interrupted; outcome unknown"

// snapshot contains the state of a session after a process died: its log, and the started calls of models and tools.
type snapshot struct {
	events []*event.Event
	models int
	tools  []toolRun
	desk   []string // requests, and messages by their ids, without repetitions
}

type toolRun struct{ name, call string }

func inspect(t testing.TB, way Way, at Place) (r snapshot) {
	calls, err := os.ReadFile(filepath.Join(at.Dir, "calls"))
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
			if line = strings.TrimSpace(line); !slices.Contains(r.desk, line) { // a repetition has the same ids
				r.desk = append(r.desk, line)
			}
		}
	}
	store, err := way.Store(context.Background(), at)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	for e, err := range store.Load(context.Background(), at.Key, 0) {
		require.NoError(t, err)
		r.events = append(r.events, e)
		if f, ok := e.Data.(*event.File); ok { // its bytes must exist whenever the process died
			data, err := store.Blob(context.Background(), at.Key, f.Digest)
			require.NoError(t, err)
			require.Equal(t, strings.TrimSuffix(f.Name, ".txt"), string(data))
		}
	}
	return r
}

func (r snapshot) usages() (n int) {
	for _, e := range r.events {
		if e.Type() == event.TypeUsage {
			n++
		}
	}
	return n
}

// calls returns the number of calls of models and tools. The last one may be incomplete.
func (r snapshot) calls() int { return r.models + len(r.tools) }

// adoptions returns the number of notices in the log that a turn was adopted.
func (r snapshot) adoptions() (n int) {
	for _, e := range r.events {
		if e.IsNotice(event.NoticeAdopted) {
			n++
		}
	}
	return n
}

// finishedCalls returns the ids of the calls that have a result.
func (r snapshot) finishedCalls() map[string]bool {
	ids := make(map[string]bool)
	for _, e := range r.events {
		if e.Type() == event.TypeToolResult {
			ids[e.ID] = true
		}
	}
	return ids
}

// check checks a session after a process has ended, and compares it with the state before.
func (c *campaign) check(at Place, before snapshot, killed bool) snapshot {
	after := inspect(c.T, c.Way, at)
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
		inFlight = c.story.Asks
	}
	lost := (after.models - before.models) - (after.usages() - before.usages())
	require.GreaterOrEqual(c, lost, 0, "answers are recorded that no model gave")
	require.LessOrEqual(c, lost, inFlight, "a model was asked, and neither was its answer recorded nor was the process killed meanwhile")
	settled := before.finishedCalls()
	for _, run := range after.tools[len(before.tools):] {
		require.False(c, settled[run.call], "%s ran again for the call %s, whose result was recorded", run.name, run.call)
	}
	c.checkRecord(after)
	return after
}

// checkRecord checks what always holds for a session, finished or not.
func (c *campaign) checkRecord(r snapshot) {
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

// checkDesk compares what the desk received with the log: one request per handoff, and then the user's messages in
// order.
func (c *campaign) checkDesk(r snapshot) {
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
	if len(want) > len(r.desk) { // the last one is about to be sent
		want = want[:len(want)-1]
	}
	require.Equal(c, strings.Join(want, "\n"), strings.Join(r.desk, "\n"))
}

// checkEnd checks a session at the end of its story: the log is complete, there is nothing to resume, a repeated
// decision gets the recorded result, and another one is refused.
func (c *campaign) checkEnd(at Place, r snapshot) {
	root, err := c.story.tree(&storyTree{path: filepath.Join(at.Dir, "calls"), odometer: &Odometer{}})
	require.NoError(c, err)
	store, err := c.Way.Store(context.Background(), at)
	require.NoError(c, err)
	defer func() { require.NoError(c, store.Close()) }()
	run, err := runner.New(root, store)
	require.NoError(c, err)
	var laws integrity.Checker
	for _, e := range r.events {
		laws.Add(e)
	}
	require.Empty(c, laws.Violations())
	if c.CheckLog != nil {
		c.CheckLog(c.T, run, r.events)
	}
	collect := func(decisions ...runner.Decision) (events []*event.Event, failed error) {
		for e, err := range sessiontest.Turn(c.T, run.Resume(context.Background(), at.Key, decisions...)) {
			if err != nil {
				return events, err
			}
			events = append(events, e)
		}
		return events, nil
	}

	rest, err := collect()
	require.NoError(c, err)
	require.Empty(c, rest, "nothing is left to resume")
	results, stored := make(map[string]*event.Event), make(map[string]*event.RelayResolved)
	for _, e := range r.events {
		switch d := e.Data.(type) {
		case *event.ToolResult:
			results[e.ID] = e
		case *event.RelayResolved:
			stored[d.RelayID] = d
		}
	}
	for _, e := range r.events {
		if d, ok := e.Data.(*event.Relay); ok {
			for _, approve := range []bool{true, false} {
				again := decision(d, approve)
				events, err := collect(again)
				if stored[e.ID] == nil || !again.Equals(stored[e.ID]) {
					require.ErrorIs(c, err, runner.ErrNoApproval)
					continue
				}
				require.NoError(c, err)
				require.Equal(c, []*event.Event{results[d.ToolCallID]}, events)
			}
		}
	}
	active, err := run.Active(context.Background(), at.Key)
	require.NoError(c, err)
	var whole session.Fold
	for _, e := range c.whole.events {
		whole.Apply(e)
	}
	who := cmp.Or(whole.Scope("").Active, root.Name())
	if root.Name() == behindName {
		who = behindName
	}
	require.Equal(c, who, active)
	after := inspect(c.T, c.Way, at)
	require.Equal(c, len(r.events), len(after.events), "nothing was stored")
	require.Equal(c, r.tools, after.tools, "and nothing ran")
	require.Equal(c, r.models, after.models)
}
