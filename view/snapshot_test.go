package view_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// stored are the parts of a view as a store keeps them.
type stored struct {
	numbers []int64
	parts   []string
}

func (s *stored) put(t require.TestingT, v *view.View, anew bool) {
	n, data, err := v.Snapshot(anew)
	require.NoError(t, err)
	for len(s.numbers) > 0 && s.numbers[len(s.numbers)-1] >= n {
		s.numbers, s.parts = s.numbers[:len(s.numbers)-1], s.parts[:len(s.parts)-1]
	}
	s.numbers, s.parts = append(s.numbers, n), append(s.parts, string(data))
}

// whole is all that a view keeps, as bytes.
func whole(t require.TestingT, node *agent.Node, p view.Policy, v *view.View, counts bool) string {
	s := new(stored)
	s.put(t, v, true)
	_, data, err := again(t, node, p, s, counts).Snapshot(true)
	require.NoError(t, err)
	require.Equal(t, s.parts[0], string(data), "read back it is another one")
	return s.parts[0]
}

func again(t require.TestingT, node *agent.Node, p view.Policy, s *stored, counts bool) *view.View {
	v := view.New(node, p, "")
	if counts {
		v.Count(nil)
	}
	require.True(t, v.Restore(s.parts))
	return v
}

func sameView(t require.TestingT, want, got *view.View) {
	require.Equal(t, want.Seq(), got.Seq())
	require.Equal(t, render(want.Messages()), render(got.Messages()))
	require.Equal(t, want.Pending(), got.Pending())
	require.Equal(t, want.Run(), got.Run())
	require.Equal(t, want.Summary(), got.Summary())
	require.Equal(t, want.Compactions(), got.Compactions())
	require.Equal(t, want.AskedUser(), got.AskedUser())
	said, before := want.Exchanges()
	alsoSaid, alsoBefore := got.Exchanges()
	require.Equal(t, said, alsoSaid)
	require.Equal(t, len(before), len(alsoBefore))
	tokens, request := want.Tokens()
	alsoTokens, alsoRequest := got.Tokens()
	require.Equal(t, []int{tokens, request}, []int{alsoTokens, alsoRequest})
	upTo, _ := want.Oldest(20, 0)
	alsoUpTo, _ := got.Oldest(20, 0)
	require.Equal(t, upTo, alsoUpTo)
}

// TestViewsFromSnapshots: views of several processes, which store parts when they like, each read what the others have
// stored, at any time, and then show what one shows that has read the log.
func TestViewsFromSnapshots(t *testing.T) {
	require.NoError(t, flag.Set("rapid.nofailfile", "true"))
	fine, err := tools.Func("fine", "", func(tools.Context, struct{}) (string, error) { return "fine\nindeed", nil })
	require.NoError(t, err)
	broken, err := tools.Func("broken", "", func(tools.Context, struct{}) (string, error) { return "", errors.New("on fire") })
	require.NoError(t, err)
	rapid.Check(t, func(rt *rapid.T) {
		tree, log, ends := randomLog(rt, fine, broken)
		counts := rapid.Bool().Draw(rt, "counts")
		if rapid.Bool().Draw(rt, "compactions") {
			log, ends = compacted(rt, tree, log, ends)
		}
		for _, policy := range []string{"full", "text_only", "own", "last_turns:1", "last_turns:2+files"} {
			p, err := view.Parse(policy)
			require.NoError(rt, err)
			for node := range tree.Walk() {
				create := func() *view.View {
					v := view.New(node, p, "")
					if counts {
						v.Count(nil)
					}
					return v
				}
				all, parts := create(), new(stored)
				processes := []*view.View{create(), create()}
				for i, e := range log {
					all.Apply(e)
					if !ends[e.Seq] {
						continue
					}
					n := rapid.IntRange(0, 5).Draw(rt, "who")
					if n >= len(processes) {
						continue
					}
					if rapid.IntRange(0, 3).Draw(rt, "dies") == 0 && len(parts.parts) > 0 {
						processes[n] = again(rt, node, p, parts, counts)
					}
					v := processes[n]
					for _, e := range log[:i+1] {
						v.Apply(e)
					}
					if rapid.Bool().Draw(rt, "looks") {
						sameView(rt, all, v)
					}
					parts.put(rt, v, rapid.IntRange(0, 9).Draw(rt, "anew") == 0)
					require.LessOrEqual(rt, len(parts.parts), 12)
					sameView(rt, all, again(rt, node, p, parts, counts))
				}
				whole(rt, node, p, all, counts)
			}
		}
	})
}

// TestSnapshotOfAllPayloads: a view that has seen everything can be stored after each event.
func TestSnapshotOfAllPayloads(t *testing.T) {
	node := tree(t).Root()
	v := view.New(node, view.Full().WithFiles(), "")
	for i, d := range sessiontest.Payloads() {
		for _, who := range []string{node.Agent.Name(), "user", "another"} {
			v.Apply(&event.Event{Seq: v.Seq() + 1, ID: "c1", RunID: "r", Agent: who, Data: d})
			require.NotEmpty(t, whole(t, node, view.Full().WithFiles(), v, false), "%d", i)
		}
	}
}

// TestSnapshotsGrowSlowly: each message is written a few times, however long the conversation is.
func TestSnapshotsGrowSlowly(t *testing.T) {
	node := tree(t).Root()
	v, parts, written := view.New(node, view.Full(), ""), new(stored), 0
	const turns = 4096
	for i := range turns {
		v.Apply(&event.Event{Seq: int64(i + 1), Agent: "user", Data: &event.User{Content: llm.Content{Text: strings.Repeat("word ", 40)}}})
		if i%8 == 7 {
			parts.put(t, v, false)
			written += len(parts.parts[len(parts.parts)-1])
		}
	}
	kept := 0
	for _, p := range parts.parts {
		kept += len(p)
	}
	require.LessOrEqual(t, len(parts.parts), 11)
	require.Less(t, kept, turns*210)
	require.Less(t, written, 11*kept, "%d written for %d", written, kept)
	sameView(t, v, again(t, node, view.Full(), parts, false))
}

// TestSnapshotsOfAnotherView: what belongs to another agent, policy or tree is not used.
func TestSnapshotsOfAnotherView(t *testing.T) {
	answers := scripted.Func("m", func(*llm.Request) scripted.Answer { return scripted.Reply(scripted.Text("ok")) })
	plant := func(kid string, opts ...llmagent.Option) *agent.Node {
		child, err := llmagent.New(kid, "", answers)
		require.NoError(t, err)
		root, err := llmagent.New("root", "", answers, append(opts, llmagent.WithSubAgents(child))...)
		require.NoError(t, err)
		tree, err := agent.NewTree(root)
		require.NoError(t, err)
		return tree.Root()
	}
	node, s := plant("kid"), new(stored)
	v := view.New(node, view.Full(), "")
	v.Apply(&event.Event{Seq: 1, Agent: "user", Data: &event.User{Content: llm.Content{Text: "hi"}}})
	s.put(t, v, false)
	restores := func(v *view.View) bool {
		before := v.Seq()
		ok := v.Restore(s.parts)
		if !ok {
			require.Equal(t, before, v.Seq())
			require.Empty(t, v.Messages())
		}
		return ok
	}
	require.True(t, restores(view.New(node, view.Full(), "")))
	require.True(t, restores(view.New(plant("kid"), view.Full(), "")), "another process has the same tree")
	for _, p := range []view.Policy{view.TextOnly(), view.Own(), view.LastTurns(3), view.Full().WithFiles(), view.Full().WithoutMedia()} {
		require.False(t, restores(view.New(node, p, "")), p.String())
	}
	require.False(t, restores(view.New(plant("other"), view.Full(), "")), "whose words are tagged is another matter there")
	require.False(t, restores(view.New(plant("kid", llmagent.WithTransferTool("hand_over", "")), view.Full(), "")), "its calls have other names")
	require.False(t, restores(view.New(node.Children()[0], view.Full(), "")))
	require.False(t, restores(view.New(node, view.Full(), "inner")))
	counting := view.New(node, view.Full(), "")
	counting.Count(nil)
	require.False(t, restores(counting))
	used := view.New(node, view.Full(), "")
	used.Apply(&event.Event{Seq: 1, Agent: "x", Data: &event.Notice{}})
	require.False(t, restores(used))
	require.False(t, view.New(node, view.Full(), "").Restore(nil))

	for _, p := range []view.Policy{view.Full().Redact(strings.ToUpper), view.Func(func(*event.Event) bool { return true })} {
		require.Empty(t, view.New(node, p, "").SnapshotName())
		require.False(t, restores(view.New(node, p, "")))
	}
	require.Empty(t, view.New(node, view.Full(), "inner").SnapshotName())
	require.Equal(t, `view "root"`, view.New(node, view.Full(), "").SnapshotName())
	require.NoError(t, session.CheckSnapshots(session.ID("s"), math.MaxInt64, []session.Snapshot{{Name: view.New(node, view.Full(), "").SnapshotName()}}))
}

// TestSnapshotsThatAreNone: damaged parts are refused, or make a view that works.
func TestSnapshotsThatAreNone(t *testing.T) {
	node := tree(t).Root()
	v, s := view.New(node, view.Full(), ""), new(stored)
	for i, d := range sessiontest.Payloads() {
		v.Apply(&event.Event{Seq: int64(i + 1), ID: "c1", RunID: "r", Agent: node.Agent.Name(), Data: d})
		if i == 5 {
			s.put(t, v, false)
		}
	}
	n, data, err := v.Snapshot(false)
	require.NoError(t, err)
	require.Zero(t, n, "the second is larger, and has both")
	for i := range data {
		require.False(t, view.New(node, view.Full(), "").Restore([]string{string(data[:i])}))
		for _, c := range []byte{0, 1, 0x7f, 0x80, 0xff, data[i] + 1} {
			usable(node, []string{string(data[:i]) + string(c) + string(data[i+1:])})
		}
	}
	require.False(t, view.New(node, view.Full(), "").Restore([]string{string(data) + "\x00"}))
	require.False(t, view.New(node, view.Full(), "").Restore([]string{string(data), ""}))

	// A gap, and parts of two generations.
	for i := range 40 {
		v.Apply(&event.Event{Seq: v.Seq() + 1, Agent: "user", Data: &event.User{Content: llm.Content{Text: strings.Repeat("words ", 1000-20*i)}}})
		if i%10 == 0 {
			s.put(t, v, i == 0)
		}
	}
	require.Greater(t, len(s.parts), 1)
	require.True(t, view.New(node, view.Full(), "").Restore(s.parts))
	require.False(t, view.New(node, view.Full(), "").Restore(s.parts[1:]))
	v.Apply(&event.Event{Seq: v.Seq() + 1, Agent: node.Agent.Name(), Data: &event.Compaction{UpTo: 5}})
	n, data, err = v.Snapshot(false)
	require.NoError(t, err)
	require.Zero(t, n)
	require.True(t, view.New(node, view.Full(), "").Restore([]string{string(data)}))
	require.False(t, view.New(node, view.Full(), "").Restore([]string{s.parts[0], string(data)}))
}

// usable does everything with a view of any parts.
func usable(node *agent.Node, parts []string) {
	v := view.New(node, view.Full(), "")
	if !v.Restore(parts) || v.Seq() > 1<<40 {
		return
	}
	look := func() {
		v.Messages()
		v.Pending()
		v.Run()
		v.Oldest(1, 1)
		v.Exchanges()
	}
	look()
	for _, d := range sessiontest.Payloads() {
		v.Apply(&event.Event{Seq: v.Seq() + 1, ID: "c1", RunID: "r", Agent: node.Agent.Name(), Data: d})
		look()
	}
	if _, _, err := v.Snapshot(false); err != nil {
		panic(err)
	}
}

func FuzzViewSnapshot(f *testing.F) {
	node := tree(f).Root()
	v := view.New(node, view.Full(), "")
	head := ""
	for i, d := range sessiontest.Payloads() {
		v.Apply(&event.Event{Seq: int64(i + 1), ID: "c1", RunID: "r", Agent: node.Agent.Name(), Data: d})
		_, data, err := v.Snapshot(true)
		require.NoError(f, err)
		head = string(data[:34]) // the form and the sum, which no chance finds
		f.Add(string(data[34:]), "")
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		usable(node, []string{head + one})
		usable(node, []string{head + one, head + two})
	})
}

// TestViewForm: views that are stored show what this version would show. Whoever changes what a view shows of a log gives
// viewForm the next number, and this test the sum that it prints.
func TestViewForm(t *testing.T) {
	tree, sum := tree(t), sha256.New()
	for _, policy := range []string{"full", "text_only", "own", "last_turns:1", "full+facts:9", "full+files", "full+no_media"} {
		p, err := view.Parse(policy)
		require.NoError(t, err)
		for node := range tree.Walk() {
			v := view.New(node, p, "")
			for range 2 {
				for _, who := range []string{"user", "support", "billing", "other"} {
					for i, d := range sessiontest.Payloads() {
						v.Apply(&event.Event{Seq: v.Seq() + 1, ID: fmt.Sprint("c", i%7), RunID: "r", Agent: who, Data: d})
					}
				}
			}
			fmt.Fprintf(sum, "%q", render(v.Messages()))
		}
	}
	require.Equal(t, "cf4bcaa7759870ad", hex.EncodeToString(sum.Sum(nil)[:8]))
}

// TestSnapshotsHaveEverything names what a view keeps. A field that is added must be in its snapshots, or follow from them,
// and viewForm gets the next number.
func TestSnapshotsHaveEverything(t *testing.T) {
	var fields func(of reflect.Type) string
	fields = func(of reflect.Type) (names string) {
		for i := range of.NumField() {
			f := of.Field(i)
			names += f.Name + " "
			if f.Type.Kind() == reflect.Slice && f.Type.Elem().PkgPath() == of.PkgPath() && f.Type.Elem().Kind() == reflect.Struct {
				names += "(" + fields(f.Type.Elem()) + ") "
			}
			if f.Type.PkgPath() == of.PkgPath() && f.Type.Kind() == reflect.Struct && f.Name != "policy" {
				names += "{" + fields(f.Type) + "} "
			}
		}
		return strings.TrimSpace(names)
	}
	require.Equal(t, "agent node scope policy hideReason applies failed seq shown {msgs marks (seq tokens turn) turns generation count tokens seen files} "+
		"open {agent text reasoning sealed show calls (Call {ID Name RunID Seq Input Asked Answer Answers Answered relay input} result isError settled hidden wire files) last} "+
		"run {Handed From Reason Bounced Returned Wordless Spoken Refused Limited Answered Called Decided Empty Misfit Failures (Name Input Error Answers last)} handed arrival {to from bounced returned wordless spoken} asks asked "+
		"use {reported counted} dropped {upTo summary at tries failed since} said {last (Said By)} entered outside kept {generation parts (first size) end} read",
		fields(reflect.TypeFor[view.View]()))
}
