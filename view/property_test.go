package view_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// writes is a store that notes where each atomic write ends.
type writes struct {
	session.Store
	ends map[int64]bool
}

func (s *writes) Write(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	if len(w.Events) > 0 {
		s.ends[w.End().Seq] = true
	}
	return s.Store.Write(ctx, key, w)
}

// randomLog has a real runner write a random log. It returns that with the tree,
// and where each atomic write ends, which is where somebody may look at it.
func randomLog(rt *rapid.T, turns int, own ...tools.Tool) (tree *agent.Tree, log []*event.Event, ends map[int64]bool) {
	names := []string{"root", "left", "right", "leaf"}
	answer := func(req *llm.Request) scripted.Answer {
		if rapid.IntRange(0, 2).Draw(rt, "answer") == 0 {
			return scripted.Reply(scripted.Text("ok"))
		}
		var items []scripted.Item
		if rapid.Bool().Draw(rt, "think") {
			items = append(items, scripted.Think("hm"))
		}
		if rapid.Bool().Draw(rt, "speak") {
			items = append(items, scripted.Text(rapid.SampledFrom([]string{"Well.", " ", "[root] x"}).Draw(rt, "text")))
		}
		for range rapid.IntRange(0, 3).Draw(rt, "calls") {
			if rapid.Bool().Draw(rt, "transfer") {
				items = append(items, scripted.Call(agent.TransferTool, fmt.Sprintf(`{"agent_name":%q,"reason":"r"}`, rapid.SampledFrom(append(names, "x")).Draw(rt, "to"))))
			} else {
				items = append(items, scripted.Call(rapid.SampledFrom([]string{"fine", "broken", "none"}).Draw(rt, "tool"), "{}"))
			}
		}
		if rapid.Bool().Draw(rt, "usage") {
			items = append(items, scripted.Usage(rapid.IntRange(1, 500).Draw(rt, "input"), 5, 0))
		}
		if rapid.IntRange(0, 9).Draw(rt, "cut") == 9 {
			items = append(items, scripted.Cut())
		}
		return scripted.Reply(items...)
	}
	open := agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true}
	made := func(name string, kids ...agent.Agent) agent.Agent {
		return must.Get(llmagent.New(name, "", scripted.Func(name, answer), llmagent.WithSubAgents(kids...), llmagent.WithTransferPolicy(open),
			llmagent.WithTools(own...), llmagent.WithParallelTools(1)))
	}
	root := made("root", agent.Via(made("left", made("leaf")), agent.HideReason()), made("right"))
	store := &writes{Store: sessiontest.Memory(rt), ends: make(map[int64]bool)}
	r := must.Get(runner.New(root, store))
	key := session.ID("s")
	for turn := range rapid.IntRange(1, turns).Draw(rt, "turns") {
		stop, n := rapid.IntRange(0, 40).Draw(rt, "stop"), 0
		for _, err := range r.Run(context.Background(), key, llm.UserText(fmt.Sprint("turn ", turn))) {
			if n++; err != nil || n == stop {
				break
			}
		}
	}
	log = must.All(r.History(context.Background(), key))
	return r.Tree(), log, store.ends
}

// compacted puts compactions of random agents between the writes of a log.
func compacted(rt *rapid.T, tree *agent.Tree, log []*event.Event, ends map[int64]bool) ([]*event.Event, map[int64]bool) {
	var agents []string
	for n := range tree.Walk() {
		agents = append(agents, n.Agent.Name())
	}
	var more []*event.Event
	moreEnds := make(map[int64]bool)
	add := func(e *event.Event) int64 {
		c := *e
		c.Seq = int64(len(more) + 1)
		more = append(more, &c)
		return c.Seq
	}
	for _, e := range log {
		seq := add(e)
		if moreEnds[seq] = ends[e.Seq]; ends[e.Seq] && rapid.IntRange(0, 5).Draw(rt, "compact") == 5 {
			upTo := rapid.Int64Range(-1, seq+3).Draw(rt, "upTo")
			seq = add(&event.Event{Agent: rapid.SampledFrom(agents).Draw(rt, "of"), Data: &event.Compaction{UpTo: upTo, Summary: rapid.SampledFrom([]string{"", "Sum."}).Draw(rt, "summary")}})
			if rapid.Bool().Draw(rt, "its usage") {
				seq = add(&event.Event{Agent: more[len(more)-1].Agent, Data: &event.Usage{InputTokens: 9}})
			}
			moreEnds[seq] = true
		}
	}
	return more, moreEnds
}

// TestIncrementalViews compares, after every write of a random log, a view that
// was asked for its messages all along with one that reads the same log at once,
// and checks both for what is true of every view.
func TestIncrementalViews(t *testing.T) {
	require.NoError(t, flag.Set("rapid.nofailfile", "true")) // a failure prints its seed
	fine := must.Get(tools.Func("fine", "", func(tools.Context, struct{}) (string, error) { return "fine\nindeed", nil }))
	broken := must.Get(tools.Func("broken", "", func(tools.Context, struct{}) (string, error) { return "", errors.New("on fire") }))

	rapid.Check(t, func(rt *rapid.T) {
		tree, log, ends := randomLog(rt, 6, fine, broken)
		if rapid.Bool().Draw(rt, "compactions") {
			log, ends = compacted(rt, tree, log, ends)
		}
		for _, policy := range []string{"full", "text_only", "own", "last_turns:1", "last_turns:2"} {
			p := must.Get(view.Parse(policy))
			for node := range tree.Walk() {
				follow(rt, policy, p, node, log, ends)
			}
		}
	})
}

// strays applies to a view what the log does not have. No copy of it may show that.
func strays(v *view.View, agentName string) {
	for _, d := range []event.Data{&event.ToolResult{Name: "fine", Output: json.RawMessage(`"stray"`)}, &event.Text{Content: "stray"}, &event.User{Content: llm.Content{Text: "stray"}},
		&event.ToolCall{Name: "fine"}, &event.Usage{InputTokens: 3}, &event.Transfer{From: "root", To: agentName, Outcome: event.TransferCommitted}} {
		for i := range v.Pending() {
			v.Apply(&event.Event{Seq: v.Seq() + 1, ID: v.Pending()[i].ID, Agent: agentName, Data: &event.File{Name: "stray", ToolCallID: v.Pending()[i].ID}})
		}
		v.Apply(&event.Event{Seq: v.Seq() + 1, ID: "stray", Agent: agentName, Data: d})
		v.Messages()
	}
}

// follow looks at a view of an agent after every write of a log.
func follow(rt *rapid.T, policy string, p view.Policy, node *agent.Node, log []*event.Event, ends map[int64]bool) {
	newView := func() *view.View {
		v := view.New(node, p, "")
		v.Count(nil)
		return v
	}
	v := newView()
	var before []llm.Message
	var wasBefore []string
	user, shrunk, last := false, false, ""
	for i, e := range log {
		other := v.Copy().(*view.View)
		if i%2 == 0 {
			v, other = other, v
		}
		v.Apply(e)
		strays(other, node.Agent.Name())
		switch d := e.Data.(type) {
		case *event.User:
			user, last = true, d.Content.Text
		case *event.Compaction:
			shrunk = shrunk || e.Agent == node.Agent.Name()
		}
		if !ends[e.Seq] {
			continue // nobody ever sees half of a write
		}
		got := v.Messages()
		lines := render(got)
		at := func() string { return fmt.Sprintf("%s of %s at seq %d", policy, node.Agent.Name(), e.Seq) }
		fresh := newView()
		for _, e := range log[:i+1] {
			fresh.Apply(e)
		}
		if want := render(fresh.Messages()); !reflect.DeepEqual(want, lines) || !reflect.DeepEqual(fresh.Pending(), v.Pending()) || !reflect.DeepEqual(fresh.Run(), v.Run()) {
			rt.Fatalf("%s:\n%q\n%q", at(), want, lines)
		}
		count, request := v.Tokens()
		freshCount, freshRequest := fresh.Tokens()
		if want := llm.CountRequest(&llm.Request{Messages: got}, nil) - 3; count != want || freshCount != want || request != freshRequest {
			rt.Fatalf("%s: %d tokens, and %d from scratch, are %d; the request has %d and %d", at(), count, freshCount, want, request, freshRequest)
		}
		if grows := len(before) <= len(got) && slices.Equal(wasBefore, lines[:len(before)]); !grows && !shrunk && !(user && policy[0] == 'l') {
			rt.Fatalf("%s does not grow at its end:\n%q\n%q", at(), wasBefore, lines)
		}
		if !slices.Equal(wasBefore, render(before)) {
			rt.Fatalf("%s: messages that were handed out have changed:\n%q\n%q", at(), wasBefore, render(before))
		}
		if last != "" && !slices.Contains(lines, "user "+last) {
			rt.Fatalf("%s: the user's last words are not shown:\n%q", at(), lines)
		}
		req := &llm.Request{Messages: got}
		if !user { // nobody would be asked now
			req.Messages = append(got, llm.UserText("And?"))
		}
		if err := view.Check(req); err != nil {
			rt.Fatalf("%s: %v", at(), err)
		}
		for _, most := range []int{0, 20, math.MaxInt} {
			cutsWhole(rt, at, v, node, p, log[:i+1], most)
		}
		before, wasBefore, user, shrunk = got, lines, false, false
	}
}

// cutsWhole applies the compaction that a view proposes, and checks that the rest
// is a request as good as before.
func cutsWhole(rt *rapid.T, at func() string, v *view.View, node *agent.Node, p view.Policy, log []*event.Event, most int) {
	upTo, old := v.Oldest(20, most)
	if upTo == 0 {
		return
	}
	all := render(v.Messages())
	cut := view.New(node, p, "")
	for _, e := range log {
		cut.Apply(e)
	}
	cut.Apply(&event.Event{Seq: v.Seq() + 1, Agent: node.Agent.Name(), Data: &event.Compaction{UpTo: upTo, Summary: "Sum."}})
	got := cut.Messages()
	lines, rest := render(got), all[len(old):]
	if lines[0] != "user "+view.SummaryHead+"Sum." || !slices.Equal(lines[len(lines)-len(rest):], rest) || len(lines) > len(rest)+2 {
		rt.Fatalf("%s: up to %d leaves\n%q\nof\n%q", at(), upTo, lines, all)
	}
	if err := view.Check(&llm.Request{Messages: append(got, llm.UserText("And?"))}); err != nil {
		rt.Fatalf("%s, cut at %d: %v", at(), upTo, err)
	}
}
