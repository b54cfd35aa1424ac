package view_test

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// sameView compares all that is asked of a view.
func sameView(t require.TestingT, want, got *view.View, words string) {
	require.Equal(t, want.Seq(), got.Seq(), words)
	require.Equal(t, render(want.Messages()), render(got.Messages()), words)
	require.Equal(t, want.Pending(), got.Pending(), words)
	require.Equal(t, want.Run(), got.Run(), words)
	require.Equal(t, want.Summary(), got.Summary(), words)
	require.Equal(t, want.SummaryDue(), got.SummaryDue(), words)
	require.Equal(t, want.Compactions(), got.Compactions(), words)
	require.Equal(t, want.AskedUser(), got.AskedUser(), words)
	said, before := want.Exchanges()
	alsoSaid, alsoBefore := got.Exchanges()
	require.Equal(t, said, alsoSaid, words)
	require.Equal(t, slices.Clone(before), slices.Clone(alsoBefore), words)
	tokens, request := want.Tokens()
	alsoTokens, alsoRequest := got.Tokens()
	require.Equal(t, []int{tokens, request}, []int{alsoTokens, alsoRequest}, words)
	upTo, _ := want.Oldest(20, 0)
	alsoUpTo, _ := got.Oldest(20, 0)
	require.Equal(t, upTo, alsoUpTo, words)
}

// noticed puts notices that views remember between the writes of a log.
func noticed(rt *rapid.T, tree *agent.Tree, log []*event.Event, ends map[int64]bool) (more []*event.Event, moreEnds map[int64]bool) {
	var agents []string
	for n := range tree.Walk() {
		agents = append(agents, n.Agent.Name())
	}
	moreEnds = make(map[int64]bool)
	add := func(e event.Event) {
		e.Seq = int64(len(more) + 1)
		more = append(more, &e)
	}
	for _, e := range log {
		if _, ends := e.Data.(*event.HarnessEnd); ends && rapid.IntRange(0, 3).Draw(rt, "asks") == 0 {
			add(event.Event{Agent: e.Agent, Data: &event.Notice{Code: event.NoticeAsksUser}})
		}
		add(*e)
		if ends[e.Seq] && rapid.IntRange(0, 7).Draw(rt, "fails") == 0 {
			add(event.Event{Agent: rapid.SampledFrom(agents).Draw(rt, "of"), Data: &event.Notice{Code: event.NoticeCompactionFailed}})
		}
		moreEnds[int64(len(more))] = ends[e.Seq]
	}
	return more, moreEnds
}

// TestColdViews: at any time a view that begins where it has to is asked the same, and answers the same, as one that has
// read the log from its start: whatever was compacted, and however few starts of turns are known.
func TestColdViews(t *testing.T) {
	require.NoError(t, flag.Set("rapid.nofailfile", "true"))
	fine := must.Get(tools.Func("fine", "", func(tools.Context, struct{}) (string, error) { return "fine\nindeed", nil }))
	broken := must.Get(tools.Func("broken", "", func(tools.Context, struct{}) (string, error) { return "", errors.New("on fire") }))
	later := 0
	rapid.Check(t, func(rt *rapid.T) {
		tree, log, ends := randomLog(rt, 9, fine, broken)
		log, ends = noticed(rt, tree, log, ends)
		if rapid.Bool().Draw(rt, "compactions") {
			log, ends = compacted(rt, tree, log, ends)
		}
		forgets := rapid.Bool().Draw(rt, "forgets")
		for _, policy := range []string{"full", "own", "last_turns:1", "last_turns:2", "last_turns:3+files"} {
			p := must.Get(view.Parse(policy))
			for node := range tree.Walk() {
				create := func() *view.View {
					v := view.New(node, p, "")
					v.Count(nil)
					return v
				}
				warm, fold := create(), new(session.Fold)
				for i, e := range log {
					warm.Apply(e)
					if fold.Apply(e); !ends[e.Seq] {
						continue
					}
					turns := fold.Turns
					turns.LastTransfer = fold.Conversation.Handed
					if forgets {
						turns.Begun = slices.DeleteFunc(slices.Clone(turns.Begun), func(agent.TurnStart) bool { return rapid.Bool().Draw(rt, "forgotten") })
					}
					cold := create()
					if cold.BeginAt(turns, 0); cold.Seq() > 0 {
						later++
					}
					for _, e := range log[:i+1] {
						cold.Apply(e)
					}
					sameView(rt, warm, cold, fmt.Sprintf("%s of %s at %d", policy, node.Agent.Name(), e.Seq))
				}
			}
		}
	})
	require.Positive(t, later)
}

// TestViewsBeginLate: what a view reads does not grow with the log, under LastTurns and after compactions.
func TestViewsBeginLate(t *testing.T) {
	node, f := tree(t).Node("support"), new(session.Fold)
	for i := range 5000 {
		f.Apply(&event.Event{Seq: int64(2*i + 1), Agent: "user", Data: &event.User{Content: llm.UserText("q").Content}})
		f.Apply(&event.Event{Seq: int64(2*i + 2), Agent: "support", Data: &event.Text{Content: "a"}})
	}
	for n, most := range map[int]int64{1: 4, 20: 100, 100: 500, 1000: 5000} {
		v := view.New(node, view.LastTurns(n), "")
		v.BeginAt(f.Turns, 0)
		require.LessOrEqual(t, 10_000-v.Seq(), most, n)
	}
	full := view.New(node, view.Full(), "")
	full.BeginAt(f.Turns, 0)
	require.Zero(t, full.Seq())
	f.Apply(&event.Event{Seq: 10_001, Agent: "support", Data: &event.Compaction{UpTo: 9_990}})
	full.BeginAt(f.Turns, 0)
	require.LessOrEqual(t, 10_001-full.Seq(), int64(11))
	full.BeginAt(f.Turns, 0)
	inner := view.New(node, view.LastTurns(1), "inner")
	inner.BeginAt(f.Turns, 0)
	require.Zero(t, inner.Seq())
}

// TestColdViewKeepsTheSummary checks a view that begins after the first turn that LastTurns shows, because a compaction
// covers that turn: it keeps the summary when LastTurns drops earlier turns.
func TestColdViewKeepsTheSummary(t *testing.T) {
	node, fold := tree(t).Node("support"), new(session.Fold)
	warm := view.New(node, view.LastTurns(3), "")
	var log []*event.Event
	add := func(agent string, data event.Data) {
		e := &event.Event{Seq: int64(len(log) + 1), Agent: agent, Data: data}
		log = append(log, e)
		warm.Apply(e)
		fold.Apply(e)
	}
	for turn := range 8 {
		add("user", &event.User{Content: llm.UserText("q").Content})
		if turn == 4 {
			add("support", &event.Compaction{UpTo: int64(len(log) - 1), Summary: "Sum."})
		}
		add("support", &event.Text{Content: "a"})
	}
	cold := view.New(node, view.LastTurns(3), "")
	cold.BeginAt(fold.Turns, 0)
	require.Positive(t, cold.Seq())
	for _, e := range log[cold.Seq():] {
		cold.Apply(e)
	}
	require.Equal(t, "Sum.", warm.Summary())
	require.Equal(t, warm.Summary(), cold.Summary())
}
