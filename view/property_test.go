package view_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

// writes is a store that notes where each atomic write ends.
type writes struct {
	session.Store
	ends map[int64]bool
}

func (w *writes) Append(ctx context.Context, key session.Key, seq int64, lease session.Lease, events ...*agent.Event) error {
	w.ends[seq+int64(len(events))] = true
	return w.Store.Append(ctx, key, seq, lease, events...)
}

// TestIncrementalViews has a real runner write random logs and compares, after
// every write, a view that was asked for its messages all along with
// one that reads the same log at once.
func TestIncrementalViews(t *testing.T) {
	require.NoError(t, flag.Set("rapid.nofailfile", "true")) // a failure prints its seed
	names := []string{"root", "left", "right", "leaf"}
	fine, err := tools.Func("fine", "", func(tools.Context, struct{}) (string, error) { return "fine\nindeed", nil })
	require.NoError(t, err)
	broken, err := tools.Func("broken", "", func(tools.Context, struct{}) (string, error) { return "", errors.New("on fire") })
	require.NoError(t, err)

	rapid.Check(t, func(rt *rapid.T) {
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
			if rapid.IntRange(0, 9).Draw(rt, "cut") == 9 {
				items = append(items, scripted.Cut())
			}
			return scripted.Reply(items...)
		}
		open := agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true}
		must := func(name string, kids ...agent.Agent) agent.Agent {
			a, err := llmagent.New(name, "", scripted.Func(name, answer), llmagent.WithSubAgents(kids...), llmagent.WithTransferPolicy(open),
				llmagent.WithTools(fine, broken), llmagent.WithParallelTools(1))
			require.NoError(rt, err)
			return a
		}
		root := must("root", agent.Via(must("left", must("leaf")), agent.ShowReason()), must("right"))
		store := &writes{Store: session.NewMemory(), ends: make(map[int64]bool)}
		r, err := runner.New(root, store)
		require.NoError(rt, err)
		key := session.ID("s")
		for turn := range rapid.IntRange(1, 6).Draw(rt, "turns") {
			stop, n := rapid.IntRange(0, 40).Draw(rt, "stop"), 0
			for _, err := range r.Run(context.Background(), key, llm.UserText(fmt.Sprint("turn ", turn))) {
				if n++; err != nil || n == stop {
					break
				}
			}
		}
		var log []*agent.Event
		for e, err := range r.History(context.Background(), key) {
			require.NoError(rt, err)
			log = append(log, e)
		}
		for _, policy := range []string{"full", "text_only", "own", "last_turns:1", "last_turns:2"} {
			p, err := view.Parse(policy)
			require.NoError(rt, err)
			for node := range r.Tree().Walk() {
				v := view.New(node, p, "")
				var before []llm.Message
				user := false
				for i, e := range log {
					v.Apply(e)
					if _, ok := e.Data.(*agent.User); ok {
						user = true
					}
					if !store.ends[e.Seq] {
						continue // nobody ever sees half of a write
					}
					got := v.Messages()
					fresh := view.New(node, p, "")
					for _, e := range log[:i+1] {
						fresh.Apply(e)
					}
					same := reflect.DeepEqual(render(fresh.Messages()), render(got)) && reflect.DeepEqual(fresh.Pending(), v.Pending()) && fresh.Strikes() == v.Strikes()
					if !same {
						rt.Fatalf("%s of %s at seq %d:\n%q\n%q", policy, node.Agent.Name(), e.Seq, render(fresh.Messages()), render(got))
					}
					if grows := len(before) <= len(got) && slices.Equal(render(before), render(got[:len(before)])); !grows && !(user && policy[0] == 'l') {
						rt.Fatalf("%s of %s at seq %d does not grow at its end:\n%q\n%q", policy, node.Agent.Name(), e.Seq, render(before), render(got))
					}
					if user {
						if err := view.Check(&llm.Request{Messages: got}); err != nil {
							rt.Fatalf("%s of %s at seq %d: %v", policy, node.Agent.Name(), e.Seq, err)
						}
					}
					before, user = got, false
				}
			}
		}
	})
}
