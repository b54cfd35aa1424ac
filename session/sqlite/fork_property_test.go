package sqlite_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// family is the model of a file of forks.
type family struct {
	stores []session.Store // of one file
	alive  []*member
	gone   []string // names that can be used anew
	names  int
}

// member is a session. parent is the one whose own log holds the last event that
// the two share, which may be gone.
type member struct {
	key    session.Key
	log    []*event.Event
	parent *member
	shared int64
	gone   bool
}

func (f *family) store(t *rapid.T) session.Store { return rapid.SampledFrom(f.stores).Draw(t, "store") }

// one draws a session, or skips the action.
func (f *family) one(t *rapid.T) *member {
	if len(f.alive) == 0 {
		t.Skip("there is no session")
	}
	return rapid.SampledFrom(f.alive).Draw(t, "session")
}

func (f *family) name(prefix string) string {
	f.names++
	return fmt.Sprint(prefix, f.names)
}

// add adds a session, with a name that was another's before, or a new one.
func (f *family) add(t *rapid.T, m *member) *member {
	m.key = session.ID(f.name("s"))
	if len(f.gone) > 0 && rapid.Bool().Draw(t, "old name") {
		m.key, f.gone = session.ID(f.gone[0]), f.gone[1:]
	}
	f.alive = append(f.alive, m)
	return m
}

// goOn makes the events of a turn behind a log: of a new one, or of one that a
// fork was taken in the middle of. What it makes may be cut anywhere.
func (f *family) goOn(log []*event.Event) (events []*event.Event) {
	seq := int64(len(log))
	add := func(turn, run, scope, parent string, data event.Data) string {
		seq++
		id := f.name("e")
		events = append(events, &event.Event{Seq: seq, ID: id, TurnID: turn, RunID: run, Scope: scope, ParentID: parent, Agent: "a", Path: "a",
			Time: time.Unix(1_800_000_000, seq).UTC(), Data: data})
		return id
	}
	g := graphOf(log)
	open, turn, end := "", "", ""
	for _, e := range log {
		switch e.Data.(type) {
		case *event.User:
			open, turn = e.RunID, e.TurnID
		case *event.HarnessStart:
			if e.Scope == "" {
				open = e.RunID
			}
		case *event.HarnessEnd:
			if e.Scope == "" {
				open, end = "", e.RunID+":harness_end"
			}
		}
	}
	parent := ""
	if open != "" { // as the runner opens a run in a fork
		last, _ := g.Last(open)
		parent = last.ID
	} else {
		turn = f.name("t")
		user := f.name("u")
		add(turn, user, "", end, &event.User{Content: llm.Content{Text: "Hi"}})
		parent = user + ":user"
	}
	run := f.name("r")
	add(turn, run, "", parent, &event.HarnessStart{AgentID: "a"})
	add(turn, run, "", "", &event.Text{Content: "One moment."})
	call := add(turn, run, "", "", &event.ToolCall{Name: "ask", Input: json.RawMessage("{}")})
	add(turn, run, "", "", &event.Usage{InputTokens: 1})
	inner := f.name("r")
	add(turn, inner, call, call, &event.HarnessStart{AgentID: "a", Input: json.RawMessage(`"?"`)})
	add(turn, inner, call, "", &event.Text{Content: "Yes."})
	add(turn, inner, call, "", &event.HarnessEnd{AgentID: "a", FinishReason: event.FinishReasonStop})
	add(turn, run, "", "", &event.ToolResult{Name: "ask", Output: json.RawMessage(`"Yes."`)})
	events[len(events)-1].ID = call
	add(turn, run, "", "", &event.Usage{InputTokens: 2})
	add(turn, run, "", "", &event.HarnessEnd{AgentID: "a", FinishReason: event.FinishReasonTransfer, Target: "b"})
	next := f.name("r")
	add(turn, next, "", run+":harness_end", &event.HarnessStart{AgentID: "b"})
	add(turn, next, "", "", &event.Text{Content: "Done."})
	add(turn, next, "", "", &event.HarnessEnd{AgentID: "b", FinishReason: event.FinishReasonStop})
	return events
}

// append appends a turn or a part of it, in batches.
func (f *family) append(t *rapid.T, m *member) {
	s := f.store(t)
	events := f.goOn(m.log)
	events = events[:rapid.IntRange(1, len(events)).Draw(t, "events")]
	m.log = append(slices.Clip(m.log), events...)
	lease := must.Get(sessiontest.Acquire(t.Context(), s, m.key, session.Self()))
	seq := lease.Head.Seq
	for cut := rapid.IntRange(0, len(events)-1).Draw(t, "cut"); len(events) > 0; cut = 0 { // in two batches, or one
		n := cut
		if n == 0 {
			n = len(events)
		}
		require.NoError(t, sessiontest.Append(t.Context(), s, m.key, seq, lease, events[:n]...))
		seq, events = seq+int64(n), events[n:]
	}
	require.NoError(t, sessiontest.Release(t.Context(), s, m.key, lease))
}

func (f *family) fork(t *rapid.T, of *member) {
	seq := rapid.Int64Range(0, int64(len(of.log))).Draw(t, "position")
	holder := of
	for holder.parent != nil && seq <= holder.shared {
		holder = holder.parent
	}
	fork := f.add(t, &member{log: slices.Clip(of.log[:seq]), parent: holder, shared: seq})
	require.NoError(t, f.store(t).Fork(t.Context(), of.key, seq, fork.key))
}

func (f *family) delete(t *rapid.T, m *member) {
	require.NoError(t, f.store(t).Delete(t.Context(), m.key))
	m.gone = true
	f.gone = append(f.gone, m.key.ID)
	f.alive = slices.DeleteFunc(f.alive, func(a *member) bool { return a == m })
}

// check holds the file against the model: all logs, or that of one session.
func (f *family) check(t *rapid.T, all bool) {
	s := f.store(t)
	read := 0
	if len(f.alive) > 0 {
		read = rapid.IntRange(0, len(f.alive)-1).Draw(t, "read")
	}
	infos, err := s.List(t.Context(), session.Key{}, session.Page{})
	require.NoError(t, err)
	require.Len(t, infos, len(f.alive))
	found := map[session.Key]session.Info{}
	for _, info := range infos {
		found[info.Key] = info
	}
	for i, m := range f.alive {
		info := found[m.key]
		require.Len(t, m.log, int(info.Seq), m.key.ID)
		parent := session.Key{}
		if m.parent != nil && !m.parent.gone {
			parent = m.parent.key
		}
		require.Equal(t, parent, info.Parent, m.key.ID)
		require.Equal(t, m.shared, info.ParentSeq, m.key.ID)
		if !all && i != read {
			continue
		}
		after := rapid.Int64Range(0, info.Seq).Draw(t, "after")
		if all {
			after = 0
		}
		n := after
		for e, err := range s.Load(t.Context(), m.key, after) {
			require.NoError(t, err)
			require.Equal(t, m.log[n], e)
			n++
		}
		require.Equal(t, info.Seq, n)
	}
}

// TestForksLeaveWhatIsReachable: whatever is appended, forked and deleted, every
// session has its log, and the file holds nothing else.
func TestForksLeaveWhatIsReachable(t *testing.T) {
	path := newFile(t)
	stores := []session.Store{open(t, path), open(t, path)}
	rapid.Check(t, func(rt *rapid.T) {
		if rapid.IntRange(0, 3).Draw(rt, "passed over") > 0 {
			return // each sequence takes long: one in four will do
		}
		f := &family{stores: stores}
		create := func(rt *rapid.T) { f.append(rt, f.add(rt, &member{})) }
		create(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"create":       create,
			"append":       func(rt *rapid.T) { f.append(rt, f.one(rt)) },
			"append again": func(rt *rapid.T) { f.append(rt, f.one(rt)) },
			"fork":         func(rt *rapid.T) { f.fork(rt, f.one(rt)) },
			"fork again":   func(rt *rapid.T) { f.fork(rt, f.one(rt)) },
			"delete":       func(rt *rapid.T) { f.delete(rt, f.one(rt)) },
			"":             func(rt *rapid.T) { f.check(rt, false) },
		})
		f.check(rt, true)
		sound(t, path)
		for len(f.alive) > 0 {
			f.delete(rt, f.one(rt))
			f.check(rt, false)
			if len(f.alive)%4 == 2 {
				f.check(rt, true)
				sound(t, path)
			}
		}
		require.Equal(rt, "0|0\n", dump(t, path, "SELECT (SELECT count(*) FROM session), count(*) FROM event"))
	})
}
