package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/conversation"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/checkpoint"
)

var afterFork = rapid.SampledFrom([]string{"resume", "run", "decide", "adopt", "edit"})

// fork goes on from a random checkpoint in a session of its own, and holds both
// sessions against what is always true of forks.
func (w *world) fork(to session.Key) {
	ctx := context.WithValue(context.Background(), worldKey{}, w)
	past := must.Get(checkpoint.New(w.store, checkpoint.WithIDs(w.newID)))
	var seqs, said []int64
	for _, c := range must.All(past.History(ctx, s1)) {
		seqs = append(seqs, c.Seq)
		if c.Events[0].Type() == event.TypeUser {
			said = append(said, c.Seq)
		}
	}
	if len(seqs) == 0 {
		return
	}
	what := afterFork.Draw(w.rt, "after the fork")
	var seq int64
	if what == "edit" {
		seq = rapid.SampledFrom(said).Draw(w.rt, "message")
		require.NoError(w.t, past.Edit(ctx, s1, seq, w.message().Content, to))
		seq--
	} else {
		seq = rapid.SampledFrom(seqs).Draw(w.rt, "checkpoint")
		require.NoError(w.t, past.Fork(ctx, s1, seq, to))
	}
	fold := &session.Fold{}
	for _, e := range w.log[:seq] {
		fold.Apply(e)
	}
	open, paused := fold.Scope("").Run.Open, fold.Paused()
	if paused && what == "resume" && rapid.Bool().Draw(w.rt, "decide after all") {
		what = "decide" // which does little where nothing waits
	}
	w.happened["a fork"] = true
	w.acts, w.forks = append(w.acts, fmt.Sprintf("%s behind seq %d, then %s twice", to, seq, what)), append(w.forks, to)

	// What models and tools know of the session is not what they know of the fork.
	last, ran := w.last, w.ran
	w.last, w.ran = make(map[string]shown), make(map[string]*execution)
	defer func() { w.last, w.ran = last, ran }()
	if open && slices.ContainsFunc(fold.Open(), func(scope string) bool { return scope != "" }) {
		w.happened["a fork inside of an agent tool"] = true
	}
	if paused {
		w.happened["a fork that waits for a decision"] = true
	}
	for range 2 {
		w.goOn(ctx, to, what, seq)
	}
	shared, own := load(w.t, w.runner(), to), []*event.Event(nil)
	shared, own = shared[:seq], shared[seq:]
	require.Equal(w.t, w.known[:seq], w.encoded(shared))
	require.Equal(w.t, w.known, w.encoded(load(w.t, w.runner(), s1)), "the fork has changed the session")
	checkLogOf(w.t, w.runner(), slices.Concat(shared, own), w.resumeRoot)
	w.checkGraphs(slices.Concat(shared, own))
	w.checkFlows(slices.Concat(shared, own))
	w.checkGuards(own)
	w.checkSteps(slices.Concat(shared, own))
	w.checkMessages(slices.Concat(shared, own))
	w.checkAsked(slices.Concat(shared, own), false)
	answers := make(map[string]int)      // in the fork, by call
	questions := make(map[string]string) // calls by question
	for i, e := range slices.Concat(shared, own) {
		switch d := e.Data.(type) {
		case *event.Relay:
			if d.Kind == event.RelayInput {
				questions[e.ID] = d.ToolCallID
			}
		case *event.RelayResolved:
			if i >= len(shared) {
				answers[questions[d.RelayID]]++
			}
		}
	}
	for id, x := range w.ran { // once, and not at all if the other session has made the call
		if call, _ := fold.Call(id); (call != nil || x.times > 1+answers[id]) && !x.info.Idempotent {
			w.t.Fatalf("the call %s of %s was executed %d times in the fork", id, x.info.Name, x.times)
		}
	}
	theirs := make(map[string]bool)
	for _, e := range w.log {
		theirs[e.RunID] = true
	}
	for _, e := range own {
		if _, ok := e.Data.(*event.Notice); ok && e.Agent == "user" {
			continue // beside the words that nobody has answered yet
		}
		require.False(w.t, theirs[e.RunID], "the run %s is written to in both sessions", e.RunID)
	}
	if len(own) > 0 && (open || paused || fold.Waits() && (what == "resume" || what == "decide")) {
		w.happened["a fork that takes up a run"] = true
		require.Equal(w.t, event.TypeHarnessStart, own[0].Type())
		require.Equal(w.t, event.NoticeForked, own[1].Data.(*event.Notice).Code)
	}

	// Together they are one conversation, whichever is read first.
	one, other := reduced(w.log, shared, own), reduced(shared, own, w.log)
	require.Equal(w.t, content(w.t, one), content(w.t, other))
	require.Equal(w.t, reduced(w.log).Len()+reduced(shared, own).Len()-reduced(shared).Len(), one.Len())
	if len(own) > 0 {
		starts := one.Parents(own[0].RunID + ":" + own[0].Type())
		if own[0].ParentID == "" {
			require.Empty(w.t, starts)
		} else {
			require.Len(w.t, starts, 1)
			id, run := starts[0].ID, starts[0].RunID
			require.Contains(w.t, []string{id, run + ":" + id}, own[0].ParentID)
		}
	}
}

// goOn does something with a fork.
func (w *world) goOn(ctx context.Context, key session.Key, what string, shared int64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.key, w.stop, w.stopped = key, cancel, false
	clear(w.taken)
	finish := collect
	if oneInFour.Draw(w.rt, "dies") == 0 {
		finish = gather
		n, lost := forkWrites.Draw(w.rt, "write"), rapid.Bool().Draw(w.rt, "answer lost")
		w.acts = append(w.acts, fmt.Sprintf("  the store dies at write %d, behind it: %v", n, lost))
		w.store.dieAt(n, lost, false)
	}
	r := w.runner()
	var err error
	switch what {
	case "run":
		_, err = finish(r.Run(ctx, key, w.message()))
	case "decide":
		given, refused := w.openDecisions(key, shared)
		if refused {
			_, err = collect(w.runner().Resume(ctx, key, given...))
			require.ErrorIs(w.t, err, runner.ErrNoApproval)
			w.happened["a decision that a fork refuses"] = true
			given = nil
		}
		_, err = finish(r.Resume(ctx, key, given...))
	case "adopt":
		_, err = finish(r.Adopt(ctx, key))
		if errors.Is(err, session.ErrStopped) {
			log := load(w.t, w.runner(), key)
			notice, ok := log[len(log)-1].Data.(*event.Notice)
			require.True(w.t, ok && notice.Code == event.NoticeStopped, "only a turn that was stopped is left")
			w.happened["a fork of a stopped turn that is left"] = true
			err = nil
		}
	default:
		_, err = finish(r.Resume(ctx, key))
	}
	if len(w.problems) > 0 {
		w.t.Fatalf("%s", strings.Join(w.problems, "\n"))
	}
	died := w.store.revive()
	if died {
		w.happened["a store that dies in a fork"] = true
	}
	w.acts = append(w.acts, fmt.Sprintf("  gave the error %v", err))
	w.checkError(err, act{}, died)
}

var forkWrites = rapid.IntRange(1, 3)

func reduced(logs ...[]*event.Event) *conversation.Graph {
	g := conversation.New()
	for _, log := range logs {
		for _, e := range log {
			g = g.Reduce(e)
		}
	}
	return g
}

// content returns a graph's nodes and edges in an order of their own. Two branches
// may answer the same call; which of the results has the plain id, and which the
// one with its run in front, depends on which was there first, as does which of two
// decisions about one question the node shows.
func content(t require.TestingT, g *conversation.Graph) []string {
	name := func(n conversation.Node) string { return n.RunID + " " + strings.TrimPrefix(n.ID, n.RunID+":") }
	var out []string
	for n := range g.Nodes() {
		data := must.Get(json.Marshal(n))
		_, data, _ = bytes.Cut(data, []byte(","))
		if n.Kind == event.TypeRelay {
			data = decided.ReplaceAll(data, nil)
		}
		out = append(out, name(n)+" "+string(data))
		for _, child := range g.Children(n.ID) {
			out = append(out, name(n)+" -> "+name(child))
		}
	}
	slices.Sort(out)
	return out
}

var decided = regexp.MustCompile(`"state":"(approved|denied)",`)

func (w *world) encoded(events []*event.Event) []string {
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = w.encode(e)
	}
	return out
}

// openDecisions approves every call that waits for a decision, and answers what others ask. Refused
// says that one of them waits in the session that this one is a fork of.
func (w *world) openDecisions(key session.Key, shared int64) (decisions []runner.Decision, refused bool) {
	fold := &session.Fold{}
	for _, e := range must.All(w.store.Load(context.Background(), key, 0)) {
		fold.Apply(e)
	}
	for _, c := range fold.Scope("").Run.Pending {
		if c.Relay != "" && !c.Resolved {
			d := runner.Approve(c.ID)
			refused = refused || c.Made <= shared && c.Asks.Kind != event.RelayInput
			switch {
			case c.Asks.Kind != event.RelayInput:
			case len(c.Asks.Schema) > 0:
				d = runner.Answer(c.ID, someNumbers.Draw(w.rt, "answer"))
			default:
				d = runner.Answer(c.ID, someReplies.Draw(w.rt, "answer"))
			}
			d.State = map[string]any{"decided": c.ID}
			decisions = append(decisions, d)
		}
	}
	return decisions, refused
}
