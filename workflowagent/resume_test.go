package workflowagent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/workflowagent"
)

// trees are trees with workflows in them whose children are functions.
func trees(t testing.TB) map[string]func(c *calls) agent.Agent {
	broken := func(c *calls, name string) agent.Agent {
		return c.does(t, name, func(context.Context, string) (any, error) { return nil, errors.New("it is broken") })
	}
	return map[string]func(c *calls) agent.Agent{
		"a sequence": func(c *calls) agent.Agent {
			return sequential(t, "line", []agent.Agent{c.adds(t, "a"), c.adds(t, "b")})
		},
		"side by side": func(c *calls) agent.Agent {
			return parallel(t, "wide", []agent.Agent{c.adds(t, "a"), c.adds(t, "b"), c.adds(t, "c")})
		},
		"two at once": func(c *calls) agent.Agent {
			return parallel(t, "wide", []agent.Agent{c.adds(t, "a"), c.adds(t, "b"), c.adds(t, "c")}, workflowagent.WithConcurrency(2))
		},
		"a loop": func(c *calls) agent.Agent {
			return loop(t, "again", []agent.Agent{c.adds(t, "a"), c.adds(t, "b")}, longer(9))
		},
		"a loop to its limit": func(c *calls) agent.Agent {
			return loop(t, "again", []agent.Agent{c.adds(t, "a")}, workflowagent.WithLimit(2))
		},
		"one in another": func(c *calls) agent.Agent {
			wide := parallel(t, "wide", []agent.Agent{sequential(t, "line", []agent.Agent{c.adds(t, "a"), c.adds(t, "b")}), c.adds(t, "c")})
			return sequential(t, "all", []agent.Agent{loop(t, "again", []agent.Agent{wide}, workflowagent.WithLimit(2)), c.adds(t, "d")})
		},
		"an exit from a sequence": func(c *calls) agent.Agent {
			inner := sequential(t, "inner", []agent.Agent{c.adds(t, "a"), leaver(t, "critic", `{"result":"so"}`), c.adds(t, "x")})
			return sequential(t, "all", []agent.Agent{loop(t, "again", []agent.Agent{inner, c.adds(t, "y")}), c.adds(t, "b")})
		},
		"an exit from several": func(c *calls) agent.Agent {
			return loop(t, "again", []agent.Agent{parallel(t, "wide", []agent.Agent{c.adds(t, "a"), leaver(t, "critic", `{}`)}), c.adds(t, "y")})
		},
		"collected": func(c *calls) agent.Agent {
			return parallel(t, "wide", []agent.Agent{broken(c, "bad"), c.adds(t, "b")}, workflowagent.Collect())
		},
		"a failure": func(c *calls) agent.Agent {
			return sequential(t, "line", []agent.Agent{c.adds(t, "a"), broken(c, "bad")})
		},
		"one of two": func(c *calls) agent.Agent {
			return parallel(t, "wide", []agent.Agent{c.adds(t, "a"), broken(c, "bad")})
		},
		"handed over": func(c *calls) agent.Agent {
			s := scripted.New().Add("front", scripted.Reply(scripted.Text("One moment."), scripted.CallID("t", agent.TransferTool, `{"agent_name":"line"}`)))
			return must.Get(llmagent.New("front", "", s.Model("front"), llmagent.WithSubAgents(sequential(t, "line", []agent.Agent{c.adds(t, "a"), c.adds(t, "b")}))))
		},
	}
}

// TestCutAnywhere cuts the log of a run after each of its writes, and lets another process
// go on: with the outcome of the run that was not cut, and without a call of a child
// that had ended.
func TestCutAnywhere(t *testing.T) {
	for name, tree := range trees(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				whole := &calls{}
				log, failed := run(t, tree(whole))
				for k := 1; k < len(log); k++ {
					if log[k-1].Time.Equal(log[k].Time) {
						continue // of one write
					}
					where := fmt.Sprint("cut after ", k)
					ended := 0
					for _, e := range log[:k] {
						if d, ok := e.Data.(*event.HarnessEnd); ok && len(e.Agent) == 1 || ok && e.Agent == "bad" && d.FinishReason != "" {
							ended++
						}
					}
					store := sessiontest.Memory(t)
					fill(t, store, log[:k])
					again := &calls{}
					var err error
					for _, turnErr := range sessiontest.Turn(t, newRunner(t, tree(again), store).Resume(t.Context(), key)) {
						err = turnErr
					}
					after := logOf(t, store)
					require.Equal(t, failed == nil, err == nil, where)
					require.Equal(t, string(output(t, log)), string(output(t, after)), where)
					require.Equal(t, said(log), said(after), where)
					require.Equal(t, codes(log), codes(after), where)
					if failed == nil {
						require.Equal(t, len(whole.made)-ended, len(again.made), "%s: %v after %d had ended", where, again.made, ended)
					}
				}
			})
		})
	}
}

// fill stores events as they were written.
func fill(t testing.TB, store session.Store, log []*event.Event) {
	t.Helper()
	lease := must.Get(sessiontest.Acquire(context.Background(), store, key, session.Owner{Host: "test"}))
	require.NoError(t, sessiontest.Append(context.Background(), store, key, 0, lease, log...))
	require.NoError(t, sessiontest.Release(context.Background(), store, key, lease))
}

// TestConditionIsAskedOnce: what a loop has decided before a crash stands, whatever the
// condition says now.
func TestConditionIsAskedOnce(t *testing.T) {
	asked := 0
	tree := func(c *calls, done bool) agent.Agent {
		return loop(t, "again", []agent.Agent{c.adds(t, "a"), c.adds(t, "b")}, workflowagent.WithLimit(2),
			workflowagent.Until(func(context.Context, *agent.Invocation, json.RawMessage) (bool, error) { asked++; return done, nil }))
	}
	log := must.Get(run(t, tree(&calls{}, false)))
	require.Equal(t, 2, asked)
	at := 0
	for i, e := range log {
		if _, ok := e.Data.(*event.HarnessStart); ok && e.Agent == "a" {
			at = i + 1 // the second round has begun
		}
	}
	store := sessiontest.Memory(t)
	fill(t, store, log[:at])
	must.All(newRunner(t, tree(&calls{}, true), store).Resume(t.Context(), key))
	require.Equal(t, `"go a b a b"`, string(output(t, logOf(t, store))))
	require.Equal(t, 3, asked, "about the second round only")
}

// TestTransfers: a coordinator hands over to a workflow, and its parent answers next.
func TestTransfers(t *testing.T) {
	both := agent.TransferPolicy{AllowTransferToParent: true, AllowTransferToPeers: true}
	s := scripted.New(scripted.WithRecording()).
		Add("front", scripted.Reply(scripted.CallID("t1", agent.TransferTool, `{"agent_name":"line"}`)), scripted.Reply(scripted.Text("Anything else?"))).
		Add("writer", scripted.Reply(scripted.CallID("t2", agent.TransferTool, `{"agent_name":"poet"}`))).
		Add("poet", scripted.Reply(scripted.Text("Roses."))).
		Add("critic", scripted.Reply(scripted.Text("Fine.")))
	made := func(name string, opts ...llmagent.Option) agent.Agent {
		return must.Get(llmagent.New(name, "", s.Model(name), append(opts, llmagent.WithDescription("Is "+name), llmagent.WithTransferPolicy(both))...))
	}
	line := sequential(t, "line", []agent.Agent{made("writer", llmagent.WithSubAgents(made("poet"))), made("critic")})
	front := made("front", llmagent.WithSubAgents(line, made("other")))
	store := sessiontest.Memory(t)
	r := newRunner(t, front, store)
	log := must.Get(say(t, r, store, "Write me something."))
	require.Equal(t, "Fine.", said(log))
	require.Equal(t, []string{`"Fine."`}, ends(log, "line"))
	require.Equal(t, []string{`"Roses."`}, ends(log, "poet"), "it has the inner conversation")
	require.Equal(t, "Roses.", s.Requests("critic")[0].Messages[0].PlainText())
	require.Empty(t, s.Requests("critic")[0].Tools, "a workflow is nobody's parent, and its children are no peers")
	require.Len(t, s.Requests("poet")[0].Tools, 1, "back to the writer")
	for _, e := range log {
		if d, ok := e.Data.(*event.Transfer); ok {
			require.Equal(t, d.From == "front", e.Scope == "", "a transfer inside moves the inner conversation only")
		}
	}
	log = must.Get(say(t, r, store, "Thanks."))
	require.Equal(t, "Fine.Anything else?", said(log))
	require.NoError(t, s.Done())
}

// TestStays: a workflow that is to stay in charge does.
func TestStays(t *testing.T) {
	c := &calls{}
	s := scripted.New().Add("front", scripted.Reply(scripted.CallID("t1", agent.TransferTool, `{"agent_name":"line"}`)))
	front := must.Get(llmagent.New("front", "", s.Model("front"), llmagent.WithSubAgents(
		sequential(t, "line", []agent.Agent{c.adds(t, "a")}, workflowagent.WithReturn(agent.StayActive)))))
	store := sessiontest.Memory(t)
	r := newRunner(t, front, store, runner.WithStreaming())
	must.Get(say(t, r, store, "one"))
	log := must.Get(say(t, r, store, "two"))
	require.Equal(t, "one atwo a", said(log))
}
